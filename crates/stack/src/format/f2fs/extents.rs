//! Extents of files in an F2FS volume, with their segments.

use nandkit_f2fs::Blocks;
use nandkit_f2fs::SegmentIndex;
use nandkit_f2fs::segment_map::SegmentMap;
use nandkit_vfs::{FileExtent, FsError, InodeNumber, Result};

use super::recovery::Mounted;
use crate::format::extents::{PlacedExtent, of};

/// The extents of a file, with their segments. Errors include those of reading the table of
/// segments.
pub(super) fn of_mounted(mounted: &Mounted, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
    let all = match of(&mounted.volume, inode)? {
        Ok(all) => all,
        Err(error) => return Some(Err(error)),
    };
    Some(
        SegmentMap::read(&mounted.volume, mounted.volume.checkpoint_state().0)
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
