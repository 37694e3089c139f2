//! Rebuilds the tables and the checkpoint of a volume from what its tree reaches.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use crate::bits::msb_first;
use crate::check::packs::spare_fits;
use crate::check::summaries::Claim;
use crate::check::{Check, batch};
use crate::checkpoint_state::{CheckpointState, LogState, SummaryBlock};
use crate::encode::put;
use crate::ids::{Block, BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::checkpoint::flag;
use crate::layout::sit::VALID_MAP_BYTES;
use crate::layout::summary::SummaryView;
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, Features, Geometry, NatEntry, SitEntry, SummaryEntry};
use crate::mkfs::geometry::spare;

/// All claimed blocks.
#[derive(Clone, Debug, Default)]
pub(in crate::check) struct ClaimedBlocks {
    /// By segment number.
    pub segments: BTreeMap<u32, ClaimedSegment>,
    /// The entries that the NAT must have.
    pub nodes: BTreeMap<NodeId, NatEntry>,
}

/// The claimed blocks of a segment.
#[derive(Clone, Debug)]
pub(in crate::check) struct ClaimedSegment {
    entries: Vec<SummaryEntry>,
    map: [u8; VALID_MAP_BYTES],
    nodes: u32,
}

impl ClaimedBlocks {
    pub fn take(&mut self, geometry: &Geometry, claim: &Claim) {
        let Some((segment, block)) = geometry.main(claim.at) else { return };
        let place = self.segments.entry(segment.0).or_insert_with(ClaimedSegment::blank);
        let entry = match claim.is_node {
            true => SummaryEntry::of_node(claim.nid),
            false => SummaryEntry::of_data(claim.nid, claim.version, claim.index),
        };
        place.put(block, entry, true);
        place.nodes += u32::from(claim.is_node);
        if claim.is_node {
            self.nodes.insert(claim.nid, NatEntry::new(claim.version, claim.ino, claim.at));
        }
    }
}

impl ClaimedSegment {
    fn blank() -> Self {
        Self { entries: SummaryBlock::blank().entries, map: [0; VALID_MAP_BYTES], nodes: 0 }
    }

    /// Whether it has both nodes and data, which no segment may.
    fn is_mixed(&self) -> bool {
        self.nodes > 0 && self.nodes < self.count()
    }

    fn put(&mut self, block: u16, entry: SummaryEntry, valid: bool) {
        if let Some(place) = self.entries.get_mut(usize::from(block)) {
            *place = entry;
        }
        msb_first::set(&mut self.map, block.into(), valid);
    }

    /// The number of claimed blocks.
    pub fn count(&self) -> u32 {
        crate::bits::count(&self.map)
    }

    /// The claimed blocks with their owners.
    pub fn claimed(&self) -> impl Iterator<Item = (u16, SummaryEntry)> + '_ {
        (0_u16..).zip(&self.entries).filter(|(block, _)| self.has(*block)).map(|(block, entry)| (block, *entry))
    }

    fn has(&self, block: u16) -> bool {
        msb_first::get(&self.map, block.into())
    }
}

type Blocks = BTreeMap<BlockAddress, Block>;

impl Check<'_> {
    /// Copies nodes out of segments that also hold data, into free segments as far as there are
    /// any; returns the new blocks. Only the NAT refers to a node's address.
    pub fn part_nodes_from_data(&self, claimed: &mut ClaimedBlocks) -> Blocks {
        let logs: BTreeSet<u32> = self.state.logs.iter().map(|log| log.segment.0).collect();
        let mut free: Vec<u32> = (0..self.geometry.main_segments).rev().collect();
        free.retain(|segment| !claimed.segments.contains_key(segment) && !logs.contains(segment));
        let (mut blocks, mut next) = (Blocks::new(), BLOCKS_PER_SEGMENT as u16);
        let mut target = 0;
        let ClaimedBlocks { segments, nodes } = claimed;
        for (nid, entry) in nodes {
            let old = BlockAddress(entry.address.get());
            let Some((segment, block)) = self.geometry.main(old) else { continue };
            if !segments.get(&segment.0).is_some_and(ClaimedSegment::is_mixed) {
                continue;
            }
            let Ok(bytes) = batch::one(self.blocks, Cause::Metadata, old) else { continue };
            if u32::from(next) == BLOCKS_PER_SEGMENT {
                let Some(segment) = free.pop() else { break };
                (target, next) = (segment, 0);
            }
            let new = BlockAddress(self.geometry.segment_start(SegmentIndex(target)).0 + u32::from(next));
            blocks.insert(new, bytes);
            if let Some(from) = segments.get_mut(&segment.0) {
                from.put(block, SummaryEntry::default(), false);
                from.nodes -= 1;
            }
            let to = segments.entry(target).or_insert_with(ClaimedSegment::blank);
            to.put(next, SummaryEntry::of_node(*nid), true);
            to.nodes += 1;
            entry.address = new.0.into();
            next += 1;
        }
        blocks
    }

    /// All blocks of the metadata areas that change, except the superblocks. Errors: `NoSpace` (no
    /// segment is left for a log).
    pub fn rebuild(&self, claimed: &ClaimedBlocks) -> Result<Blocks> {
        let mut blocks = Blocks::new();
        let mut state = self.state.clone();
        if !self.geometry.features.has(Features::READ_ONLY) {
            state.logs = self.rebuild_logs(claimed)?;
        }
        self.rebuild_nat(claimed, &mut blocks);
        let kinds = self.rebuild_sit(claimed, &state, &mut blocks);
        self.rebuild_ssa(claimed, &kinds, &mut blocks);
        for (log, summary) in state.logs.iter().zip(&mut state.summaries) {
            let known = claimed.segments.get(&log.segment.0);
            *summary = known.map_or_else(SummaryBlock::blank, |known| SummaryBlock { entries: known.entries.clone() });
        }
        self.count_anew(claimed, &mut state);
        // The newer of the two versions goes first; both packs hold the same state, so either may
        // be lost.
        let version = state.head.version.get();
        for (second, version) in [(true, version.wrapping_add(1)), (false, version.wrapping_add(2))] {
            state.head.version = version.into();
            let pack = state.encode(self.geometry, second);
            blocks.extend(pack.blocks);
            blocks.extend([pack.commit]);
        }
        Ok(blocks)
    }

    /// Keeps logs in place where they can continue.
    fn rebuild_logs(&self, claimed: &ClaimedBlocks) -> Result<[LogState; Log::COUNT]> {
        let mut logs = self.state.logs;
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        let fits = |log: Log, state: &LogState, taken: &BTreeSet<u32>| {
            if taken.contains(&state.segment.0) {
                return false;
            }
            let Some(known) = claimed.segments.get(&state.segment.0) else { return true };
            let is_own = self.segments.kind(state.segment) == Some(log) && (known.nodes > 0) == log.is_node();
            let behind = if state.ssr { state.next + 1 } else { BLOCKS_PER_SEGMENT as u16 };
            is_own && !(state.next..behind).any(|block| known.has(block))
        };
        let mut without = Vec::new();
        for (log, state) in Log::ALL.into_iter().zip(&logs) {
            if fits(log, state, &taken) {
                taken.insert(state.segment.0);
            } else {
                without.push(log);
            }
        }
        let mut free = (0..self.geometry.main_segments).filter(|segment| !claimed.segments.contains_key(segment));
        for log in without {
            let segment = free.find(|segment| !taken.contains(segment));
            let segment = segment
                .ok_or_else(|| FsError::new(ErrorKind::NoSpace, format!("no free segment for the {log} log")))?;
            taken.insert(segment);
            if let Some(place) = logs.get_mut(log.index()) {
                *place = LogState { segment: SegmentIndex(segment), next: 0, ssr: false };
            }
        }
        Ok(logs)
    }

    fn rebuild_nat(&self, claimed: &ClaimedBlocks, blocks: &mut Blocks) {
        let (geometry, per_block) = (self.geometry, self.geometry.nat_entries() as u32);
        let mut numbers: BTreeSet<u32> = self.nat.chunk_numbers().collect();
        numbers.extend(claimed.nodes.keys().map(|nid| nid.0 / per_block));
        numbers.insert(0);
        numbers.extend(self.unreadable_nat());
        for number in numbers {
            let first = number * per_block;
            let mut bytes = vec![0; geometry.block_size()];
            let nids = NodeId(first)..NodeId(first.saturating_add(per_block));
            let reserved = [NodeId::NODES, NodeId::META].map(|nid| (nid, NatEntry::new(0, nid, BlockAddress(1))));
            let reserved = reserved.iter().map(|(nid, entry)| (nid, entry)).filter(|(nid, _)| nids.contains(nid));
            for (nid, entry) in claimed.nodes.range(nids.clone()).chain(reserved) {
                put(&mut bytes, (nid.0 - first) as usize * size_of::<NatEntry>(), entry.as_bytes());
            }
            let at = geometry.nat_place(number, msb_first::get(&self.state.nat_map, number as usize));
            self.put_if_other(at, bytes, blocks);
        }
    }

    /// NAT blocks in use that cannot be read: whoever takes a nid in them must find an entry.
    fn unreadable_nat(&self) -> Vec<u32> {
        let place = |block: u32| {
            let second = msb_first::get(&self.state.nat_map, block as usize);
            (self.geometry.nat_place(block, second), block)
        };
        let mut unreadable = Vec::new();
        let mut wanted = (0..self.geometry.nat_blocks()).map(place).peekable();
        while wanted.peek().is_some() {
            let part = wanted.by_ref().take(batch::BATCH).collect();
            let had = batch::read(self.blocks, Cause::Metadata, part).into_iter();
            unreadable.extend(had.filter(|had| had.block.is_err()).map(|had| had.tag));
        }
        unreadable
    }

    fn put_if_other(&self, at: BlockAddress, bytes: Vec<u8>, blocks: &mut Blocks) {
        let same = batch::one(self.blocks, Cause::Metadata, at).is_ok_and(|block| *block == *bytes);
        if !same {
            blocks.insert(at, bytes.into());
        }
    }

    /// Rebuilds the SIT; returns which segments hold nodes.
    fn rebuild_sit(
        &self,
        claimed: &ClaimedBlocks,
        state: &CheckpointState,
        blocks: &mut Blocks,
    ) -> BTreeMap<u32, bool> {
        let (geometry, per_block) = (self.geometry, self.geometry.sit_entries() as u32);
        let mut holds_nodes = BTreeMap::new();
        for number in 0..geometry.main_segments.div_ceil(per_block) {
            let mut bytes = vec![0; geometry.block_size()];
            for index in 0..per_block {
                let segment = SegmentIndex(number * per_block + index);
                if segment.0 >= geometry.main_segments {
                    break;
                }
                let known = claimed.segments.get(&segment.0);
                let is = self.segments.kind(segment);
                let log = state.logs.iter().zip(Log::ALL).find(|(log, _)| log.segment == segment).map(|(_, log)| log);
                // On a volume that is never written, one log serves as three.
                let kind = match (known, log.filter(|_| !geometry.features.has(Features::READ_ONLY))) {
                    (_, Some(log)) => log,
                    (None, None) => is.unwrap_or(Log::HotData),
                    (Some(known), None) => {
                        let nodes = known.nodes * 2 > known.count();
                        is.filter(|is| is.is_node() == nodes).unwrap_or(if nodes {
                            Log::WarmNode
                        } else {
                            Log::WarmData
                        })
                    }
                };
                holds_nodes.insert(segment.0, kind.is_node());
                let map = known.map_or([0; VALID_MAP_BYTES], |known| known.map);
                let entry = SitEntry::new(kind, map, self.segments.modified(segment));
                put(&mut bytes, index as usize * size_of::<SitEntry>(), entry.as_bytes());
            }
            let at = geometry.sit_place(number, msb_first::get(&self.state.sit_map, number as usize));
            self.put_if_other(at, bytes, blocks);
        }
        holds_nodes
    }

    fn rebuild_ssa(&self, claimed: &ClaimedBlocks, holds_nodes: &BTreeMap<u32, bool>, blocks: &mut Blocks) {
        let geometry = self.geometry;
        if geometry.features.has(Features::READ_ONLY) {
            return;
        }
        for (segment, known) in &claimed.segments {
            let at = geometry.ssa(SegmentIndex(*segment));
            let nodes = holds_nodes.get(segment).copied().unwrap_or(false);
            let mut bytes = SummaryBlock { entries: known.entries.clone() }.to_bytes(nodes, geometry.block_size());
            // Keep the entries of unused blocks, and the journal.
            if let Ok(old) = batch::one(self.blocks, Cause::Metadata, at) {
                let entry = size_of::<SummaryEntry>();
                for block in (0..BLOCKS_PER_SEGMENT as u16).filter(|block| !known.has(*block)) {
                    let start = usize::from(block) * entry;
                    put(&mut bytes, start, old.get(start..start + entry).unwrap_or_default());
                }
                put(&mut bytes, SummaryView::journal_start(geometry.block_size()), SummaryView(&old).journal());
            }
            self.put_if_other(at, bytes, blocks);
        }
    }

    /// Sets the blocks for users and the withheld ones as mkfs would for this main area; if more is
    /// in use, with as little spare as there is room for.
    fn spare_anew(&self, head: &mut CheckpointHead) {
        let main = u64::from(self.geometry.main_segments);
        let sections = main / u64::from(self.geometry.segments_per_section.max(1));
        let used = head.valid_blocks.get().div_ceil(u64::from(BLOCKS_PER_SEGMENT));
        let (reserved, spare) = match self.geometry.features.has(Features::READ_ONLY) {
            true => (0, 0),
            false => {
                let (reserved, spare) = spare((main, main, sections), None).unwrap_or_default();
                let spare = spare.min(main.saturating_sub(used)).max(1);
                (reserved.clamp(1, spare), spare)
            }
        };
        head.reserved_segments = (reserved as u32).into();
        head.overprovision_segments = (spare as u32).into();
        head.user_blocks = (main.saturating_sub(spare) * u64::from(BLOCKS_PER_SEGMENT)).into();
    }

    fn count_anew(&self, claimed: &ClaimedBlocks, state: &mut CheckpointState) {
        let head = &mut state.head;
        let blocks: u64 = claimed.segments.values().map(|segment| u64::from(segment.count())).sum();
        head.valid_blocks = (blocks + self.totals.reserved).into();
        head.valid_nodes = (claimed.nodes.len() as u32).into();
        head.valid_inodes = (claimed.nodes.iter().filter(|(nid, entry)| entry.ino() == **nid).count() as u32).into();
        let logs: BTreeSet<u32> = state.logs.iter().map(|log| log.segment.0).collect();
        let used = claimed.segments.keys().filter(|segment| !logs.contains(segment)).count() + logs.len();
        head.free_segments = self.geometry.main_segments.saturating_sub(used as u32).into();
        if !spare_fits(head, self.geometry) || head.user_blocks.get() < head.valid_blocks.get() {
            self.spare_anew(head);
        }
        if u64::from(head.next_free_nid.get()) >= self.geometry.nid_end() {
            head.next_free_nid = (NodeId::ROOT.0 + 1).into();
        }
        // Cleanly unmounted. nat_bits are optional, and would have to be correct.
        let cleared = flag::ORPHANS | flag::ERROR | flag::FSCK | flag::FASTBOOT | flag::NAT_BITS | flag::RESIZING;
        let known = flag::RESIZING * 2 - 1;
        head.flags = (head.flags.get() & known & !cleared | flag::UNMOUNTED).into();
        let differ = if self.quotas.wanted && self.quotas.differ { flag::QUOTA_NEEDS_FSCK } else { 0 };
        head.flags = (head.flags.get() & !flag::QUOTA_NEEDS_FSCK | differ).into();
        head.allocation_types = [0; 16];
        state.orphans.clear();
        state.nat_journal.clear();
        state.sit_journal.clear();
        state.nat_bits = None;
    }
}
