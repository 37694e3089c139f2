//! Plans repairs: mends nodes and directories in passes until nothing is left to mend, then
//! rebuilds all tables.

mod attach;
mod lost_entries;
pub(super) mod mend;
mod quota_mend;
pub(super) mod rebuild;
mod root;
mod standing;

use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Clock};
use nandkit_vfs::check::{Finding, LISTED_MAX, Report};
use nandkit_vfs::{self as vfs, ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::report::{Draft, naming_inode};
use super::{Check, batch, finished_check, packs, superblocks};
use crate::blocks::Blocks;
use crate::checkpoint_state::CheckpointState;
use crate::device::{DeviceBlocks, Devices};
use crate::encode::put;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, NodeId};
use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Features, Superblock};
use crate::open::{choose_superblock, roll_forward};
use mend::{Mender, Overlay};
use rebuild::ClaimedBlocks;

/// The most passes. Each mends everything it finds; the next one finds what that made visible.
const PASSES: usize = 24;
/// The passes of these that may handle what is below lost directories for which no name was found.
const PASSES_BELOW: usize = 4;

/// What to do with data fsynced after the last checkpoint; a repair restores the state of that
/// checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Refuse the volume.
    Refused,
    /// Drop the data.
    Dropped,
}

/// A planned repair. Nothing is written: the caller puts the blocks over a copy of the volume.
#[derive(Clone, Debug)]
pub struct Repair {
    /// What was wrong, what is repaired or left out, and what is still wrong once the blocks are in
    /// place.
    ///
    /// Still wrong can be only: damaged content of compressed clusters; an inode of a volume with
    /// encryption or verity that lacks what its flags promise; a directory that lost its first
    /// page, if no block is free for another; contradictory superblock features; and nodes that
    /// share a segment with data, if no other segment is free.
    pub report: vfs::check::Repair,
    /// The check of the volume once the blocks are in place.
    pub after: Report,
    /// Inodes that had lost their names and got new ones in `lost+found` or, without such a
    /// directory, in the root.
    pub attached: Vec<NodeId>,
    /// Nodes missing from the NAT that were found by their own blocks.
    pub found: Vec<NodeId>,
    /// Block size in bytes.
    pub block_size: u32,
    /// All changed blocks.
    pub blocks: BTreeMap<BlockAddress, Block>,
    /// Size of the whole volume in bytes; a device that was cut short must be extended to it.
    pub bytes: u64,
}

/// Plans a repair of the volume on these devices. Everything that the root leads to stays. Inodes
/// without a name get one: their number, or, if the root was lost, the name that they record.
/// Faults of nodes and directories are repaired or removed. NAT, SIT, SSA, counts, checkpoint packs
/// and superblocks are rebuilt. Nodes missing from the NAT are found by their own blocks if these
/// are valid in the SIT. Inodes that were deleted and still open are freed, as the next mount
/// would.
///
/// Not repaired: what [`Repair::report`] names. A quota file that has no room to be repaired is
/// marked as needing fsck; one whose inode is lost is removed from the superblock. Errors: those of
/// [`super::check`]; `Corrupt` (no usable checkpoint), `NotSupported` (fsynced data waits for
/// roll-forward, which must come first: [`crate::recover::recovered_several`]; packed summaries),
/// `NoSpace` (no free segment for a log).
pub fn repair<D: BlockDevice>(devices: Vec<D>, clock: Clock, waiting_data: Waiting) -> Result<Repair> {
    let mut devices = Devices::new(devices, clock)?;
    let mut told = Vec::new();
    let (superblock, geometry, _) = choose_superblock(&devices, &mut |defect| told.push(defect))?;
    devices.arrange(&geometry, &mut |defect| told.push(defect))?;
    if geometry.features.has(Features::PACKED_SSA) {
        return Err(FsError::new(
            ErrorKind::NotSupported,
            "the volume is not repaired: its summaries are packed (feature packed_ssa)",
        ));
    }
    let block_size = geometry.block_size() as u32;
    let mut report = Draft::of_volume(&geometry);
    told.into_iter().for_each(|defect| report.take(defect));
    superblocks::check(&devices, &superblock, &mut report);
    let blocks = DeviceBlocks { devices, geometry };
    let Some((pack, state)) = packs::check(&blocks, &mut Draft::default()) else {
        return Err(FsError::new(ErrorKind::Corrupt, "neither checkpoint pack can be used"));
    };
    let mut waiting = false;
    roll_forward::look(&blocks, &pack, &state, &mut |defect| waiting |= defect.kind == FindingKind::NotReplayed);
    if waiting && waiting_data == Waiting::Refused {
        let detail = "data fsynced after the last checkpoint would be dropped";
        return Err(FsError::new(ErrorKind::NotSupported, detail));
    }
    let before = finished_check(&blocks, &superblock, report);
    let mut overlay = Overlay { inner: &blocks, blocks: BTreeMap::new() };
    let (mut deleted, mut superblock) = (state.orphans.clone(), superblock);
    deleted.sort_unstable();
    deleted.dedup();
    let mut state = CheckpointState { orphans: Vec::new(), ..state };
    let mut dropped = Vec::new();
    let found = lost_entries::restore(&overlay, &superblock, &mut state);
    let root_is_new = root::provide(&mut overlay, &superblock, &mut state)?;
    if root_is_new {
        let detail = "the root directory is lost: it is made anew, and its inodes get the names that they record, which may be outdated after renames";
        dropped.push(Defect::new(FindingKind::Directory, detail.to_owned()).of(NodeId::ROOT));
    }
    let attached = mend_all(&mut overlay, &mut superblock, &state, &mut dropped, (root_is_new, &deleted))?;
    let tables: BTreeMap<BlockAddress, Block> = {
        let mut check = Check::new(&overlay, &superblock, &state, Draft::default());
        check.claimed = Some(ClaimedBlocks::default());
        check.walk_from_roots(&superblock);
        tell_left_out(&check, &mut dropped);
        check.check_quotas(&superblock);
        let claimed = check.claimed.take().unwrap_or_default();
        let mut parted = claimed.clone();
        let moved = check.part_nodes_from_data(&mut parted);
        match check.rebuild(&parted) {
            Ok(tables) => moved.into_iter().chain(tables).collect(),
            // The logs take precedence; nodes then stay among data.
            Err(error) if error.kind == ErrorKind::NoSpace && !moved.is_empty() => check.rebuild(&claimed)?,
            Err(error) => return Err(error),
        }
    };
    overlay.blocks.extend(tables);
    let superblock = superblocks::mended(&superblock);
    put_superblocks(&mut overlay, &superblock);
    let mut report = Draft::of_volume(&blocks.geometry);
    superblocks::check_features(&superblock, &mut report);
    let after = finished_check(&overlay, &superblock, report);
    let bytes = blocks.geometry.main_end() << blocks.geometry.log_block_size();
    let report = vfs::check::Repair {
        kept: after.count("nodes"),
        mended: mended(&before, &after, &attached, &found),
        dropped: dropped.into_iter().map(|defect| naming_inode(defect.into_finding(block_size))).collect(),
        remaining: after.faults().cloned().collect(),
        before,
    };
    Ok(Repair { report, after, attached, found, block_size, blocks: overlay.blocks, bytes })
}

/// Lists the faults that are gone and everything that was recovered.
fn mended(before: &Report, after: &Report, attached: &[NodeId], found: &[NodeId]) -> Vec<Finding> {
    let mut mended: Vec<Finding> = before.faults().filter(|fault| !after.findings.contains(fault)).cloned().collect();
    mended.extend(attached.iter().map(|inode| {
        let detail =
            format!("inode {} got a name in lost+found, or in the root if there is no such directory", inode.0);
        Finding::new(FindingKind::Orphan, detail)
    }));
    if !found.is_empty() {
        let detail = format!("{} nodes missing from the NAT were found by their own blocks", found.len());
        mended.push(Finding::new(FindingKind::Nat, detail));
    }
    mended
}

/// Runs passes until nothing is left to mend. Returns the inodes that got names. Errors: `Corrupt`
/// (the passes do not end).
fn mend_all(
    overlay: &mut Overlay<'_>,
    superblock: &mut Superblock,
    state: &CheckpointState,
    dropped: &mut Vec<Defect>,
    (mut root_is_new, deleted): (bool, &[NodeId]),
) -> Result<Vec<NodeId>> {
    let seed = crate::layout::inode::checksum_seed(&superblock.uuid);
    let geometry = overlay.inner.geometry();
    let (mut attached, mut hopeless) = (Vec::new(), BTreeSet::new());
    let (mut left_out, mut below) = (BTreeSet::new(), 0);
    for _ in 0..PASSES {
        let names = root_is_new && attached.is_empty();
        let mender = Mender::new(names, deleted, (hopeless.clone(), left_out.clone()));
        let (mut mender, lost_quotas) = pass_over(overlay, superblock, state, (&mut attached, mender));
        if !lost_quotas.is_empty() {
            superblocks::forget_quotas(superblock, &lost_quotas);
            dropped.extend(lost_quotas.into_iter().map(|nid| {
                let detail =
                    "the quota file and its limits: its inode is lost, and the superblock no longer refers to it";
                Defect::new(FindingKind::Quota, detail.to_owned()).of(nid)
            }));
            continue;
        }
        hopeless = std::mem::take(&mut mender.hopeless);
        let goes_below = !mender.nameless.is_empty() && below < PASSES_BELOW;
        if goes_below {
            left_out.extend(mender.nameless.iter().copied());
            below += 1;
        }
        if mender.is_idle() && !goes_below {
            return Ok(attached);
        }
        root_is_new |= mender.pageless.iter().any(|(nid, ..)| *nid == NodeId::ROOT);
        dropped.extend_from_slice(&mender.dropped);
        overlay.blocks.extend(mender.into_blocks(geometry, seed));
    }
    Err(FsError::new(ErrorKind::Corrupt, "the repair does not end: each pass damages something else"))
}

/// Visits everything once and collects the changes, and the quota files' inodes that cannot be
/// used.
fn pass_over(
    overlay: &Overlay<'_>,
    superblock: &Superblock,
    state: &CheckpointState,
    (attached, mender): (&mut Vec<NodeId>, Mender),
) -> (Mender, Vec<NodeId>) {
    let mut check = Check::new(overlay, superblock, state, Draft::default());
    check.mender = Some(mender);
    check.walk_from_roots(superblock);
    let quotas = superblock.quota_inodes.iter().filter_map(|field| NodeId(field.get()).some());
    let lost: Vec<NodeId> = quotas.filter(|nid| check.inodes.get(*nid).inode_type == 0).collect();
    if !lost.is_empty() {
        // Everything is visited again without them.
        return (Mender::default(), lost);
    }
    let whole = check.whole;
    check.find_lost();
    check.check_links();
    check.give_first_pages();
    if check.mender.as_ref().is_some_and(Mender::is_idle) {
        attached.extend(check.attach_lost());
    }
    // Counts are only correct once nothing else needs mending.
    if check.mender.as_ref().is_some_and(Mender::is_idle) {
        // Lost nodes that cannot be used are dropped and count for no one.
        check.whole = whole;
        check.mend_quotas(superblock);
    }
    (check.mender.take().unwrap_or_default(), lost)
}

/// Reports nodes that are still lost after all passes; they are dropped.
fn tell_left_out(check: &Check<'_>, dropped: &mut Vec<Defect>) {
    let left = check.nat.unreached().take(LISTED_MAX as usize);
    dropped.extend(left.map(|(nid, entry)| {
        Defect::new(FindingKind::Unreached, format!("{nid} of inode {}, which nothing refers to", entry.ino.get()))
    }));
}

/// Writes both superblocks as copies of the one in use.
fn put_superblocks(overlay: &mut Overlay<'_>, superblock: &Superblock) {
    for copy in [BlockAddress(0), BlockAddress(1)] {
        let mut block = match batch::one(overlay, Cause::Metadata, copy) {
            Ok(block) => block.to_vec(),
            Err(_) => vec![0; overlay.geometry().block_size()],
        };
        let before = block.clone();
        put(&mut block, SUPERBLOCK_OFFSET, superblock.as_bytes());
        if block != before {
            overlay.blocks.insert(copy, block.into());
        }
    }
}
