//! A sync of the whole volume, and the end of a mount (f2fs-writing.md, "Sync").

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::Result;

use super::WritableVolume;
use crate::counters::Reason;
use crate::ids::NodeId;

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes everything back, data too, and makes it durable with a checkpoint. Errors: `NoSpace`,
    /// `Device` (data that the device refuses: all else is durable, and they are dirty still),
    /// `ReadOnly`.
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
        // Data that were overwritten where they stood changed nothing that a checkpoint says.
        self.flush()?;
        refused.map_or(Ok(()), Err)
    }

    /// The second pass of Linux' write-back, which waits and comes to inodes whose times alone are
    /// dirty: first to those of which the collector moved pages during the first pass, as they
    /// became dirty before the node inode was put behind them, then to the node inode, which is all
    /// nodes. The others come behind it, and the checkpoint writes their nodes again.
    fn write_nodes_of_sync(&mut self, moved: &BTreeSet<NodeId>) -> Result<()> {
        let first: Vec<NodeId> = moved.iter().copied().collect();
        self.settle_times_of(&first)?;
        self.balance()?;
        if self.is_short() {
            // Written twice, nodes would take the room that is not there.
            return Ok(());
        }
        self.write_all_nodes(Cause::Metadata)?;
        if self.is_short() { self.collect_in_foreground() } else { Ok(()) }
    }

    /// Writes everything, with a checkpoint that says that nothing is to be recovered. Inodes
    /// without a name are freed, whoever retains them. What is changed afterwards begins a new
    /// mount as it were. Errors: as [`WritableVolume::sync`].
    pub fn finish(&mut self) -> Result<()> {
        self.free_orphans()?;
        let refused = self.write_back_what_goes()?;
        self.settle_all_times()?;
        self.checkpoint(Reason::Unmount)?;
        self.flush()?;
        refused.map_or(Ok(()), Err)
    }

    /// Ends the mount as [`WritableVolume::finish`] does, and gives the devices back. On an error
    /// the volume comes back with it.
    pub fn unmount(mut self) -> std::result::Result<Vec<D>, (Box<Self>, nandkit_vfs::FsError)> {
        match self.finish() {
            Ok(()) => Ok(self.abandon()),
            Err(error) => Err((Box::new(self), error)),
        }
    }
}
