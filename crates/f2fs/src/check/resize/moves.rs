//! Which blocks move where, and who refers to them.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::reshaped::Reshaped;
use crate::bits::msb_first;
use crate::blocks::Blocks;
use crate::check::batch;
use crate::check::repair::rebuild::ClaimedBlocks;
use crate::encode::put;
use crate::ids::{Block, BlockAddress, Log, NodeId, SegmentIndex};
use crate::layout::inode::{Extent, WORDS_OFFSET, computed_checksum};
use crate::layout::sit::VALID_MAP_BYTES;
use crate::layout::{
    BLOCKS_PER_SEGMENT, ExtraAttributes, Geometry, InodeHead, NatEntry, SummaryEntry, inode_shape, set_word, word,
};

/// Segments that logs need beside those in use.
const LOGS: usize = Log::COUNT;

/// Where blocks move.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// New addresses by old address.
    places: BTreeMap<BlockAddress, BlockAddress>,
    /// Segments of the new shape that receive moved blocks, with their types.
    targets: BTreeMap<u32, Log>,
    /// Segments of the new shape whose blocks move away.
    emptied: BTreeSet<u32>,
}

impl Plan {
    /// Plans to move all blocks outside the new main area, and the blocks of the least-filled
    /// segments if the others need their room. `None` if there is not enough room.
    pub fn new(
        old: &Geometry,
        new: &Geometry,
        claimed: &ClaimedBlocks,
        kind: &dyn Fn(SegmentIndex) -> Log,
    ) -> Option<Self> {
        // Segments with type and number of blocks in use, those that must move first.
        let (mut moving, mut staying): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for (number, segment) in &claimed.segments {
            let place = new.main(old.segment_start(SegmentIndex(*number))).map(|(segment, _)| segment.0);
            let found = (*number, kind(SegmentIndex(*number)), segment.count() as usize);
            match place {
                Some(place) => staying.push((found, place)),
                None => moving.push((found, None)),
            }
        }
        // The fullest segments move last.
        staying.sort_by_key(|((number, _, count), _)| (std::cmp::Reverse(*count), *number));
        let room = new.main_segments as usize;
        let mut counts = [0_usize; Log::COUNT];
        for ((_, log, count), _) in &moving {
            *counts.get_mut(log.index())? += count;
        }
        let needed = |counts: &[usize; Log::COUNT]| -> usize {
            counts.iter().map(|count| count.div_ceil(BLOCKS_PER_SEGMENT as usize)).sum()
        };
        while staying.len() + needed(&counts) + LOGS > room {
            let ((number, log, count), place) = staying.pop()?;
            *counts.get_mut(log.index())? += count;
            moving.push(((number, log, count), Some(place)));
        }
        Self::placed(old, new, claimed, moving, &staying.iter().map(|(_, place)| *place).collect())
    }

    /// Assigns new addresses to the blocks of segments, type by type, in empty segments.
    fn placed(
        old: &Geometry,
        new: &Geometry,
        claimed: &ClaimedBlocks,
        mut moving: Vec<((u32, Log, usize), Option<u32>)>,
        staying: &BTreeSet<u32>,
    ) -> Option<Self> {
        moving.sort_by_key(|((number, log, _), _)| (*log, *number));
        let mut free = (0..new.main_segments).filter(|segment| !staying.contains(segment));
        let mut plan = Self::default();
        let mut target: Option<(Log, u32, u32)> = None;
        for ((number, log, _), place) in moving {
            plan.emptied.extend(place);
            let Some(segment) = claimed.segments.get(&number) else { continue };
            for (block, _) in segment.claimed() {
                let (segment, next) = match target {
                    Some((of, segment, next)) if of == log && next < BLOCKS_PER_SEGMENT => (segment, next),
                    _ => {
                        let segment = free.next()?;
                        plan.targets.insert(segment, log);
                        (segment, 0)
                    }
                };
                target = Some((log, segment, next + 1));
                let from = old.segment_start(SegmentIndex(number)).checked_add(block.into())?;
                let to = new.segment_start(SegmentIndex(segment)).checked_add(next)?;
                if from != to {
                    plan.places.insert(from, to);
                }
            }
        }
        Some(plan)
    }
}

/// A plan and the blocks it moves.
pub(super) struct Moves<'a> {
    blocks: &'a dyn Blocks,
    claimed: &'a ClaimedBlocks,
    checksum_seed: u32,
    plan: Plan,
}

impl<'a> Moves<'a> {
    pub fn new(blocks: &'a dyn Blocks, claimed: &'a ClaimedBlocks, checksum_seed: u32, plan: Plan) -> Self {
        Self { blocks, claimed, checksum_seed, plan }
    }

    fn new_place(&self, at: BlockAddress) -> BlockAddress {
        self.plan.places.get(&at).copied().unwrap_or(at)
    }

    /// Whether a segment of the new shape keeps its blocks and receives none.
    pub fn stays(&self, segment: SegmentIndex) -> bool {
        !self.plan.targets.contains_key(&segment.0) && !self.plan.emptied.contains(&segment.0)
    }

    /// The type of a segment that receives moved blocks.
    pub fn kind_of_target(&self, segment: SegmentIndex) -> Option<Log> {
        self.plan.targets.get(&segment.0).copied()
    }

    /// The new addresses of all nodes.
    pub fn nat_entries(&self) -> impl Iterator<Item = (NodeId, NatEntry)> + '_ {
        self.claimed.nodes.iter().map(|(nid, entry)| {
            let at = self.new_place(BlockAddress(entry.address.get()));
            (*nid, NatEntry::new(entry.version, entry.ino(), at))
        })
    }

    /// Each block in use, with its old address.
    fn each(&self) -> impl Iterator<Item = (BlockAddress, SummaryEntry)> + '_ {
        let geometry = self.blocks.geometry();
        self.claimed.segments.iter().flat_map(move |(number, segment)| {
            let start = geometry.segment_start(SegmentIndex(*number));
            segment.claimed().filter_map(move |(block, entry)| Some((start.checked_add(block.into())?, entry)))
        })
    }

    /// The valid maps of the segments of the new shape.
    pub fn maps(&self, geometry: &Geometry) -> BTreeMap<u32, [u8; VALID_MAP_BYTES]> {
        let mut maps = BTreeMap::new();
        for (at, _) in self.each() {
            if let Some((segment, block)) = geometry.main(self.new_place(at)) {
                msb_first::set(maps.entry(segment.0).or_insert([0; VALID_MAP_BYTES]), block.into(), true);
            }
        }
        maps
    }

    /// The segments of the new shape that hold blocks.
    pub fn segments_in_use(&self, geometry: &Geometry) -> BTreeSet<u32> {
        self.maps(geometry).into_keys().collect()
    }

    /// Copies moved blocks to their new addresses and updates the nodes that refer to them. Returns
    /// how many moved. Errors: `Corrupt`, `Device`.
    pub fn apply(&self, new: &mut Reshaped<'_>) -> Result<u64> {
        let mut edited: BTreeMap<NodeId, Vec<u8>> = BTreeMap::new();
        let mut inodes: BTreeSet<NodeId> = BTreeSet::new();
        let mut moved = 0;
        for (at, entry) in self.each() {
            let Some(to) = self.plan.places.get(&at) else { continue };
            moved += 1;
            let nid = NodeId(entry.nid.get());
            let owner = self.claimed.nodes.get(&nid);
            if owner.is_some_and(|node| node.address.get() == at.0) {
                // A node: only the NAT refers to it. It is copied below, with its changes.
                self.node(nid, &mut edited)?;
                continue;
            }
            let owner = owner.ok_or_else(|| lost(at))?;
            new.blocks.insert(*to, batch::one(self.blocks, Cause::UserData, at)?);
            let node = self.node(nid, &mut edited)?;
            let start = match owner.ino() == nid {
                true => inode_shape(new.geometry(), new.geometry().features, node)?.addresses.start,
                false => 0,
            };
            let byte = start + usize::from(entry.index.get()) * 4;
            if word(node, byte) != Some(at.0) || !set_word(node, byte, to.0) {
                return Err(lost(at));
            }
            inodes.insert(owner.ino());
        }
        for ino in inodes {
            // The largest extent is a hint that must be correct; it may be absent.
            let node = self.node(ino, &mut edited)?;
            put(node, std::mem::offset_of!(InodeHead, extent), Extent::default().as_bytes());
        }
        for (nid, mut bytes) in edited {
            let Some(entry) = self.claimed.nodes.get(&nid) else { continue };
            if entry.ino() == nid {
                self.sign(new.geometry(), &mut bytes);
            }
            new.blocks.insert(self.new_place(BlockAddress(entry.address.get())), Block::from(bytes));
        }
        Ok(moved)
    }

    /// A node's bytes, for changing. Errors: `Corrupt`, `Device`.
    fn node<'b>(&self, nid: NodeId, edited: &'b mut BTreeMap<NodeId, Vec<u8>>) -> Result<&'b mut Vec<u8>> {
        use std::collections::btree_map::Entry;
        match edited.entry(nid) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(place) => {
                let entry = self.claimed.nodes.get(&nid).ok_or_else(|| lost(BlockAddress(0)))?;
                let at = BlockAddress(entry.address.get());
                Ok(place.insert(batch::one(self.blocks, Cause::Metadata, at)?.to_vec()))
            }
        }
    }

    /// Updates an inode's checksum.
    fn sign(&self, geometry: &Geometry, bytes: &mut [u8]) {
        let has_checksum =
            ExtraAttributes::of_block(bytes).is_some_and(|extra| extra.checksum(geometry.features).is_some());
        if let Some(checksum) = computed_checksum(self.checksum_seed, bytes).filter(|_| has_checksum) {
            put(bytes, WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, checksum), &checksum.to_le_bytes());
        }
    }
}

/// The error for a block that its owner does not refer to; a sound volume has none.
#[cold]
fn lost(at: BlockAddress) -> FsError {
    FsError::new(ErrorKind::Corrupt, format!("nothing was changed: no node refers to {at}"))
}
