//! Where the volumes in a dump lie: each from its first block of nodes to its last, and the blank
//! blocks behind that.
//!
//! Volumes side by side are told apart where the byte order changes, and where nodes say different
//! things of one version of an inode or of a directory: a volume gives each version once
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

/// The bytes that a volume proves to be its own, and how sure their ends are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeExtent {
    /// Data bytes of the device.
    pub range: Range<u64>,
    /// Behind these all is blank.
    pub used_end: u64,
    /// The byte order of its nodes.
    pub order: ByteOrder,
    /// What is not sure of its ends, a sentence each.
    pub doubts: Vec<String>,
}

/// Every volume in a dump, ascending. The erase size of the device itself does not matter.
///
/// Cost: a pass over all data bytes, at memory speed, and a look through each volume.
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

/// The erase size that the nodes of a stretch prove, or else the smallest unit in which a volume
/// can lie.
fn proven_block(device: &dyn Look, nodes: &Range<u64>, known: &Assumptions<'_>) -> u32 {
    let least = ERASE_SIZE_MIN.max(known.page_size);
    let probe = probe_parts(device, std::slice::from_ref(nodes), Depth::Thorough, known);
    probe.as_ref().and_then(Probe::proven_erase_size).unwrap_or(least)
}

/// A stretch of nodes in whole blocks, and the blank ones behind it, between what lies on both
/// sides.
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
