//! Plans a change of a volume's size: extends or shortens the main area, sizes the tables as
//! mkfs.f2fs would, and moves blocks as needed.
//!
//! Everything is planned in memory over the existing volume. First come the moves (`moves`), then
//! tables that describe what is where, then a repair pass over the result, which rebuilds tables,
//! counts and checkpoint and must find nothing to mend. A plan is only returned if a check of the
//! resulting volume is clean.

mod moves;
mod reshaped;
mod shape;

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Clock, format_bytes};
use nandkit_vfs::check::Report;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::repair::rebuild::ClaimedBlocks;
use super::report::Draft;
use super::{Check, batch, finished_check, packs, superblocks};
use crate::checkpoint_state::{CheckpointState, LogState};
use crate::device::{DeviceBlocks, Devices};
use crate::encode::put;
use crate::encode::sit_nat::{put_nat, put_sit};
use crate::findings::FindingKind;
use crate::ids::{Block, BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::sit::VALID_MAP_BYTES;
use crate::layout::superblock::SUPERBLOCK_OFFSET;
use crate::layout::{Geometry, NatEntry, SitEntry, Superblock};
use crate::open::{choose_superblock, roll_forward};
use moves::{Moves, Plan};
use reshaped::Reshaped;
use shape::Shape;

/// A planned resize. Nothing is written: the blocks must be put over the volume, all or none.
#[derive(Clone, Debug)]
pub struct Resize {
    /// All changed blocks.
    pub blocks: BTreeMap<BlockAddress, Block>,
    /// Block size in bytes.
    pub block_size: u32,
    /// Size of the volume before, in bytes of whole segments.
    pub bytes_before: u64,
    /// Size of the volume in bytes once the blocks are in place.
    pub bytes: u64,
    /// The number of file and node blocks that move.
    pub moved: u64,
    /// The check of the volume once the blocks are in place.
    pub after: Report,
}

/// Plans a new size for the volume on a device: the largest whole number of segments in `bytes`. To
/// grow, the device need not have that size yet.
///
/// Errors: those of [`super::check`]; `NoSpace` (`bytes` is too small; says the minimum);
/// `InvalidArgument` (`bytes` is too large); `NotSupported` (volumes that are never written, on
/// several devices, with sections of several segments, or not cleanly unmounted); `Corrupt`
/// (damage, to be repaired first). Cost: two checks, and reads all tables. Memory: that of a check,
/// and all changed blocks.
pub fn resize<D: BlockDevice>(device: D, clock: Clock, bytes: u64) -> Result<Resize> {
    let mut devices = Devices::new(vec![device], clock)?;
    let mut report = Draft::default();
    let (superblock, geometry, _) = choose_superblock(&devices, &mut |defect| report.take(defect))?;
    superblocks::check(&devices, &superblock, &mut report);
    devices.arrange(&geometry, &mut |defect| report.take(defect))?;
    let blocks = DeviceBlocks { devices, geometry };
    let Some((pack, state)) = packs::check(&blocks, &mut Draft::default()) else {
        return Err(FsError::new(ErrorKind::Corrupt, "neither checkpoint pack can be used; repair the volume first"));
    };
    let mut waiting = !state.orphans.is_empty();
    roll_forward::look(&blocks, &pack, &state, &mut |defect| waiting |= defect.kind == FindingKind::NotReplayed);
    refuse(&blocks.geometry, &state, waiting)?;
    let before = finished_check(&blocks, &superblock, report);
    if let Some(fault) = before.faults().next() {
        let detail = format!("the volume is damaged; repair it first: {fault}");
        return Err(FsError::new(ErrorKind::Corrupt, detail));
    }
    let mut check = Check::new(&blocks, &superblock, &state, Draft::default());
    check.claimed = Some(ClaimedBlocks::default());
    check.walk_from_roots(&superblock);
    let claimed = check.claimed.take().unwrap_or_default();
    let old = Old { check: &check, superblock: &superblock, state: &state, claimed: &claimed };
    let (shape, plan) = old.plan(bytes)?;
    if shape.geometry.segments == blocks.geometry.segments {
        let bytes = shape::bytes(&superblock, blocks.geometry.segments.into());
        let block_size = blocks.geometry.block_size() as u32;
        return Ok(Resize { blocks: BTreeMap::new(), block_size, bytes_before: bytes, bytes, moved: 0, after: before });
    }
    let resized = old.resized(&shape, plan)?;
    expect_same(&before, &resized.after)?;
    Ok(resized)
}

/// Refuses volumes that cannot be resized.
fn refuse(geometry: &Geometry, state: &CheckpointState, waiting: bool) -> Result<()> {
    let refused =
        |why: String| Err(FsError::new(ErrorKind::NotSupported, format!("the volume cannot be resized: {why}")));
    if let Some(why) = crate::write::obstacle(geometry, state) {
        return refused(why);
    }
    if geometry.devices.len() > 1 {
        return refused("it is on several devices".to_owned());
    }
    if geometry.segments_per_section != 1 || geometry.sections_per_zone != 1 {
        return refused("its sections or zones have several segments".to_owned());
    }
    if waiting {
        return refused("it was not unmounted; mount it for writing first".to_owned());
    }
    Ok(())
}

/// Checks that the content of the volume is unchanged.
fn expect_same(before: &Report, after: &Report) -> Result<()> {
    let wrong = |detail: String| Err(FsError::new(ErrorKind::Corrupt, format!("nothing was changed: {detail}")));
    if let Some(fault) = after.faults().next() {
        return wrong(format!("the resized volume would not be sound: {fault}"));
    }
    for name in ["files", "directories", "other_inodes", "nodes", "blocks_used"] {
        if before.count(name) != after.count(name) {
            return wrong(format!("{} {name} would become {}", before.count(name), after.count(name)));
        }
    }
    Ok(())
}

/// The volume before the resize.
struct Old<'a> {
    check: &'a Check<'a>,
    superblock: &'a Superblock,
    state: &'a CheckpointState,
    claimed: &'a ClaimedBlocks,
}

impl Old<'_> {
    /// The shape for a size of `bytes`, and where blocks go. Errors: `NoSpace`, `InvalidArgument`.
    fn plan(&self, bytes: u64) -> Result<(Shape, Plan)> {
        if bytes > shape::VOLUME_MAX {
            let detail =
                format!("a volume of {}; F2FS ends at {}", format_bytes(bytes), format_bytes(shape::VOLUME_MAX));
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let segments = shape::segments(self.superblock, bytes);
        if let Some(found) = self.fitting(segments) {
            return Ok(found);
        }
        // Search for the smallest size that works; without one, report that the volume is full.
        let (mut low, mut high) = (0, shape::segments(self.superblock, shape::VOLUME_MAX));
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.fitting(middle).is_some() { high = middle } else { low = middle }
        }
        let least = shape::bytes(self.superblock, high);
        let detail = format!(
            "{bytes} bytes are too few for the volume's content; the least is {least} bytes ({})",
            format_bytes(least)
        );
        Err(FsError::new(ErrorKind::NoSpace, detail))
    }

    /// The shape with this many segments, if everything fits.
    fn fitting(&self, segments: u64) -> Option<(Shape, Plan)> {
        let highest = self.claimed.nodes.keys().next_back().map_or(0, |nid| nid.0);
        let shape = Shape::of(self.superblock, &self.state.head, segments, highest)?;
        if shape.user_blocks() < self.state.head.valid_blocks.get() {
            return None;
        }
        let kind = |segment| self.check.segments.kind(segment).unwrap_or(Log::WarmData);
        let plan = Plan::new(self.check.geometry, &shape.geometry, self.claimed, &kind)?;
        Some((shape, plan))
    }

    /// The volume in its new shape. Errors: `Corrupt`, `Device`, `NoSpace`.
    fn resized(&self, shape: &Shape, plan: Plan) -> Result<Resize> {
        let geometry = &shape.geometry;
        let mut new = Reshaped { inner: self.check.blocks, geometry: geometry.clone(), blocks: BTreeMap::new() };
        let moves = Moves::new(self.check.blocks, self.claimed, self.check.checksum_seed, plan);
        let moved = moves.apply(&mut new)?;
        let state = self.state_in(geometry, &moves)?;
        if geometry.main_address() != self.check.geometry.main_address() {
            new.clear(geometry.sit_place(0, false)..geometry.main_address())?;
        }
        self.put_nat(&mut new, &moves)?;
        self.put_sit(&mut new, &moves, &state)?;
        let superblock = superblocks::mended(&shape.superblock);
        let tables = {
            let mut check = Check::new(&new, &superblock, &state, Draft::default());
            check.claimed = Some(ClaimedBlocks::default());
            check.walk_from_roots(&superblock);
            check.check_quotas(&superblock);
            let claimed = check.claimed.take().unwrap_or_default();
            check.rebuild(&claimed)?
        };
        new.blocks.extend(tables);
        for copy in [BlockAddress(0), BlockAddress(1)] {
            let mut block = batch::one(&new, Cause::Metadata, copy)?.to_vec();
            put(&mut block, SUPERBLOCK_OFFSET, superblock.as_bytes());
            new.blocks.insert(copy, block.into());
        }
        let after = finished_check(&new, &superblock, Draft::of_volume(geometry));
        let size = geometry.log_block_size();
        let bytes = shape::bytes(self.superblock, u64::from(geometry.segments));
        let before = shape::bytes(self.superblock, u64::from(self.check.geometry.segments));
        Ok(Resize { blocks: new.blocks, block_size: 1 << size, bytes_before: before, bytes, moved, after })
    }

    /// The checkpoint, with logs where they can continue, or else in free segments. Counts are
    /// recomputed later; a user block count of zero makes the repair recompute the spare too.
    fn state_in(&self, geometry: &Geometry, moves: &Moves<'_>) -> Result<CheckpointState> {
        let mut state = self.state.clone();
        let mut taken = moves.segments_in_use(geometry);
        let free = |taken: &std::collections::BTreeSet<u32>| {
            (0..geometry.main_segments).find(|segment| !taken.contains(segment))
        };
        for (log, old) in Log::ALL.into_iter().zip(self.state.logs) {
            let start = self.check.geometry.segment_start(old.segment);
            let stays = geometry.main(start).filter(|(segment, _)| moves.stays(*segment) && !old.ssr);
            let segment = stays.map(|(segment, _)| segment);
            let (segment, next) = match segment {
                Some(segment) => (segment, old.next),
                None => {
                    let found = free(&taken).ok_or_else(|| {
                        FsError::new(ErrorKind::NoSpace, format!("no free segment for the {log} log"))
                    })?;
                    (SegmentIndex(found), 0)
                }
            };
            taken.insert(segment.0);
            if let Some(place) = state.logs.get_mut(log.index()) {
                *place = LogState { segment, next, ssr: false };
            }
        }
        state.nat_map = vec![0; geometry.nat_blocks() as usize / 8];
        state.sit_map = vec![0; geometry.sit_blocks() as usize / 8];
        state.nat_journal.clear();
        state.sit_journal.clear();
        state.nat_bits = None;
        state.head.user_blocks = 0.into();
        Ok(state)
    }

    /// Writes all blocks of the NAT's first copy. Errors: `Corrupt`, `Device`.
    fn put_nat(&self, new: &mut Reshaped<'_>, moves: &Moves<'_>) -> Result<()> {
        let (size, per_block) = (new.geometry.block_size(), new.geometry.nat_entries() as u32);
        let reserved = [NodeId::NODES, NodeId::META].map(|nid| (nid, NatEntry::new(0, nid, BlockAddress(1))));
        let entries: BTreeMap<NodeId, NatEntry> = reserved.into_iter().chain(moves.nat_entries()).collect();
        for number in 0..new.geometry.nat_blocks() {
            let first = number.saturating_mul(per_block);
            let mut bytes = vec![0; size];
            for (nid, entry) in entries.range(NodeId(first)..NodeId(first.saturating_add(per_block))) {
                put_nat(&mut bytes, (nid.0 - first) as usize, entry);
            }
            new.put_if_other(new.geometry.nat_place(number, false), bytes)?;
        }
        Ok(())
    }

    /// Writes all blocks of the SIT's first copy that describe a segment. Errors: `Corrupt`,
    /// `Device`.
    fn put_sit(&self, new: &mut Reshaped<'_>, moves: &Moves<'_>, state: &CheckpointState) -> Result<()> {
        let geometry = new.geometry.clone();
        let per_block = geometry.sit_entries() as u32;
        let maps = moves.maps(&geometry);
        for number in 0..geometry.main_segments.div_ceil(per_block) {
            let mut bytes = vec![0; geometry.block_size()];
            for index in 0..per_block {
                let segment = SegmentIndex(number * per_block + index);
                if segment.0 >= geometry.main_segments {
                    break;
                }
                let old = self.check.geometry.main(geometry.segment_start(segment)).map(|(old, _)| old);
                let log = state.logs.iter().zip(Log::ALL).find(|(log, _)| log.segment == segment).map(|(_, log)| log);
                let old_kind = || old.and_then(|old| self.check.segments.kind(old));
                let kind = log.or_else(|| moves.kind_of_target(segment)).or_else(old_kind).unwrap_or(Log::HotData);
                let modified = old.map_or(0, |old| self.check.segments.modified(old));
                let map = maps.get(&segment.0).copied().unwrap_or([0; VALID_MAP_BYTES]);
                put_sit(&mut bytes, index as usize, &SitEntry::new(kind, map, modified));
            }
            new.put_if_other(geometry.sit_place(number, false), bytes)?;
        }
        Ok(())
    }
}
