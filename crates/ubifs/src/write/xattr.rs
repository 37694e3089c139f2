//! Extended attributes: each value is an inode, to which an entry leads.
//!
//! Contents of the groups: Linux `fs/ubifs/xattr.c`, `fs/ubifs/journal.c`.

use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, Result, XattrChanges};
use zerocopy::FromZeros;

use super::budget::Purpose;
use super::group::Group;
use super::inodes::InodeAndData;
use super::names::fails;
use crate::encode::{INODE_SIZE, entry_bytes, raw, type_of, value_bytes};
use crate::layout::{INLINE_MAX, INODE_XATTR, Inode, Key, NAME_MAX, XATTR_MODE};
use crate::mount::Ubifs;

/// Prefixes of names that Linux stores.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Most bytes of an inode's names, each with a zero (Linux `XATTR_LIST_MAX`).
const NAMES_MAX: u32 = 65_536;

fn check(name: &[u8], value: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        let detail = format!("an attribute's name has at most {NAME_MAX} bytes");
        return Err(FsError::new(ErrorKind::NameTooLong, detail));
    }
    let Some(prefix) = PREFIXES.iter().find(|prefix| name.starts_with(prefix)) else {
        return Err(fails(ErrorKind::NotSupported, name, "the format has no attributes with such a prefix"));
    };
    if name.len() == prefix.len() || name.contains(&0) {
        let detail = "an attribute's name is not empty behind its prefix, and holds no NUL";
        return Err(FsError::new(ErrorKind::InvalidArgument, detail));
    }
    if value.len() > INLINE_MAX {
        return Err(fails(ErrorKind::NoSpace, name, "a value of more than 4096 bytes"));
    }
    Ok(())
}

/// Counts an attribute of an inode.
fn count(host: &mut Inode, name: &[u8], value: usize, is_new: bool) {
    let bytes = (entry_bytes(name.len()) + value_bytes(value)) as u32;
    let change = |of: u32, by: u32| if is_new { of.saturating_add(by) } else { of.saturating_sub(by) };
    host.xattrs.set(change(host.xattrs.get(), 1));
    host.xattr_bytes.set(change(host.xattr_bytes.get(), bytes));
    host.xattr_name_bytes.set(change(host.xattr_name_bytes.get(), name.len() as u32));
}

impl Ubifs {
    fn set_value(&mut self, number: u32, name: &[u8], value: &[u8]) -> Result<()> {
        check(name, value)?;
        let mut host = self.inode(number)?;
        let bytes = entry_bytes(name.len()) + 2 * INODE_SIZE + 2 * INLINE_MAX as u64;
        match self.entry_named(number, name, true)? {
            Some(entry) => {
                self.budget(bytes, 0, Purpose::Growth)?;
                let (mut inode, old) = self.inode(entry.inode)?;
                count(&mut host.0, name, old.len(), false);
                count(&mut host.0, name, value.len(), true);
                self.touch(&mut host.0, false)?;
                self.touch(&mut inode, true)?;
                inode.size.set(value.len() as u64);
                inode.data_size.set(value.len() as u32);
                let mut group = Group::default();
                group.inode(&host);
                group.inode(&(inode, value.to_vec()));
                self.put_with(group, &[number, entry.inode])
            }
            None => {
                self.check_room(&host.0, name)?;
                self.budget(bytes, 2, Purpose::Growth)?;
                count(&mut host.0, name, value.len(), true);
                self.touch(&mut host.0, false)?;
                let inode = self.new_value(value)?;
                let to = (inode.0.key.key().inode, type_of(FileKind::Regular));
                let mut group = Group::default();
                self.add_entry(&mut group, number, name, to, true);
                group.inode(&inode);
                group.inode(&host);
                self.put_with(group, &[number])
            }
        }
    }

    /// Refuses an attribute too many: Linux deletes all of an inode in one group.
    fn check_room(&self, host: &Inode, name: &[u8]) -> Result<()> {
        let most = self.superblock.leb_size.get() / 2 / INODE_SIZE as u32;
        let names = host.xattr_name_bytes.get().saturating_add(host.xattrs.get()).saturating_add(name.len() as u32 + 1);
        if host.xattrs.get() >= most || names > NAMES_MAX {
            return Err(fails(ErrorKind::NoSpace, name, "the inode has too many attributes"));
        }
        Ok(())
    }

    fn new_value(&mut self, value: &[u8]) -> Result<InodeAndData> {
        let number = self.new_number()?;
        let mut inode = Inode::new_zeroed();
        inode.key = raw(Key::inode(number));
        inode.created_sequence.set(self.writer()?.next_sequence());
        inode.size.set(value.len() as u64);
        inode.links.set(1);
        inode.mode.set(XATTR_MODE);
        inode.flags.set(INODE_XATTR);
        inode.data_size.set(value.len() as u32);
        inode.compression.set(self.superblock.compression.get());
        self.touch(&mut inode, true)?;
        (inode.accessed_s, inode.accessed_ns) = (inode.modified_s, inode.modified_ns);
        Ok((inode, value.to_vec()))
    }

    fn remove_value(&mut self, number: u32, name: &[u8]) -> Result<()> {
        let mut host = self.inode(number)?;
        let Some(entry) = self.entry_named(number, name, true)? else {
            return Err(fails(ErrorKind::NoAttribute, name, "the inode has no such attribute"));
        };
        self.budget(entry_bytes(name.len()) + 2 * INODE_SIZE, 0, Purpose::Deletion)?;
        let inode = self.inode(entry.inode)?;
        count(&mut host.0, name, inode.1.len(), false);
        self.touch(&mut host.0, false)?;
        let mut group = Group::default();
        self.add_entry(&mut group, number, name, (0, entry.file_type), true);
        group.deleted_inode(&inode);
        group.inode(&host);
        self.put_with(group, &[number, entry.inode])?;
        self.drop_inode(entry.inode)
    }
}

impl XattrChanges for Ubifs {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        self.writer()?;
        let number = self.number(inode)?;
        self.set_value(number, name, value)
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.writer()?;
        let number = self.number(inode)?;
        self.remove_value(number, name)
    }
}
