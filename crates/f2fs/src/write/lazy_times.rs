//! Times that wait in memory (Linux' `lazytime`, the default of its F2FS): an overwrite changes
//! nothing of an inode but its times, and they are written with the next sync, fsync or change of
//! the inode.
//!
//! A checkpoint that something else asks for leaves them out; behind a power cut a file may show
//! the times of before.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_vfs::{Result, Timestamp};

use super::WritableVolume;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::names::store::set_modified;

/// Times of changes of content that no node has yet, by inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyTimes(BTreeMap<NodeId, Timestamp>);

impl LazyTimes {
    /// Whether any wait.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether those of an inode wait.
    pub fn waits(&self, ino: NodeId) -> bool {
        self.0.contains_key(&ino)
    }

    /// An inode's times are these from now on.
    pub fn put(&mut self, ino: NodeId, now: Timestamp) {
        self.0.insert(ino, now);
    }

    /// An inode's times, which wait no longer.
    pub fn take(&mut self, ino: NodeId) -> Option<Timestamp> {
        self.0.remove(&ino)
    }

    /// The inodes whose times wait, ascending.
    pub fn inodes(&self) -> Vec<NodeId> {
        self.0.keys().copied().collect()
    }

    /// An inode as it is with the times that wait.
    pub fn show(&self, inode: &mut Inode) {
        if let Some(&now) = self.0.get(&inode.nid) {
            set_modified(&mut inode.head, now);
        }
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// The times of an inode go into its node, if they wait. Errors: `Corrupt`, `Device`.
    pub(crate) fn settle_times(&mut self, ino: NodeId) -> Result<()> {
        match self.writer.lazy_times.take(ino) {
            Some(now) => self.edit_head(ino, |head| set_modified(head, now)),
            None => Ok(()),
        }
    }

    /// The times of these inodes go into their nodes; behind each, room is made where it is short
    /// (inode.c, `f2fs_write_inode`). Errors: as [`WritableVolume::balance`].
    pub(crate) fn settle_times_of(&mut self, inodes: &[NodeId]) -> Result<()> {
        for &ino in inodes {
            self.settle_times(ino)?;
            if self.is_short() {
                self.collect_in_foreground()?;
            }
        }
        Ok(())
    }

    /// All times that wait go into their nodes, as at the end of a mount. Errors: `Corrupt`,
    /// `Device`.
    pub(crate) fn settle_all_times(&mut self) -> Result<()> {
        self.writer.lazy_times.inodes().into_iter().try_for_each(|ino| self.settle_times(ino))
    }
}
