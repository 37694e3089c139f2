//! Locating the volumes in a dump: each from its first block with nodes to its last, with the
//! following blank blocks.
//!
//! Adjacent volumes are separated where the byte order changes, and where nodes contradict each
//! other about one version of an inode or of a directory: a volume uses each version once
//! (fs/jffs2/nodelist.h, `highest_version`).

mod borders;
mod walk;

use std::ops::Range;

use nandkit_flash::Look;

use self::walk::Walk;
use super::ERASE_SIZE_MIN;
use super::likeness::{Assumptions, Probe, probe_parts};
use crate::layout::ByteOrder;
use nandkit_vfs::probe::Depth;

/// The bytes that provably belong to a volume, and how certain the ends are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeExtent {
    /// The range in data bytes of the device.
    pub range: Range<u64>,
    /// The rest of the range after this is blank.
    pub used_end: u64,
    /// The byte order of its nodes.
    pub order: ByteOrder,
    /// Uncertainties about its ends, one sentence each.
    pub doubts: Vec<String>,
}

/// All volumes in a dump, in ascending order. The device's own erase size does not matter.
///
/// Cost: a pass over all data bytes at memory speed, and a survey of each volume.
pub fn volumes(device: &dyn Look, known: &Assumptions<'_>) -> Vec<VolumeExtent> {
    let walk = Walk::over(device);
    let stretches = walk.stretches();
    let mut found: Vec<VolumeExtent> = Vec::new();
    for (index, stretch) in stretches.iter().enumerate() {
        let floor = found.last().map_or(0, |last| last.range.end);
        let ceiling = stretches.get(index + 1).map_or(device.geometry().capacity(), |next| next.nodes.start);
        let block = proven_block(device, &stretch.nodes, known);
        let mut extent = with_blocks(device, &stretch.nodes, u64::from(block), floor..ceiling);
        extent.order = stretch.order;
        extent.doubts.extend(stretch.doubt.clone());
        found.push(extent);
    }
    found
}

/// The erase size proven by the nodes of a stretch, or else the smallest possible unit of a volume.
fn proven_block(device: &dyn Look, nodes: &Range<u64>, known: &Assumptions<'_>) -> u32 {
    let least = ERASE_SIZE_MIN.max(known.page_size);
    let probe = probe_parts(device, std::slice::from_ref(nodes), Depth::Thorough, known);
    probe.as_ref().and_then(Probe::proven_erase_size).unwrap_or(least)
}

/// Extends a stretch of nodes to whole blocks, and by the following blank ones, within `between`.
fn with_blocks(device: &dyn Look, nodes: &Range<u64>, block: u64, between: Range<u64>) -> VolumeExtent {
    let block = block.max(1);
    let start = (nodes.start / block * block).max(between.start);
    let used_end = nodes.end.next_multiple_of(block).min(between.end);
    let mut end = used_end;
    let mut bytes = vec![0; usize::try_from(block).unwrap_or(0)];
    while end < between.end {
        let length = (between.end - end).min(block);
        let Some(part) = bytes.get_mut(..length as usize) else { break };
        device.look_at(end, part);
        if !nandkit_units::is_erased(part) {
            break;
        }
        end += length;
    }
    VolumeExtent { range: start..end, used_end, order: ByteOrder::Little, doubts: Vec::new() }
}
