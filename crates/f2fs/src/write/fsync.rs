//! Fsync of one file: by marked nodes that roll-forward finds, or by a checkpoint where these are
//! not enough (f2fs-writing.md, "fsync"; file.c, `f2fs_do_sync_file`; node.c,
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
    /// Makes a file durable: data, size, attributes and its name. `data_only` means fdatasync,
    /// which overwrites more in place ([`super::ipu::FSYNC`]). Errors: `NoSpace`, `Device` (data
    /// stays dirty; a failure of nodes or of a flush stops the volume), `ReadOnly`, `Corrupt`.
    /// Cost: writes the file's dirty pages and nodes and flushes, or makes a checkpoint.
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

    /// Flushes the device. Errors: `Device`; it stops the volume, since nobody knows what the
    /// device lost: pages and nodes count as written, and a later fsync would follow a gap.
    pub(super) fn flush(&mut self) -> Result<()> {
        let flushed = self.device.flush(Cause::UserData);
        self.or_stop(flushed)?;
        self.writer.since_checkpoint.flushed();
        Ok(())
    }

    /// Whether roll-forward could not restore the file's current state (file.c,
    /// `need_do_checkpoint`). Unlike Linux, this includes a tree that lost nodes: Linux's recovery
    /// leaves their blocks past the end of the file, and they become content when it grows.
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

    /// Writes the file's waiting nodes except indirect ones. Only the last one, the inode if it is
    /// among them, is marked, so roll-forward recovers the file completely or not at all. Linux
    /// marks each; a power cut in between leaves attributes or tree half old and half new.
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

    /// A file's waiting nodes, except indirect ones.
    pub(super) fn direct_nodes_waiting(&self, ino: NodeId) -> Vec<NodeId> {
        let mut nids = self.nodes.of_owner(ino);
        nids.retain(|&nid| {
            let footer = self.nodes.waiting_block(nid).and_then(|block| Footer::of_block(block));
            footer.is_some_and(|footer| !is_indirect(self.device.geometry(), footer.offset()))
        });
        nids
    }

    /// Whether an fsync of the file would write anything.
    pub fn has_unsynced(&self, ino: NodeId) -> bool {
        let nodes = !self.nodes.of_owner(ino).is_empty() || self.nat.needs_inode(ino);
        nodes || self.writer.locked_pages().dirty_of(ino) > 0 || self.writer.lazy_times.waits(ino)
    }
}
