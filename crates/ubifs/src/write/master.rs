//! The master nodes: the same in both of their LEBs, one after the other, so that one is whole at
//! any moment.
//!
//! Source of the rule: Linux `fs/ubifs/master.c`, `ubifs_write_master`.

use nandkit_units::Cause;
use nandkit_vfs::Result;

use crate::encode::{bytes_of, node, pad};
use crate::layout::{HEADER_SIZE, MASTER_DIRTY, MASTER_LEBS, MASTER_NO_ORPHANS, MASTER_SIZE, Master, node_type};
use crate::mount::Ubifs;

/// Mark of a master node: a commit was not complete when it was written, of which recovery has to
/// know (Linux `UBIFS_MST_RCVRY`).
const MASTER_RECOVERY: u32 = 4;

impl Ubifs {
    /// Makes the state in memory that of the master node, with the log beginning in a LEB.
    pub(super) fn update_master(&mut self, log_leb: u32) -> Result<()> {
        let (root, index_size) = (self.tree.root(), self.tree.size());
        let Some(writer) = self.writer.as_deref() else { return Ok(()) };
        let master = &mut self.master;
        master.highest_inode.set(writer.highest_inode.into());
        master.commit.set(writer.commit);
        master.log_leb.set(log_leb);
        (master.root_leb, master.root_offset) = (root.leb.into(), root.offset.into());
        master.root_length.set(root.length);
        master.gc_leb.set(writer.collector_leb.unwrap_or(master.gc_leb.get()));
        (master.index_head_leb, master.index_head_offset) = (writer.index_head.0.into(), writer.index_head.1.into());
        master.index_size.set(index_size);
        master.leb_count = self.superblock.leb_count;
        writer.space.sums().enter(master);
        writer.lpt.places().enter(master);
        Ok(())
    }

    /// Writes the master nodes of the last commit anew, alone in their LEBs, where a power cut may
    /// have left two that differ (Linux `write_rcvrd_mst_node`).
    pub(super) fn write_recovered_master(&mut self) -> Result<()> {
        self.master.flags = (self.master.flags.get() | MASTER_DIRTY | MASTER_RECOVERY).into();
        self.writer()?.master_offset = 0;
        self.put_master()
    }

    /// Writes the master nodes, as of a volume that is in use or not.
    pub(super) fn write_master(&mut self, is_in_use: bool) -> Result<()> {
        let mut flags = self.master.flags.get() & !(MASTER_DIRTY | MASTER_NO_ORPHANS | MASTER_RECOVERY);
        if is_in_use {
            flags |= MASTER_DIRTY;
        }
        if self.writer()?.orphans.is_empty() {
            flags |= MASTER_NO_ORPHANS;
        }
        self.master.flags = flags.into();
        self.put_master()
    }

    fn put_master(&mut self) -> Result<()> {
        let (unit, leb_size) = (self.writer()?.unit, self.superblock.leb_size.get());
        let step = (MASTER_SIZE as u32).next_multiple_of(unit);
        let offset = self.writer()?.master_offset;
        let is_new_leb = offset + step > leb_size || offset == 0;
        let offset = if is_new_leb { 0 } else { offset };
        let mut bytes = Vec::new();
        let rest = [0; MASTER_SIZE - HEADER_SIZE - size_of::<Master>()];
        let sequence = self.writer()?.next_sequence();
        node(node_type::MASTER, sequence, &[bytes_of(&self.master), &rest], &mut bytes);
        pad(&mut bytes, step as usize);
        for leb in MASTER_LEBS {
            let flash = self.lebs.writer_for(Cause::Checkpoint)?;
            match is_new_leb {
                true => flash.change(leb, &bytes)?,
                false => flash.write(leb, offset, &bytes)?,
            }
        }
        self.writer()?.master_offset = offset + step;
        Ok(())
    }
}
