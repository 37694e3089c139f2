//! Sync of the whole volume, and unmount (f2fs-writing.md, "Sync").

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use super::WritableVolume;
use crate::counters::Reason;
use crate::ids::NodeId;

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes everything back, including file data, and makes it durable with a checkpoint. Errors:
    /// `NoSpace`, `Device` (refused data stays dirty; everything else is durable), `ReadOnly`.
    pub fn sync(&mut self) -> Result<()> {
        self.expect_running()?;
        self.writer.moved_files = Some(BTreeSet::new());
        let written = self.write_back_what_goes();
        let moved = self.writer.moved_files.take().unwrap_or_default();
        let refused = written?;
        if self.writer.options.nodes_before_checkpoint {
            self.write_nodes_of_sync(&moved)?;
        }
        let files = self.writer.lazy_times.inodes();
        self.settle_times_of(&files)?;
        self.checkpoint(Reason::Sync)?;
        // Data overwritten in place changes nothing in a checkpoint, so it needs a flush of its
        // own.
        self.flush()?;
        refused.map_or(Ok(()), Err)
    }

    /// Repeats the second pass of Linux's write-back, which waits for pages and handles inodes of
    /// which only times are dirty. It handles first the inodes whose pages the collector moved
    /// during the first pass, since they became dirty before the node inode was queued after them;
    /// then the node inode, which means all nodes. All other inodes come after it, so the
    /// checkpoint writes their nodes again.
    fn write_nodes_of_sync(&mut self, moved: &BTreeSet<NodeId>) -> Result<()> {
        let first: Vec<NodeId> = moved.iter().copied().collect();
        self.settle_times_of(&first)?;
        self.balance()?;
        if self.is_short() {
            // Nodes written twice would need room that is not there.
            return Ok(());
        }
        self.write_all_nodes(Cause::Metadata)?;
        if self.is_short() { self.collect_in_foreground() } else { Ok(()) }
    }

    /// Writes everything and a checkpoint that marks a clean unmount. Frees all inodes without a
    /// name, even those still retained. A later change acts like the first of a new mount. Errors:
    /// as [`WritableVolume::sync`].
    pub fn finish(&mut self) -> Result<()> {
        self.free_orphans()?;
        let refused = self.write_back_what_goes()?;
        self.settle_all_times()?;
        self.checkpoint(Reason::Unmount)?;
        self.flush()?;
        refused.map_or(Ok(()), Err)
    }

    /// Ends the mount like [`WritableVolume::finish`] and gives the devices back. On an error it
    /// returns the volume too.
    pub fn unmount(mut self) -> std::result::Result<Vec<D>, (Box<Self>, nandkit_vfs::FsError)> {
        match self.finish() {
            Ok(()) => Ok(self.abandon()),
            Err(error) => Err((Box::new(self), error)),
        }
    }
}
