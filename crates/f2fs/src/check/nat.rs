//! The node address table in memory, with the nodes that were reached.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::Cause;
use nandkit_vfs::ErrorKind;

use super::report::{Draft, WHOLE_VOLUME, at};
use crate::bits::{lsb_first, msb_first};
use crate::blocks::Blocks;
use crate::checkpoint_state::{CheckpointState, NatBits};
use crate::findings::FindingKind;
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::layout::{Geometry, NatEntry};

/// Blocks per request.
const RUN: u32 = 256;

/// The entries of a NAT block that has any in use, and which of them were reached.
#[derive(Debug)]
struct Chunk {
    entries: Box<[NatEntry]>,
    /// Entries in use in the table without the journal; entry 0 counts as used.
    used_in_table: usize,
    reached: Box<[bool]>,
}

/// The NAT of the checkpoint. Memory: ten bytes per nid of each block that has entries in use.
#[derive(Debug)]
pub(super) struct NatTable {
    chunks: BTreeMap<u32, Chunk>,
    per_chunk: u32,
    nid_end: u64,
}

/// The result of reaching a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The node exists and was not reached before.
    First(NatEntry),
    /// The node exists and was reached before.
    Again,
    /// The nid is free.
    Free,
    /// The nid is outside the NAT, or cannot be a node's.
    Outside,
}

impl NatTable {
    /// Reads the current copies and applies the journal. Cost: reads one copy of the NAT, adjacent
    /// blocks in one request.
    pub fn load(blocks: &dyn Blocks, state: &CheckpointState, report: &mut Draft) -> Self {
        let geometry = blocks.geometry();
        let mut table = Self {
            chunks: BTreeMap::new(),
            per_chunk: geometry.nat_entries() as u32,
            nid_end: geometry.nid_end().min(1 << 32),
        };
        let size = geometry.block_size();
        let place = |block: u32| geometry.nat_place(block, msb_first::get(&state.nat_map, block as usize));
        let mut bytes = Vec::new();
        let mut block = 0;
        while block < geometry.nat_blocks() {
            let start = place(block);
            let rest = 1..RUN.min(geometry.nat_blocks() - block);
            let run = 1 + rest.take_while(|&more| Some(place(block + more)) == start.checked_add(more)).count() as u32;
            bytes.resize(run as usize * size, 0);
            if !read_or_tell(blocks, start, &mut bytes, "NAT", report) {
                break;
            }
            for (number, bytes) in (block..).zip(bytes.chunks_exact(size)) {
                table.take_block(number, bytes);
            }
            block += run;
        }
        table.lay_journal(state, report);
        table
    }

    fn take_block(&mut self, block: u32, bytes: &[u8]) {
        if nandkit_units::is_zeroed(bytes) {
            return;
        }
        let entries: Box<[NatEntry]> =
            (0..self.per_chunk as usize).map(|index| NatEntry::in_block(bytes, index).unwrap_or_default()).collect();
        if entries.iter().any(|entry| !entry.is_free()) {
            let reached = vec![false; entries.len()].into();
            let used_in_table = used(block, &entries);
            self.chunks.insert(block, Chunk { entries, used_in_table, reached });
        }
    }

    fn lay_journal(&mut self, state: &CheckpointState, report: &mut Draft) {
        let mut seen = BTreeSet::new();
        for &(nid, entry) in &state.nat_journal {
            if u64::from(nid.0) >= self.nid_end || nid == NodeId::NONE {
                report.fault(FindingKind::Nat, WHOLE_VOLUME, || {
                    format!("the NAT's journal has {nid}, where nids end at {}", self.nid_end)
                });
                continue;
            }
            if !seen.insert(nid) {
                report.fault(FindingKind::Nat, WHOLE_VOLUME, || format!("the NAT's journal has {nid} twice"));
            }
            let per_chunk = self.per_chunk as usize;
            let chunk = self.chunks.entry(nid.0 / self.per_chunk).or_insert_with(|| Chunk {
                entries: vec![NatEntry::default(); per_chunk].into(),
                used_in_table: usize::from(nid.0 < self.per_chunk),
                reached: vec![false; per_chunk].into(),
            });
            if let Some(place) = chunk.entries.get_mut((nid.0 % self.per_chunk) as usize) {
                *place = entry;
            }
        }
    }

    /// The entry of a nid; `None` outside the NAT.
    pub fn entry(&self, nid: NodeId) -> Option<NatEntry> {
        if u64::from(nid.0) >= self.nid_end {
            return None;
        }
        let chunk = self.chunks.get(&(nid.0 / self.per_chunk));
        Some(chunk.and_then(|chunk| chunk.entries.get((nid.0 % self.per_chunk) as usize)).copied().unwrap_or_default())
    }

    /// Marks a node as reached by a reference.
    pub fn reach(&mut self, nid: NodeId) -> Reach {
        if u64::from(nid.0) >= self.nid_end || nid < NodeId::ROOT {
            return Reach::Outside;
        }
        let Some(chunk) = self.chunks.get_mut(&(nid.0 / self.per_chunk)) else { return Reach::Free };
        let index = (nid.0 % self.per_chunk) as usize;
        match (chunk.entries.get(index), chunk.reached.get_mut(index)) {
            (Some(entry), Some(_)) if entry.is_free() => Reach::Free,
            (Some(_), Some(reached)) if *reached => Reach::Again,
            (Some(entry), Some(reached)) => {
                *reached = true;
                Reach::First(*entry)
            }
            _ => Reach::Free,
        }
    }

    /// All nids in use from the root's on, ascending, with their entries and whether they were
    /// reached.
    fn in_use(&self) -> impl Iterator<Item = (NodeId, NatEntry, bool)> + '_ {
        let chunks = self.chunks.iter().flat_map(|(number, chunk)| {
            let nids = (number.wrapping_mul(self.per_chunk)..).map(NodeId);
            let entries = chunk.entries.iter().copied().zip(chunk.reached.iter().copied());
            nids.zip(entries).map(|(nid, (entry, reached))| (nid, entry, reached))
        });
        chunks.filter(|(nid, entry, _)| *nid >= NodeId::ROOT && !entry.is_free())
    }

    /// All unreached nids in use from the root's on, ascending, with their entries.
    pub fn unreached(&self) -> impl Iterator<Item = (NodeId, NatEntry)> + '_ {
        self.in_use().filter(|(_, _, reached)| !reached).map(|(nid, entry, _)| (nid, entry))
    }

    /// All nids in use from the root's on, ascending, with their entries.
    pub fn entries(&self) -> impl Iterator<Item = (NodeId, NatEntry)> + '_ {
        self.in_use().map(|(nid, entry, _)| (nid, entry))
    }

    /// The blocks that have entries in use.
    pub fn chunk_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.keys().copied()
    }

    /// The number of nids in use from the root's on, and how many of them are inodes.
    pub fn used(&self) -> (u64, u64) {
        self.entries().fold((0, 0), |(nodes, inodes), (nid, entry)| (nodes + 1, inodes + u64::from(entry.ino() == nid)))
    }

    /// Checks the first entries and nat_bits against the table. Addresses outside the main area are
    /// reported where a node is reached or found lost.
    pub fn check(&self, geometry: &Geometry, state: &CheckpointState, report: &mut Draft) {
        let fault = |report: &mut Draft, nid: NodeId, detail: String| {
            let second = msb_first::get(&state.nat_map, 0);
            report.fault(FindingKind::Nat, at(geometry.nat_place(0, second)), || format!("{nid}: {detail}"));
        };
        if let Some(entry) = self.entry(NodeId::NONE).filter(|entry| !entry.is_free()) {
            fault(report, NodeId::NONE, format!("address {:#x}; this nid must be free", entry.address.get()));
        }
        for nid in [NodeId::NODES, NodeId::META] {
            let entry = self.entry(nid).unwrap_or_default();
            if (entry.ino(), entry.address()) != (nid, DataAddress::At(BlockAddress(1))) {
                let (ino, address) = (entry.ino.get(), entry.address.get());
                fault(
                    report,
                    nid,
                    format!("inode {ino} at address {address:#x}; expected inode {} at address 1", nid.0),
                );
            }
        }
        if let Some(bits) = &state.nat_bits {
            self.check_bits(geometry, bits, report);
        }
    }

    /// Checks nat_bits: which blocks have all entries in use, and which none; entry 0 counts as
    /// used (node.c, `__update_nat_bits`). mkfs.f2fs ignores its journal here, and a kernel has no
    /// journal then, so both ways of counting are correct.
    fn check_bits(&self, geometry: &Geometry, bits: &NatBits, report: &mut Draft) {
        let (mut wrong, mut first) = (0_u32, None);
        let all = self.per_chunk as usize;
        for block in 0..geometry.nat_blocks() {
            let none = usize::from(block == 0);
            let counts =
                self.chunks.get(&block).map_or([none; 2], |chunk| [used(block, &chunk.entries), chunk.used_in_table]);
            let found = (lsb_first::get(&bits.full, block as usize), lsb_first::get(&bits.empty, block as usize));
            if counts.iter().all(|&used| found != (used == all, used == 0)) {
                wrong += 1;
                first.get_or_insert(block);
            }
        }
        if let Some(first) = first {
            report.fault(FindingKind::Nat, WHOLE_VOLUME, || {
                format!("nat_bits is wrong about {wrong} blocks of the NAT, the first of them block {first}")
            });
        }
    }
}

/// The number of entries of a block in use; entry 0 of block 0 counts as used.
fn used(block: u32, entries: &[NatEntry]) -> usize {
    let zero = block == 0 && entries.first().is_some_and(NatEntry::is_free);
    entries.iter().filter(|entry| !entry.is_free()).count() + usize::from(zero)
}

/// Reads blocks of a table. On failure it reports a finding and returns whether later blocks are
/// worth reading; they are not past the end of the device.
pub(super) fn read_or_tell(
    blocks: &dyn Blocks,
    start: BlockAddress,
    into: &mut [u8],
    name: &str,
    report: &mut Draft,
) -> bool {
    let Err(error) = blocks.read(Cause::Metadata, start, into) else { return true };
    into.fill(0);
    if error.kind == ErrorKind::Corrupt {
        report.fault(FindingKind::CutShort, at(start), || format!("the {name} cannot be read from here on: {error}"));
        return false;
    }
    // Read sector by sector, so that one lost sector does not affect its neighbours.
    let size = blocks.geometry().block_size();
    for (number, block) in (0..).zip(into.chunks_exact_mut(size)) {
        let Some(here) = start.checked_add(number) else { break };
        if let Err(error) = blocks.read(Cause::Metadata, here, block) {
            block.fill(0);
            report.fault(FindingKind::Unreadable, at(here), || format!("a block of the {name}: {error}"));
        }
    }
    true
}
