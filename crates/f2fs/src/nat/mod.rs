//! The node address table of a volume that is written: what changed since the last checkpoint waits
//! in memory (f2fs-writing.md, "Checkpoint", step 4; node.c).

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

/// What an fsync has to know of a node beside its place (node.h: IS_CHECKPOINTED,
/// HAS_FSYNCED_INODE, HAS_LAST_FSYNC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    /// The last checkpoint has the nid.
    checkpointed: bool,
    /// Its inode was written by an fsync since.
    fsynced_inode: bool,
    /// The last node of its file that was written had the fsync mark.
    last_fsync: bool,
}

impl Marks {
    /// Of a node that did not change since the last checkpoint.
    const UNCHANGED: Self = Self { checkpointed: true, fsynced_inode: false, last_fsync: true };
}

/// The table: entries that changed, those in the checkpoint's journal, and which copy of each block
/// counts.
#[derive(Clone, Debug)]
pub struct Nat {
    map: Vec<u8>,
    journal: BTreeMap<NodeId, NatEntry>,
    changed: BTreeMap<NodeId, NatEntry>,
    marks: BTreeMap<NodeId, Marks>,
}

impl Nat {
    /// As a checkpoint has it: its bitmap of copies, and its journal.
    pub fn new(map: Vec<u8>, journal: &[(NodeId, NatEntry)]) -> Self {
        Self { map, journal: journal.iter().copied().collect(), changed: BTreeMap::new(), marks: BTreeMap::new() }
    }

    /// Where a node lies now. Errors: `Corrupt` (a nid outside the table), `Device`. Cost: two
    /// searches, at worst the read of a block.
    pub fn entry(&self, meta: &MetaBlocks, device: &dyn Blocks, nid: NodeId) -> Result<NatEntry> {
        if let Some(entry) = self.changed.get(&nid).or_else(|| self.journal.get(&nid)) {
            return Ok(*entry);
        }
        let (number, index) = place(device, nid)?;
        let block = self.block(meta, device, number)?;
        let entry = NatEntry::in_block(&block, index);
        entry.ok_or_else(|| Defect::new(FindingKind::Nat, format!("no NAT entry of {nid}")).into_error())
    }

    /// The copy of a block that counts, without journal and changes. Errors: `Device`.
    pub fn block(&self, meta: &MetaBlocks, device: &dyn Blocks, number: u32) -> Result<Block> {
        meta.get(device, device.geometry().nat_place(number, self.second(number)))
    }

    fn second(&self, block: u32) -> bool {
        msb_first::get(&self.map, block as usize)
    }

    /// The entry that stands above the block: changed since the checkpoint, or in the journal.
    pub fn above(&self, nid: NodeId) -> Option<NatEntry> {
        self.changed.get(&nid).or_else(|| self.journal.get(&nid)).copied()
    }

    /// Whether a node's entry changed since the last checkpoint: a nid that was freed since must
    /// not be used before the next.
    pub fn is_changed(&self, nid: NodeId) -> bool {
        self.changed.contains_key(&nid)
    }

    /// Entries that wait for a checkpoint.
    pub fn waiting(&self) -> usize {
        self.changed.len()
    }

    /// A node has a new place. `old` is its entry until now; `fsync`: it was written with the fsync
    /// mark.
    pub fn set(&mut self, nid: NodeId, old: &NatEntry, ino: NodeId, address: DataAddress, fsync: bool) {
        // One more when a node goes that was on the device; data summaries carry it (node.c,
        // `set_node_addr`).
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

    /// Whether the last checkpoint has a node (node.c, `f2fs_is_checkpointed_node`).
    pub fn is_checkpointed(&self, nid: NodeId) -> bool {
        self.known(nid).checkpointed
    }

    /// Whether an fsync of this inode writes the dentry mark: roll-forward must make its name
    /// (node.c, `f2fs_need_dentry_mark`).
    pub fn needs_dentry_mark(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        !marks.checkpointed && !marks.fsynced_inode
    }

    /// Whether an fsync must write the inode although nothing of it is dirty (node.c,
    /// `f2fs_need_inode_block_update`).
    pub fn needs_inode(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        !(marks.last_fsync && (marks.checkpointed || marks.fsynced_inode))
    }

    /// Whether roll-forward finds the inode, in the checkpoint or behind it.
    pub fn has_recoverable_inode(&self, ino: NodeId) -> bool {
        let marks = self.known(ino);
        marks.checkpointed || marks.fsynced_inode
    }

    /// Brings what changed into the journal and into blocks, which wait in `meta` to be written. By
    /// sets of one block each, the smallest first: into the journal while a whole set fits, else
    /// into the other copy of the block. `all_to_blocks`: the journal is emptied, as an unmount
    /// does. Errors: `Device`; what was not brought waits still. Cost: the blocks of the sets.
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

    /// Which copy of each block counts, as a checkpoint holds it.
    pub fn map(&self) -> &[u8] {
        &self.map
    }

    /// The journal, as a checkpoint holds it.
    pub fn journal(&self) -> Vec<(NodeId, NatEntry)> {
        self.journal.iter().map(|(&nid, &entry)| (nid, entry)).collect()
    }

    /// A checkpoint with what was flushed has completed.
    pub fn checkpointed(&mut self) {
        self.changed.clear();
        self.marks.clear();
    }
}

/// Block and index of a nid's entry. Errors: `Corrupt` where the table ends before.
fn place(device: &dyn Blocks, nid: NodeId) -> Result<(u32, usize)> {
    let geometry = device.geometry();
    geometry.nat_block(nid).ok_or_else(|| {
        let detail = format!("{nid}, where nids end at {}", geometry.nid_end());
        Defect::new(FindingKind::Nat, detail).into_error()
    })
}

#[cfg(test)]
mod tests;
