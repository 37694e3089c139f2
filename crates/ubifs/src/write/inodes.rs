//! Inodes that are held back: times and sizes change with each write, and reach the flash when they
//! are synced, or by a commit.

use nandkit_vfs::Result;
use zerocopy::IntoBytes;

use super::buffers::BASE_HEAD;
use super::group::{Effect, Group};
use crate::layout::{Inode, Key, node_type};
use crate::mount::Ubifs;

/// Most inodes that are held back.
const PENDING_MAX: usize = 512;

/// An inode and the data in its node.
pub(crate) type InodeAndData = (Inode, Vec<u8>);

impl Group {
    /// Adds an inode that stays.
    pub fn inode(&mut self, (inode, data): &InodeAndData) {
        let key = inode.key.key();
        self.add(node_type::INODE, &[inode.as_bytes(), data], Effect::Leaf(key));
    }

    /// Adds an inode that has no name any more: the replay removes it.
    pub fn deleted_inode(&mut self, (inode, data): &InodeAndData) {
        let inode = Inode { links: 0.into(), ..*inode };
        self.add(node_type::INODE, &[inode.as_bytes(), data], Effect::Mark);
    }
}

impl Ubifs {
    /// Holds an inode back.
    pub(super) fn hold(&mut self, inode: InodeAndData) -> Result<()> {
        let number = inode.0.key.key().inode;
        self.writer()?.is_changed = true;
        self.pending.insert(number, inode);
        if self.pending.len() > PENDING_MAX {
            self.flush_inodes(true)?;
        }
        Ok(())
    }

    /// Writes a group, which holds these inodes as they are now.
    pub(super) fn put_with(&mut self, group: Group, inodes: &[u32]) -> Result<()> {
        self.put(BASE_HEAD, group)?;
        for inode in inodes {
            self.pending.remove(inode);
        }
        Ok(())
    }

    /// Writes an inode that is held back.
    pub(super) fn flush_inode(&mut self, inode: u32, may_commit: bool) -> Result<()> {
        let Some(pending) = self.pending.get(&inode) else { return Ok(()) };
        let mut group = Group::default();
        group.inode(pending);
        self.reserve(BASE_HEAD, group.length(), may_commit)?;
        // A commit may have written it meanwhile.
        if self.pending.remove(&inode).is_some() {
            self.put_reserved(BASE_HEAD, &mut group)?;
        }
        Ok(())
    }

    /// Writes all inodes that are held back.
    pub(super) fn flush_inodes(&mut self, may_commit: bool) -> Result<()> {
        let inodes: Vec<u32> = self.pending.keys().copied().collect();
        inodes.into_iter().try_for_each(|inode| self.flush_inode(inode, may_commit))
    }

    /// The number of a new inode. Errors: none is left.
    pub(super) fn new_number(&mut self) -> Result<u32> {
        let writer = self.writer()?;
        let next = writer.highest_inode.checked_add(1).filter(|next| *next < u32::MAX - 256);
        let next = next.ok_or_else(|| {
            nandkit_vfs::FsError::new(nandkit_vfs::ErrorKind::NoSpace, "all inode numbers have been given")
        })?;
        writer.highest_inode = next;
        Ok(next)
    }

    /// Removes an inode from the index, with all it has.
    pub(super) fn drop_inode(&mut self, inode: u32) -> Result<()> {
        self.pending.remove(&inode);
        self.pages.cut(inode, 0);
        self.drop_keys(Key::new(inode, 0), Key::new(inode, u32::MAX))
    }
}
