//! One file made durable: by marked nodes that roll-forward finds, or by a checkpoint where that
//! does not do (f2fs-writing.md, "fsync"; file.c, `f2fs_do_sync_file`; node.c,
//! `f2fs_fsync_node_pages`).

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{FileKind, Result};

use super::WritableVolume;
use super::back::Why;
use crate::blocks::Blocks;
use crate::counters::Reason;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::Footer;
use crate::layout::inode::advise;
use crate::layout::node::mark;
use crate::node::cache::is_indirect;
use crate::segments::classes::ActiveLogs;

impl<D: BlockDevice> WritableVolume<D> {
    /// Makes a file durable: data, size, attributes, and that it has its name. `data_only`:
    /// fdatasync, which overwrites more where it stands ([`super::ipu::FSYNC`]). Errors: `NoSpace`,
    /// `Device` (of data: they are dirty still; of nodes and of a flush: the volume stops),
    /// `ReadOnly`, `Corrupt`. Cost: the file's dirty pages and nodes and a flush, or a checkpoint.
    pub fn fsync(&mut self, ino: NodeId, data_only: bool) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        if inode.kind != FileKind::Directory {
            self.write_back(&[ino], Why { fsync: Some(data_only), ..Why::BACKGROUND })?;
        }
        if !data_only {
            self.settle_times(ino)?;
        }
        let changed = !self.nodes.of_owner(ino).is_empty() || self.nat.needs_inode(ino);
        if changed || inode.kind == FileKind::Directory {
            if self.needs_checkpoint(&inode) {
                self.checkpoint(Reason::Sync)?;
            } else {
                self.write_marked(ino)?;
            }
        }
        self.flush()
    }

    /// What was written is there. Errors: `Device`; the volume stops, as nobody knows what of it
    /// the device has lost: pages and nodes count as written, and what is fsynced later would lie
    /// behind a gap.
    pub(super) fn flush(&mut self) -> Result<()> {
        let flushed = self.device.flush(Cause::UserData);
        self.or_stop(flushed)?;
        self.writer.since_checkpoint.flushed();
        Ok(())
    }

    /// Whether roll-forward could not make the file what it is now (file.c, `need_do_checkpoint`).
    /// Also where its tree lost nodes, which Linux does not ask: its recovery leaves their blocks
    /// behind the end of the file, and they are content again when that grows.
    pub(super) fn needs_checkpoint(&self, inode: &Inode) -> bool {
        let head = &inode.head;
        let parent = NodeId(head.parent.get());
        let is_new = self.nat.needs_dentry_mark(inode.nid);
        inode.kind != FileKind::Regular
            || inode.is_compressed()
            || head.links.get() != 1
            || head.has_advise(advise::LOST_PARENT)
            || !self.writer.segments.space.has_room_for_roll_forward(is_new)
            || !self.nat.is_checkpointed(parent)
            || self.writer.options.logs == ActiveLogs::Two
            || self.writer.since_checkpoint.fsync_is_checkpoint(inode.nid, parent, is_new)
    }

    /// Writes what of the file's nodes waits, but for indirect ones. The last of them, the inode
    /// where it is among them, has the only mark: roll-forward takes the file over whole, or as it
    /// was before (Linux marks each, and a power cut in the middle leaves the halves of its
    /// attributes or of its tree in different states).
    fn write_marked(&mut self, ino: NodeId) -> Result<()> {
        self.device.drain();
        if self.writer.options.ordered_fsync || self.writer.since_checkpoint.has_copies(ino) {
            self.flush()?;
        }
        let mut nids = self.direct_nodes_waiting(ino);
        let alone = nids.is_empty() && self.nat.needs_inode(ino);
        if nids.contains(&ino) || alone || !self.nat.has_recoverable_inode(ino) {
            self.edit_node(ino, |_| ())?;
            nids.retain(|nid| *nid != ino);
            nids.push(ino);
        }
        let Some(&last) = nids.last() else { return Ok(()) };
        let dentry = if self.nat.needs_dentry_mark(ino) { mark::DENTRY } else { 0 };
        if dentry != 0 && last == ino {
            self.writer.segments.space.leave_name();
        }
        let marks = |nid: NodeId| match (nid == last, nid == ino) {
            (true, true) => mark::FSYNC | dentry,
            (true, false) => mark::FSYNC,
            (false, _) => 0,
        };
        self.write_nodes(&nids, Cause::Metadata, &marks)
    }

    /// A file's nodes that wait, but for indirect ones.
    pub(super) fn direct_nodes_waiting(&self, ino: NodeId) -> Vec<NodeId> {
        let mut nids = self.nodes.of_owner(ino);
        nids.retain(|&nid| {
            let footer = self.nodes.waiting_block(nid).and_then(|block| Footer::of_block(block));
            footer.is_some_and(|footer| !is_indirect(self.device.geometry(), footer.offset()))
        });
        nids
    }

    /// Whether an fsync of a file would write anything.
    pub fn has_unsynced(&self, ino: NodeId) -> bool {
        let nodes = !self.nodes.of_owner(ino).is_empty() || self.nat.needs_inode(ino);
        nodes || self.writer.locked_pages().dirty_of(ino) > 0 || self.writer.lazy_times.waits(ino)
    }
}
