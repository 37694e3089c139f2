//! Where files are stored in an image.

use std::ops::Range;

use nandkit_vfs::{FileExtent, FileSystem, InodeNumber, Result, all_extents};

/// An extent of a file. Its address is counted from the start of the opened part; it is `None` for
/// holes and for data that only a recovery in memory has placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExtent {
    /// The extent.
    pub extent: FileExtent,
    /// The segments of the main area that hold it, for formats with segments.
    pub segments: Option<Range<u32>>,
    /// The type of the first of these segments.
    pub kind: Option<&'static str>,
}

/// The extents of a file; `None` where the format has none.
pub(crate) fn of(fs: &dyn FileSystem, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
    let all = all_extents(fs.extents()?, inode);
    let plain = |extent| PlacedExtent { extent, segments: None, kind: None };
    Some(all.map(|all| all.into_iter().map(plain).collect()))
}
