//! Changes of attributes, and of sizes.
//!
//! Contents of the groups: Linux `fs/ubifs/journal.c`, `ubifs_jnl_truncate`.

use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, FsError, InodeNumber, Result};
use zerocopy::IntoBytes;

use super::budget::{DATA_NODE_MAX, Purpose};
use super::buffers::BASE_HEAD;
use super::group::{Effect, Group};
use super::inodes::InodeAndData;
use crate::encode::{INODE_SIZE, set_time};
use crate::layout::{BLOCK_SIZE, Inode, Key, Truncation, node_type};
use crate::mount::Ubifs;

/// Bytes that a key's block number can reach.
const SIZE_MAX: u64 = (1 << 29) * BLOCK_SIZE as u64;

/// Sets all but the size.
fn set_attributes(inode: &mut Inode, change: &AttributeChange) {
    if let Some(mode) = change.mode {
        inode.mode.set(inode.mode.get() & !0o7777 | u32::from(mode) & 0o7777);
    }
    change.uid.into_iter().for_each(|uid| inode.uid.set(uid));
    change.gid.into_iter().for_each(|gid| inode.gid.set(gid));
    if let Some(time) = change.accessed {
        set_time(&mut inode.accessed_s, &mut inode.accessed_ns, time);
    }
    if let Some(time) = change.modified {
        set_time(&mut inode.modified_s, &mut inode.modified_ns, time);
    }
}

impl Ubifs {
    /// Changes attributes of an inode.
    pub(super) fn change(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<()> {
        self.writer()?;
        let number = self.number(inode)?;
        let mut node = self.inode(number)?;
        let old_size = node.0.size.get();
        if let Some(size) = change.size {
            match FileKind::of_mode(node.0.mode.get()) {
                Some(FileKind::Regular) => self.refuse_encrypted(number, &node.0)?,
                Some(FileKind::Directory) => {
                    return Err(FsError::new(ErrorKind::IsADirectory, format!("inode {number} is a directory")));
                }
                _ => return Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {number} is no file"))),
            }
            if size > SIZE_MAX {
                return Err(FsError::new(ErrorKind::FileTooBig, "a file has at most 2 TiB"));
            }
            node.0.size.set(size);
        }
        self.touch(&mut node.0, change.size.is_some())?;
        set_attributes(&mut node.0, change);
        match change.size {
            Some(size) if size < old_size => self.truncate(number, node, old_size),
            _ => {
                let purpose = if change.size.is_some() { Purpose::Growth } else { Purpose::Deletion };
                self.budget(INODE_SIZE, 0, purpose)?;
                self.hold(node)
            }
        }
    }

    /// Cuts a file off: the inode, what the replay has to remove, and what remains of its last
    /// block.
    fn truncate(&mut self, number: u32, inode: InodeAndData, old_size: u64) -> Result<()> {
        let size = inode.0.size.get();
        let (block, rest) = (size / u64::from(BLOCK_SIZE), (size % u64::from(BLOCK_SIZE)) as usize);
        self.budget(INODE_SIZE + 56 + u64::from(DATA_NODE_MAX), 0, Purpose::Deletion)?;
        let mut group = Group::default();
        group.inode(&inode);
        let truncation =
            Truncation { inode: number.into(), padding: [0; 12], old_size: old_size.into(), new_size: size.into() };
        group.add(node_type::TRUNCATION, &[truncation.as_bytes()], Effect::Mark);
        let holds = |key: &Key| self.tree.first(*key).is_some() || self.pages.get(number, block).is_some();
        if let Some(key) = Key::data(number, block).filter(|key| rest > 0 && holds(key)) {
            let mut content = [0; BLOCK_SIZE as usize];
            self.block(number, block, &mut content)?;
            self.add_block(&mut group, key, &inode.0, content.get(..rest).unwrap_or_default())?;
        }
        self.put(BASE_HEAD, group)?;
        self.pending.remove(&number);
        self.pages.cut(number, block);
        let first = block + u64::from(rest > 0);
        match (Key::data(number, first), Key::data(number, (1 << 29) - 1)) {
            (Some(first), Some(last)) => self.drop_keys(first, last),
            _ => Ok(()),
        }
    }
}
