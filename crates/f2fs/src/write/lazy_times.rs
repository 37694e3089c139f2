//! Times kept in memory (Linux's `lazytime`, the default of its F2FS): an overwrite changes only
//! the times of an inode, which are written with the next sync, fsync or change of the inode.
//!
//! A checkpoint made for other reasons leaves them out; after a power cut a file may show older
//! times.

use std::collections::BTreeMap;

use nandkit_block::BlockDevice;
use nandkit_vfs::{Result, Timestamp};

use super::WritableVolume;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::names::store::set_modified;

/// Modification times that are not yet in a node, by inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyTimes(BTreeMap<NodeId, Timestamp>);

impl LazyTimes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an inode has pending times.
    pub fn waits(&self, ino: NodeId) -> bool {
        self.0.contains_key(&ino)
    }

    /// Sets the pending times of an inode.
    pub fn put(&mut self, ino: NodeId, now: Timestamp) {
        self.0.insert(ino, now);
    }

    /// Removes and returns the pending times of an inode.
    pub fn take(&mut self, ino: NodeId) -> Option<Timestamp> {
        self.0.remove(&ino)
    }

    /// The inodes with pending times, ascending.
    pub fn inodes(&self) -> Vec<NodeId> {
        self.0.keys().copied().collect()
    }

    /// Applies the pending times to a decoded inode.
    pub fn show(&self, inode: &mut Inode) {
        if let Some(&now) = self.0.get(&inode.nid) {
            set_modified(&mut inode.head, now);
        }
    }
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes the pending times of an inode into its node. Errors: `Corrupt`, `Device`.
    pub(crate) fn settle_times(&mut self, ino: NodeId) -> Result<()> {
        match self.writer.lazy_times.take(ino) {
            Some(now) => self.edit_head(ino, |head| set_modified(head, now)),
            None => Ok(()),
        }
    }

    /// Writes the pending times of these inodes into their nodes and makes room after each where it
    /// is short (inode.c, `f2fs_write_inode`). Errors: as [`WritableVolume::balance`].
    pub(crate) fn settle_times_of(&mut self, inodes: &[NodeId]) -> Result<()> {
        for &ino in inodes {
            self.settle_times(ino)?;
            if self.is_short() {
                self.collect_in_foreground()?;
            }
        }
        Ok(())
    }

    /// Writes all pending times into their nodes, as at the end of a mount. Errors: `Corrupt`,
    /// `Device`.
    pub(crate) fn settle_all_times(&mut self) -> Result<()> {
        self.writer.lazy_times.inodes().into_iter().try_for_each(|ino| self.settle_times(ino))
    }
}
