//! Names: inodes are made, get another name, or lose one.
//!
//! Contents of the groups: Linux `fs/ubifs/journal.c`, `ubifs_jnl_update`.

use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, NewNode, Result};
use zerocopy::{FromZeros, IntoBytes};

use super::budget::Purpose;
use super::buffers::BASE_HEAD;
use super::group::{Effect, Group};
use super::inodes::InodeAndData;
use crate::encode::{EntryOf, INODE_SIZE, device_bytes, entry_bytes, raw, set_time, type_of};
use crate::files::is_name;
use crate::layout::{Dentry, INLINE_MAX, INODE_COMPRESSED, INODE_XATTR, Inode, Key, NAME_MAX, flag, node_type};
use crate::mount::Ubifs;
use crate::read::Entry;

/// Bits of an inode's flags that its directory hands on, besides that data are compressed:
/// synchronous, synchronous names (Linux `fs/ubifs/dir.c`, `inherit_flags`).
const SYNCHRONOUS: u32 = 2;
const SYNCHRONOUS_NAMES: u32 = 0x10;
/// Bits of a device's major and minor number.
const MAJOR_BITS: u32 = 12;
const MINOR_BITS: u32 = 20;
/// Deleted values of attributes in one group.
const DELETED_IN_GROUP: usize = 32;

pub(super) fn fails(kind: ErrorKind, name: &[u8], what: &str) -> FsError {
    FsError::new(kind, format!("{}: {what}", String::from_utf8_lossy(name)))
}

fn invalid<T>(detail: &str) -> Result<T> {
    Err(FsError::new(ErrorKind::InvalidArgument, detail))
}

/// Checks that a new name is valid and not too long.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(FsError::new(
            ErrorKind::NameTooLong,
            format!("a name of {} bytes; at most {NAME_MAX}", name.len()),
        ));
    }
    if !is_name(name) {
        let detail = "names are not empty, not . or .., and hold no / and no NUL";
        return Err(FsError::new(ErrorKind::InvalidName, detail));
    }
    Ok(())
}

/// The data of a new inode's node.
fn inline_data(node: &NewNode<'_>) -> Result<Vec<u8>> {
    match node.kind {
        FileKind::Symlink if node.target.is_empty() || node.target.contains(&0) => {
            invalid("a symbolic link's target is not empty and holds no NUL")
        }
        FileKind::Symlink if node.target.len() > INLINE_MAX => {
            Err(FsError::new(ErrorKind::NameTooLong, format!("a target of more than {INLINE_MAX} bytes")))
        }
        FileKind::Symlink => Ok(node.target.to_vec()),
        FileKind::BlockDevice | FileKind::CharacterDevice => {
            let (major, minor) = (node.device >> 32, node.device & u64::from(u32::MAX));
            if major >> MAJOR_BITS != 0 || minor >> MINOR_BITS != 0 {
                return invalid("a device number has 12 bits of major and 20 of minor number");
            }
            Ok(device_bytes(node.device))
        }
        _ => Ok(Vec::new()),
    }
}

impl Ubifs {
    /// The directory, with its inode, in which names can be changed.
    pub(super) fn changed_directory(&mut self, directory: InodeNumber) -> Result<(u32, InodeAndData)> {
        self.writer()?;
        let number = self.directory(directory)?;
        let inode = self.inode(number)?;
        if inode.0.links.get() == 0 {
            return Err(FsError::new(ErrorKind::NotFound, format!("directory {number} was removed")));
        }
        Ok((number, inode))
    }

    /// Adds an entry to a group: `inode` 0 takes the name away.
    pub(super) fn add_entry(&mut self, group: &mut Group, directory: u32, name: &[u8], to: (u32, u8), is_xattr: bool) {
        let (inode, file_type) = to;
        let key_hash = self.superblock.key_hash;
        let of = EntryOf { key_hash, parent: directory, name, inode, file_type, is_xattr };
        let key = of.key();
        let has_cookies = self.superblock.flags.get() & flag::DOUBLE_HASH != 0;
        let cookie = match &self.writer {
            // Any number will do that differs from those of other names with this hash.
            Some(writer) if has_cookies => (writer.sequence as u32).wrapping_mul(0x9E37_79B1),
            _ => 0,
        };
        let body = Dentry {
            key: raw(key),
            inode: u64::from(inode).into(),
            padding1: 0,
            file_type,
            name_size: (name.len() as u16).into(),
            cookie: cookie.into(),
        };
        let node_type = if is_xattr { node_type::XENTRY } else { node_type::DENTRY };
        let effect = match inode {
            0 => Effect::NoName(key, name.to_vec()),
            _ => Effect::Name(key, name.to_vec()),
        };
        group.add(node_type, &[body.as_bytes(), name, &[0]], effect);
    }

    /// Sets the times of a change of content.
    pub(super) fn touch(&mut self, inode: &mut Inode, is_modified: bool) -> Result<()> {
        let now = self.writer()?.now();
        set_time(&mut inode.changed_s, &mut inode.changed_ns, now);
        if is_modified {
            set_time(&mut inode.modified_s, &mut inode.modified_ns, now);
        }
        Ok(())
    }

    /// Counts a name that a directory got or lost, and its ".." if it is that of a directory.
    pub(super) fn count_entry(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        is_directory: bool,
        is_new: bool,
    ) -> Result<()> {
        let (bytes, links) = (entry_bytes(name.len()), u32::from(is_directory));
        let (size, count) = (directory.size.get(), directory.links.get());
        match is_new {
            true => {
                directory.size.set(size.saturating_add(bytes));
                directory.links.set(count.saturating_add(links));
            }
            false => {
                directory.size.set(size.saturating_sub(bytes).max(INODE_SIZE));
                directory.links.set(count.saturating_sub(links));
            }
        }
        self.touch(directory, true)
    }

    /// The inode of a new file.
    fn new_inode(&mut self, number: u32, node: &NewNode<'_>, data: &[u8], parent: &Inode) -> Result<Inode> {
        let is_directory = node.kind == FileKind::Directory;
        let mode = if node.kind == FileKind::Symlink { 0o777 } else { u32::from(node.mode) & 0o7777 };
        let handed_on = INODE_COMPRESSED | SYNCHRONOUS | if is_directory { SYNCHRONOUS_NAMES } else { 0 };
        let size = match node.kind {
            FileKind::Directory => INODE_SIZE,
            FileKind::Symlink => data.len() as u64,
            _ => 0,
        };
        let mut inode = Inode::new_zeroed();
        inode.key = raw(Key::inode(number));
        inode.created_sequence.set(self.writer()?.next_sequence());
        inode.size.set(size);
        inode.links.set(if is_directory { 2 } else { 1 });
        inode.uid.set(node.uid);
        inode.gid.set(node.gid);
        inode.mode.set(node.kind.mode() | mode);
        inode.flags.set(parent.flags.get() & handed_on);
        inode.data_size.set(data.len() as u32);
        inode.compression.set(self.compression_of_new(parent));
        self.touch(&mut inode, true)?;
        (inode.accessed_s, inode.accessed_ns) = (inode.modified_s, inode.modified_ns);
        Ok(inode)
    }

    /// Creates an inode with a name.
    pub(super) fn make(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<u32> {
        let (parent, mut parent_inode) = self.changed_directory(directory)?;
        check_name(name)?;
        if self.entry_named(parent, name, false)?.is_some() {
            return Err(fails(ErrorKind::Exists, name, "exists"));
        }
        let data = inline_data(node)?;
        self.budget(entry_bytes(name.len()) + 2 * INODE_SIZE + data.len() as u64 + 8, 2, Purpose::Growth)?;
        let number = self.new_number()?;
        let inode = self.new_inode(number, node, &data, &parent_inode.0)?;
        // The budget may have committed, and with it written the directory.
        self.count_entry(&mut parent_inode.0, name, node.kind == FileKind::Directory, true)?;
        let mut group = Group::default();
        self.add_entry(&mut group, parent, name, (number, type_of(node.kind)), false);
        group.inode(&(inode, data));
        group.inode(&parent_inode);
        self.put_with(group, &[parent])?;
        Ok(number)
    }

    /// The entry of a name. Errors: `NotFound`.
    pub(super) fn named(&self, directory: u32, name: &[u8]) -> Result<Entry> {
        if name.len() > NAME_MAX {
            return Err(FsError::new(ErrorKind::NameTooLong, format!("a name of {} bytes", name.len())));
        }
        let entry = self.entry_named(directory, name, false)?.filter(|_| is_name(name));
        entry.ok_or_else(|| fails(ErrorKind::NotFound, name, "not found"))
    }

    /// Whether a directory has no names.
    pub(super) fn is_empty(&self, directory: u32) -> bool {
        let names = Key::name(directory, 0, false)..=Key::name(directory, u32::MAX, false);
        self.tree.range(names).next().is_none()
    }

    /// Deletes a name.
    pub(super) fn unlink(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let (parent, mut parent_inode) = self.changed_directory(directory)?;
        let entry = self.named(parent, name)?;
        let mut inode = self.inode(entry.inode)?;
        let is_directory = entry.file_type == type_of(FileKind::Directory);
        if is_directory && !self.is_empty(entry.inode) {
            return Err(fails(ErrorKind::NotEmpty, name, "is not empty"));
        }
        self.refuse_orphan(&inode.0, is_directory)?;
        self.budget(entry_bytes(name.len()) + 2 * INODE_SIZE, 0, Purpose::Deletion)?;
        self.count_entry(&mut parent_inode.0, name, is_directory, false)?;
        self.lose_link(&mut inode.0, is_directory)?;
        let mut group = Group::default();
        self.add_entry(&mut group, parent, name, (0, entry.file_type), false);
        self.add_unlinked(&mut group, &inode);
        group.inode(&parent_inode);
        self.put_with(group, &[parent, entry.inode])?;
        self.end_unlinked(entry.inode, inode.0.links.get())
    }

    /// Refuses to take the last name from an inode that is open if the orphan area is full.
    pub(super) fn refuse_orphan(&mut self, inode: &Inode, is_directory: bool) -> Result<()> {
        let number = inode.key.key().inode;
        let most = self.orphans_max() / 2;
        let is_last = is_directory || inode.links.get() <= 1;
        let writer = self.writer()?;
        if is_last && writer.retained.contains_key(&number) && writer.orphans.len() >= most {
            return Err(FsError::new(ErrorKind::NoSpace, "too many open files have lost their names"));
        }
        Ok(())
    }

    /// Takes a name from an inode.
    pub(super) fn lose_link(&mut self, inode: &mut Inode, is_directory: bool) -> Result<()> {
        let links = if is_directory { 0 } else { inode.links.get().saturating_sub(1) };
        inode.links.set(links);
        self.touch(inode, false)
    }

    /// Adds an inode that lost a name to a group: what an inode without names held is not needed
    /// any more, unless it is open.
    pub(super) fn add_unlinked(&self, group: &mut Group, inode: &InodeAndData) {
        let number = inode.0.key.key().inode;
        let is_retained = self.writer.as_deref().is_some_and(|writer| writer.retained.contains_key(&number));
        match inode.0.links.get() {
            0 if !is_retained => group.deleted_inode(inode),
            _ => group.inode(inode),
        }
    }

    /// Ends an inode that lost a name, if it was the last one and it is not open.
    pub(super) fn end_unlinked(&mut self, inode: u32, links: u32) -> Result<()> {
        let writer = self.writer()?;
        if links > 0 {
            return Ok(());
        }
        if writer.retained.contains_key(&inode) {
            writer.orphans.insert(inode);
            return Ok(());
        }
        self.drop_with_values(inode)
    }

    /// Drops an inode whose end was written, and the values of its attributes. No commit may come
    /// between, or the index would have an inode without a name; so their own ends follow.
    fn drop_with_values(&mut self, inode: u32) -> Result<()> {
        let values = self.attribute_inodes(inode);
        let last = values.iter().map(|value| self.inode(*value)).collect::<Result<Vec<_>>>()?;
        self.drop_inode(inode)?;
        values.iter().try_for_each(|value| self.drop_inode(*value))?;
        for part in last.chunks(DELETED_IN_GROUP) {
            let mut group = Group::default();
            part.iter().for_each(|value| group.deleted_inode(value));
            self.put(BASE_HEAD, group)?;
        }
        Ok(())
    }

    /// The inodes with the values of an inode's attributes.
    fn attribute_inodes(&self, inode: u32) -> Vec<u32> {
        let keys = Key::name(inode, 0, true)..=Key::name(inode, u32::MAX, true);
        let entries = self.tree.range(keys).filter_map(|(key, place)| self.entry(key, place, true).ok());
        let is_value = |value: &u32| self.inode(*value).is_ok_and(|(inode, _)| inode.flags.get() & INODE_XATTR != 0);
        entries.map(|entry| entry.inode).filter(is_value).collect()
    }

    /// Ends an inode without a name that is no longer open.
    pub(super) fn delete_orphan(&mut self, inode: u32) -> Result<()> {
        let last = self.inode(inode)?;
        let mut group = Group::default();
        group.deleted_inode(&last);
        self.put_with(group, &[inode])?;
        self.writer()?.orphans.remove(&inode);
        self.drop_with_values(inode)
    }

    /// Gives an inode one more name.
    pub(super) fn add_name(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let number = self.number(inode)?;
        let mut linked = self.inode(number)?;
        let kind = FileKind::of_mode(linked.0.mode.get());
        let kind = kind.filter(|kind| *kind != FileKind::Directory).ok_or_else(|| {
            FsError::new(ErrorKind::IsADirectory, format!("inode {number} is a directory, which has one name"))
        })?;
        let (parent, mut parent_inode) = self.changed_directory(directory)?;
        check_name(name)?;
        if linked.0.links.get() == 0 {
            return Err(FsError::new(ErrorKind::NotFound, format!("inode {number} was removed")));
        }
        if self.entry_named(parent, name, false)?.is_some() {
            return Err(fails(ErrorKind::Exists, name, "exists"));
        }
        let links = linked.0.links.get().checked_add(1).filter(|links| *links < u32::MAX);
        linked.0.links.set(links.ok_or_else(|| fails(ErrorKind::TooManyLinks, name, "too many links"))?);
        self.budget(entry_bytes(name.len()) + 2 * INODE_SIZE + INLINE_MAX as u64, 1, Purpose::Growth)?;
        self.touch(&mut linked.0, false)?;
        self.count_entry(&mut parent_inode.0, name, false, true)?;
        let mut group = Group::default();
        self.add_entry(&mut group, parent, name, (number, type_of(kind)), false);
        group.inode(&linked);
        group.inode(&parent_inode);
        self.put_with(group, &[parent, number])
    }
}
