//! Where files of an image lie in it.

use std::ops::Range;

use nandkit_f2fs::SegmentIndex;
use nandkit_f2fs::blocks::Blocks;
use nandkit_f2fs::segment_map::SegmentMap;
use nandkit_vfs::{FileExtent, FileSystem, FsError, InodeNumber, Result, all_extents};

use super::f2fs::recovery::Mounted;

/// An extent of a file; its address counts from the beginning of the part that was opened. `None` also for what only a recovery in memory has put somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedExtent {
    /// The extent.
    pub extent: FileExtent,
    /// Of F2FS: the segments of the main area in which it lies.
    pub segments: Option<Range<u32>>,
    /// Of F2FS: the type of the first of them.
    pub kind: Option<&'static str>,
}

/// The extents of a file; `None` where the format has none.
pub(crate) fn of(fs: &dyn FileSystem, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
    let all = all_extents(fs.extents()?, inode);
    let plain = |extent| PlacedExtent { extent, segments: None, kind: None };
    Some(all.map(|all| all.into_iter().map(plain).collect()))
}

/// The same of F2FS, with segments. Errors: also those of reading the table of segments.
pub(crate) fn of_f2fs(mounted: &Mounted, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
    let all = match of(&mounted.volume, inode)? {
        Ok(all) => all,
        Err(error) => return Some(Err(error)),
    };
    Some(
        SegmentMap::read(&mounted.volume, mounted.volume.checkpoint().0)
            .map_err(in_table)
            .map(|map| all.into_iter().map(|placed| place(mounted, &map, placed)).collect()),
    )
}

fn in_table(error: FsError) -> FsError {
    FsError { detail: format!("the table of segments: {}", error.detail), ..error }
}

fn place(mounted: &Mounted, map: &SegmentMap, placed: PlacedExtent) -> PlacedExtent {
    let geometry = mounted.volume.geometry();
    let extent = placed.extent;
    let address =
        extent.address.filter(|address| mounted.is_in_image(&(*address..address.saturating_add(extent.length))));
    let segment = |byte: u64| {
        let block = u32::try_from(byte >> geometry.log_block_size()).ok()?;
        Some(geometry.main(nandkit_f2fs::BlockAddress(block))?.0)
    };
    let ends = address.and_then(|address| {
        let last = address.saturating_add(extent.length.max(1) - 1);
        Some((segment(address)?, segment(last)?))
    });
    let kind = |segment: SegmentIndex| {
        let kind = map.segments.get(segment.0 as usize)?.kind?;
        SegmentMap::NAMES.get(kind.index()).copied()
    };
    PlacedExtent {
        extent: FileExtent { address, ..extent },
        segments: ends.map(|(first, last)| first.0..last.0.saturating_add(1)),
        kind: ends.and_then(|(first, _)| kind(first)),
    }
}
