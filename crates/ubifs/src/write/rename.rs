//! Renames.
//!
//! Contents of the groups: Linux `fs/ubifs/journal.c`, `ubifs_jnl_rename`, `ubifs_jnl_xrename`.

use nandkit_vfs::{ErrorKind, FileKind, InodeNumber, RenameFlags, Result};

use super::budget::Purpose;
use super::group::Group;
use super::inodes::InodeAndData;
use super::names::{check_name, fails};
use crate::encode::{INODE_SIZE, entry_bytes, type_of};
use crate::layout::{INLINE_MAX, Inode, Key};
use crate::mount::Ubifs;
use crate::read::Entry;

/// A directory and a name in it.
type Named<'a> = (InodeNumber, &'a [u8]);

/// The directories of a rename: one, or two.
struct Parents {
    from: (u32, InodeAndData),
    to: Option<(u32, InodeAndData)>,
}

impl Parents {
    fn to(&mut self) -> &mut Inode {
        match &mut self.to {
            Some((_, (inode, _))) => inode,
            None => &mut self.from.1.0,
        }
    }

    fn from(&mut self) -> &mut Inode {
        &mut self.from.1.0
    }

    fn to_number(&self) -> u32 {
        self.to.as_ref().map_or(self.from.0, |(number, _)| *number)
    }

    fn add_to(&self, group: &mut Group) -> Vec<u32> {
        group.inode(&self.from.1);
        self.to.iter().for_each(|(_, inode)| group.inode(inode));
        std::iter::once(self.from.0).chain(self.to.iter().map(|(number, _)| *number)).collect()
    }
}

const fn is_directory(entry: &Entry) -> bool {
    entry.file_type == type_of(FileKind::Directory)
}

impl Ubifs {
    /// Gives an inode another name or directory.
    pub(super) fn move_name(&mut self, from: Named<'_>, to: Named<'_>, flags: RenameFlags) -> Result<()> {
        let source = self.changed_directory(from.0)?;
        let target = self.changed_directory(to.0)?;
        let parents = Parents { to: (target.0 != source.0).then_some(target), from: source };
        check_name(to.1)?;
        let moved = self.named(parents.from.0, from.1)?;
        let replaced = self.entry_named(parents.to_number(), to.1, false)?;
        if is_directory(&moved) && self.is_within(parents.to_number(), moved.inode) {
            return Err(fails(ErrorKind::InvalidArgument, from.1, "a directory does not move into itself"));
        }
        if flags == RenameFlags::Exchange {
            let other = replaced.ok_or_else(|| fails(ErrorKind::NotFound, to.1, "not found"))?;
            if is_directory(&other) && self.is_within(parents.from.0, other.inode) {
                return Err(fails(ErrorKind::InvalidArgument, to.1, "a directory does not move into itself"));
            }
            return self.exchange((parents, from.1, to.1), &moved, &other);
        }
        if replaced.is_some() && flags == RenameFlags::NoReplace {
            return Err(fails(ErrorKind::Exists, to.1, "exists"));
        }
        self.replace((parents, from.1, to.1), &moved, replaced)
    }

    fn replace(
        &mut self,
        (mut parents, from, to): (Parents, &[u8], &[u8]),
        moved: &Entry,
        replaced: Option<Entry>,
    ) -> Result<()> {
        let is_moved_directory = is_directory(moved);
        if let Some(other) = &replaced {
            if other.inode == moved.inode {
                return Ok(());
            }
            match (is_moved_directory, is_directory(other)) {
                (true, false) => return Err(fails(ErrorKind::NotADirectory, to, "is no directory")),
                (false, true) => return Err(fails(ErrorKind::IsADirectory, to, "is a directory")),
                (true, true) if !self.is_empty(other.inode) => {
                    return Err(fails(ErrorKind::NotEmpty, to, "is not empty"));
                }
                _ => {}
            }
        }
        let mut lost = replaced.as_ref().map(|other| self.inode(other.inode)).transpose()?;
        if let Some((inode, _)) = &lost {
            self.refuse_orphan(inode, is_moved_directory)?;
        }
        let bytes = entry_bytes(from.len()) + entry_bytes(to.len()) + 4 * INODE_SIZE + INLINE_MAX as u64;
        self.budget(bytes, u64::from(lost.is_none()), Purpose::Growth)?;
        let mut group = Group::default();
        let target = parents.to_number();
        self.add_entry(&mut group, target, to, (moved.inode, moved.file_type), false);
        self.add_entry(&mut group, parents.from.0, from, (0, moved.file_type), false);
        self.count_entry(parents.from(), from, is_moved_directory, false)?;
        match &mut lost {
            // The name stays, with another inode; of two directories one remains.
            Some(lost) => {
                self.touch(parents.to(), true)?;
                self.lose_link(&mut lost.0, is_moved_directory)?;
                self.add_unlinked(&mut group, lost);
            }
            None => self.count_entry(parents.to(), to, is_moved_directory, true)?,
        }
        let mut written = parents.add_to(&mut group);
        written.extend(replaced.iter().map(|other| other.inode));
        self.put_with(group, &written)?;
        if let (Some(other), Some((inode, _))) = (replaced, lost) {
            self.end_unlinked(other.inode, inode.links.get())?;
        }
        self.touch_moved(moved.inode)
    }

    fn exchange(
        &mut self,
        (mut parents, from, to): (Parents, &[u8], &[u8]),
        moved: &Entry,
        other: &Entry,
    ) -> Result<()> {
        if other.inode == moved.inode {
            return Ok(());
        }
        let bytes = entry_bytes(from.len()) + entry_bytes(to.len()) + 2 * INODE_SIZE;
        self.budget(bytes, 0, Purpose::Growth)?;
        let mut group = Group::default();
        let target = parents.to_number();
        self.add_entry(&mut group, target, to, (moved.inode, moved.file_type), false);
        self.add_entry(&mut group, parents.from.0, from, (other.inode, other.file_type), false);
        let change = i64::from(is_directory(other)) - i64::from(is_directory(moved));
        if parents.to.is_some() {
            let add = |inode: &mut Inode, change: i64| {
                inode.links.set((i64::from(inode.links.get()) + change).clamp(0, u32::MAX.into()) as u32);
            };
            add(parents.from(), change);
            add(parents.to(), -change);
        }
        self.touch(parents.from(), true)?;
        self.touch(parents.to(), true)?;
        let written = parents.add_to(&mut group);
        self.put_with(group, &written)?;
        self.touch_moved(moved.inode)?;
        self.touch_moved(other.inode)
    }

    /// A rename changes the time of the inode, which is held back.
    fn touch_moved(&mut self, inode: u32) -> Result<()> {
        let mut moved = self.inode(inode)?;
        self.touch(&mut moved.0, false)?;
        self.hold(moved)
    }

    /// Whether a directory is `above`, or stands below it. The format has no way up: this passes
    /// over all directories below `above`.
    fn is_within(&self, directory: u32, above: u32) -> bool {
        let mut pending = vec![above];
        let mut left = self.tree.len();
        while let Some(next) = pending.pop() {
            if next == directory {
                return true;
            }
            let names = Key::name(next, 0, false)..=Key::name(next, u32::MAX, false);
            for (key, place) in self.tree.range(names) {
                left = left.saturating_sub(1);
                let entry = self.entry(key, place, false).ok().filter(|entry| is_directory(entry) && left > 0);
                pending.extend(entry.map(|entry| entry.inode));
            }
        }
        false
    }
}
