//! The node address table of a writable volume: entries changed since the last checkpoint wait in
//! memory (f2fs-writing.md, "Checkpoint", step 4; node.c).

use std::collections::BTreeMap;

use nandkit_vfs::Result;

use crate::bits::msb_first;
use crate::blocks::Blocks;
use crate::encode::sit_nat::put_nat;
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, DataAddress, NodeId};
use crate::layout::NatEntry;
use crate::layout::summary::{SummaryView, nat_journal_room};
use crate::meta::MetaBlocks;

/// Facts about a node that an fsync needs (node.h: IS_CHECKPOINTED, HAS_FSYNCED_INODE,
/// HAS_LAST_FSYNC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    /// The last checkpoint contains the nid.
    checkpointed: bool,
    /// Its inode was written by an fsync since.
    fsynced_inode: bool,
    /// The last written node of its file had the fsync mark.
    last_fsync: bool,
}

impl Marks {
    /// The marks of a node that did not change since the last checkpoint.
    const UNCHANGED: Self = Self { checkpointed: true, fsynced_inode: false, last_fsync: true };
}

/// The table: changed entries, the checkpoint's journal, and which copy of each block is current.
#[derive(Clone, Debug)]
pub struct Nat {
    map: Vec<u8>,
    journal: BTreeMap<NodeId, NatEntry>,
    changed: BTreeMap<NodeId, NatEntry>,
    marks: BTreeMap<NodeId, Marks>,
}

impl Nat {
    /// The table of a checkpoint: its bitmap of copies and its journal.
    pub fn new(map: Vec<u8>, journal: &[(NodeId, NatEntry)]) -> Self {
        Self { map, journal: journal.iter().copied().collect(), changed: BTreeMap::new(), marks: BTreeMap::new() }
    }

    /// The current entry of a node. Errors: `Corrupt` (a nid outside the table), `Device`. Cost:
    /// two searches, at worst a block read.
    pub fn entry(&self, meta: &MetaBlocks, device: &dyn Blocks, nid: NodeId) -> Result<NatEntry> {
        if let Some(entry) = self.changed.get(&nid).or_else(|| self.journal.get(&nid)) {
            return Ok(*entry);
        }
        let (number, index) = place(device, nid)?;
        let block = self.block(meta, device, number)?;
        let entry = NatEntry::in_block(&block, index);
        entry.ok_or_else(|| Defect::new(FindingKind::Nat, format!("no NAT entry of {nid}")).into_error())
    }

    /// The current copy of a block, without journal and changes. Errors: `Device`.
    pub fn block(&self, meta: &MetaBlocks, device: &dyn Blocks, number: u32) -> Result<Block> {
        meta.get(device, device.geometry().nat_place(number, self.second(number)))
    }

    fn second(&self, block: u32) -> bool {
        msb_first::get(&self.map, block as usize)
    }

    /// The entry that overrides the block's: changed since the checkpoint, or in the journal.
    pub fn above(&self, nid: NodeId) -> Option<NatEntry> {
        self.changed.get(&nid).or_else(|| self.journal.get(&nid)).copied()
    }

    /// Whether a node's entry changed since the last checkpoint: a nid freed since then must not be
    /// reused before the next.
    pub fn is_changed(&self, nid: NodeId) -> bool {
        self.changed.contains_key(&nid)
    }

    /// The number of entries that wait for a checkpoint.
    pub fn waiting(&self) -> usize {
        self.changed.len()
    }

    /// Sets the address of a node. `old` is its entry until now; `fsync`: it was written with the
    /// fsync mark.
    pub fn set(&mut self, nid: NodeId, old: &NatEntry, ino: NodeId, address: DataAddress, fsync: bool) {
        // Incremented when a node that was on the device is freed; data summaries contain it
        // (node.c, `set_node_addr`).
        let gone = address == DataAddress::Hole && !matches!(old.address(), DataAddress::Hole | DataAddress::Reserved);
        let version = if gone { old.version.wrapping_add(1) } else { old.version };
        let version = if address == DataAddress::Reserved && old.is_free() { 0 } else { version };
        self.changed.insert(nid, NatEntry { version, ino: ino.0.into(), address: address.field().into() });
        if !matches!(address, DataAddress::At(_)) {
            self.marks_of(nid).checkpointed = false;
        }
        let is_inode = nid == ino;
        let marks = self.marks_of(ino);
        marks.fsynced_inode |= fsync && is_inode;
        marks.last_fsync = fsync;
    }

    fn marks_of(&mut self, nid: NodeId) -> &mut Marks {
        self.marks.entry(nid).or_insert(Marks::UNCHANGED)
    }

    fn known(&self, nid: NodeId) -> Marks {
        self.marks.get(&nid).copied().unwrap_or(Marks::UNCHANGED)
    }

    /// Whether the last checkpoint contains a node (node.c, `f2fs_is_checkpointed_node`).
    pub fn is_checkpointed(&self, nid: NodeId) -> bool {
        self.known(nid).checkpointed
    }

    /// Whether an fsync of this inode must set the dentry mark, so that roll-forward restores its
    /// name (node.c, `f2fs_need_dentry_mark`).
    pub fn needs_dentry_mark(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        !marks.checkpointed && !marks.fsynced_inode
    }

    /// Whether an fsync must write the inode although it is not dirty (node.c,
    /// `f2fs_need_inode_block_update`).
    pub fn needs_inode(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        !(marks.last_fsync && (marks.checkpointed || marks.fsynced_inode))
    }

    /// Whether roll-forward finds the inode, in the checkpoint or after it.
    pub fn has_recoverable_inode(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        marks.checkpointed || marks.fsynced_inode
    }

    /// Moves changed entries into the journal and into blocks, which wait in `meta` to be written.
    /// Changes are grouped by block, smallest groups first: into the journal while a whole group
    /// fits, else into the other copy of the block. `all_to_blocks` empties the journal, as at an
    /// unmount. Errors: `Device`; entries not moved still wait. Cost: reads the blocks of the
    /// groups.
    pub fn flush(&mut self, meta: &mut MetaBlocks, device: &dyn Blocks, all_to_blocks: bool) -> Result<()> {
        let room = nat_journal_room(SummaryView::journal_bytes(device.geometry().summary_bytes()));
        let mut sets: BTreeMap<u32, Vec<(NodeId, NatEntry)>> = BTreeMap::new();
        let fits = self.journal.len() + self.changed.len() <= room;
        if all_to_blocks || !fits {
            for (nid, entry) in std::mem::take(&mut self.journal) {
                self.changed.entry(nid).or_insert(entry);
            }
        }
        for (&nid, &entry) in &self.changed {
            sets.entry(place(device, nid)?.0).or_default().push((nid, entry));
        }
        let mut sets: Vec<_> = sets.into_iter().collect();
        sets.sort_by_key(|(block, set)| (set.len(), *block));
        for (number, set) in sets {
            if !all_to_blocks && self.journal.len() + set.len() <= room {
                self.journal.extend(set);
                continue;
            }
            let mut block = self.block(meta, device, number)?.to_vec();
            for (nid, entry) in &set {
                put_nat(&mut block, place(device, *nid)?.1, entry);
                self.journal.remove(nid);
            }
            let second = !self.second(number);
            msb_first::set(&mut self.map, number as usize, second);
            meta.change(device.geometry().nat_place(number, second), block.into());
        }
        Ok(())
    }

    /// Which copy of each block is current, as stored in a checkpoint.
    pub fn map(&self) -> &[u8] {
        &self.map
    }

    /// The journal, as stored in a checkpoint.
    pub fn journal(&self) -> Vec<(NodeId, NatEntry)> {
        self.journal.iter().map(|(&nid, &entry)| (nid, entry)).collect()
    }

    /// Notes that a checkpoint with the flushed entries completed.
    pub fn checkpointed(&mut self) {
        self.changed.clear();
        self.marks.clear();
    }
}

/// The block and index of a nid's entry. Errors: `Corrupt` (outside the table).
fn place(device: &dyn Blocks, nid: NodeId) -> Result<(u32, usize)> {
    let geometry = device.geometry();
    geometry.nat_block(nid).ok_or_else(|| {
        let detail = format!("{nid}, where nids end at {}", geometry.nid_end());
        Defect::new(FindingKind::Nat, detail).into_error()
    })
}

#[cfg(test)]
mod tests;
