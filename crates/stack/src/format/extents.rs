//! Where files of an image lie in it.

use std::ops::Range;

use nandkit_vfs::{FileExtent, FileSystem, InodeNumber, Result, all_extents};

/// An extent of a file; its address counts from the beginning of the part that was opened. `None`
/// also for what only a recovery in memory has put somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExtent {
    /// The extent.
    pub extent: FileExtent,
    /// Of a format with segments: those of the main area in which it lies.
    pub segments: Option<Range<u32>>,
    /// The type of the first of them.
    pub kind: Option<&'static str>,
}

/// The extents of a file; `None` where the format has none.
pub(crate) fn of(fs: &dyn FileSystem, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
    let all = all_extents(fs.extents()?, inode);
    let plain = |extent| PlacedExtent { extent, segments: None, kind: None };
    Some(all.map(|all| all.into_iter().map(plain).collect()))
}
