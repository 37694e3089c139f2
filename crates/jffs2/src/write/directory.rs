//! Creating, deleting and moving names, with their inodes.

use std::collections::BTreeSet;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, NewNode, RenameFlags, Result};

use super::allocate::{Need, Urgency};
use super::attributes::attachment;
use crate::Ino;
use crate::encode::{DirentFields, InodeFields, Piece};
use crate::inode::{Body, Entries, Entry, Inode};
use crate::layout::{DIRENT_SIZE, INODE_SIZE, NAME_MAX, ROOT, compression};
use crate::layout::{format, is_name};
use crate::volume::Jffs2;
use crate::write::exhausted;
use crate::write::summary::{DIRENT_ENTRY, INODE_ENTRY};

/// Checks that a new name is valid and not too long.
fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(FsError::new(
            ErrorKind::NameTooLong,
            format!("a name of {} bytes; at most {NAME_MAX}", name.len()),
        ));
    }
    if !is_name(name) {
        return Err(FsError::new(ErrorKind::InvalidName, "names are not empty, not . or .., and hold no / and no NUL"));
    }
    Ok(())
}

fn fails(kind: ErrorKind, name: &[u8], what: &str) -> FsError {
    FsError::new(kind, format!("{}: {what}", String::from_utf8_lossy(name)))
}

impl<F: Flash> Jffs2<F> {
    /// The number of an inode that has a name or is retained. Errors: `NotFound`.
    pub(crate) fn living(&self, inode: InodeNumber) -> Result<Ino> {
        let lives = |number: &Ino| {
            let found = self.inodes.get(number);
            *number == ROOT || found.is_some_and(|inode| inode.links > 0 || inode.retained > 0)
        };
        let number = u32::try_from(inode.0).ok().map(Ino).filter(lives);
        number.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("inode {} does not exist", inode.0)))
    }

    /// A directory that has a name.
    fn directory(&mut self, inode: InodeNumber) -> Result<Ino> {
        let number = self.living(inode)?;
        let is_directory = self.body_mut(number)?.format() == format::DIRECTORY;
        if !is_directory {
            return Err(FsError::new(ErrorKind::NotADirectory, format!("inode {number} is no directory")));
        }
        if number != ROOT && self.inode_mut(number)?.links == 0 {
            return Err(FsError::new(ErrorKind::NotFound, format!("directory {number} was removed")));
        }
        Ok(number)
    }

    fn entry(&self, directory: Ino, name: &[u8]) -> Option<Entry> {
        let entry = self.inodes.get(&directory)?.entries.as_ref()?.get(name)?;
        (entry.inode != Ino::NONE).then(|| entry.clone())
    }

    /// Updates a directory's time: on flash its newest entry has it.
    fn touch(&mut self, directory: Ino, now: u32) -> Result<()> {
        let body = self.body_mut(directory)?;
        (body.modified, body.changed) = (now, now);
        Ok(())
    }

    /// The data of a new inode's attribute node.
    fn attachment(&self, node: &NewNode<'_>) -> Result<Vec<u8>> {
        attachment(self.medium.order(), node.kind, node.target, node.device)
    }

    /// Creates an inode with a name.
    pub(super) fn make(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<Ino> {
        let directory = self.directory(directory)?;
        check_name(name)?;
        if self.entry(directory, name).is_some() {
            return Err(fails(ErrorKind::Exists, name, "exists"));
        }
        let attached = self.attachment(node)?;
        let full = || exhausted("all inode numbers have been given");
        let inode = self.highest_inode.next().ok_or_else(full)?;
        let datum = self.separate_attributes(directory)?;
        let (data, length) = (attached.len() as u32, name.len() as u32);
        // One reservation for both nodes: a full volume gets neither.
        let least = (INODE_SIZE + data).next_multiple_of(4) + DIRENT_SIZE + length;
        let entry = INODE_ENTRY + DIRENT_ENTRY + length;
        let grant = self.reserve(Need { region: datum.region, least, entry }, Urgency::Normal)?;
        let now = self.seconds();
        let mode =
            node.kind.mode() | if node.kind == FileKind::Symlink { 0o777 } else { u32::from(node.mode) & 0o7777 };
        let size = if node.kind == FileKind::Symlink { data } else { 0 };
        let fields = InodeFields {
            inode,
            version: 1,
            mode,
            uid: node.uid as u16,
            gid: node.gid as u16,
            file_size: size,
            accessed: now,
            modified: now,
            changed: now,
        };
        self.highest_inode = inode;
        self.enter(&fields, node, directory);
        let piece = Piece { offset: 0, size: data, compression: compression::NONE, bytes: &attached };
        let written = self.write_attributes(grant, &fields, &piece, Cause::Metadata, datum.stamp);
        let named = written.and_then(|_| {
            let version = self.next_version(directory)?;
            let entry = DirentFields { parent: directory, version, inode, made: now, kind: (mode >> 12) as u8 };
            self.write_dirent(grant, &entry, name, Cause::Metadata, datum.stamp)
        });
        if let Err(error) = named {
            self.bury(inode);
            return Err(error);
        }
        if let Some(made) = self.inodes.get_mut(&inode) {
            made.links = 1;
        }
        self.touch(directory, now)?;
        Ok(inode)
    }

    /// Adds a new inode in memory.
    fn enter(&mut self, fields: &InodeFields, node: &NewNode<'_>, parent: Ino) {
        let is_directory = node.kind == FileKind::Directory;
        let body = Body {
            mode: fields.mode,
            uid: fields.uid,
            gid: fields.gid,
            size: fields.file_size,
            accessed: fields.accessed,
            modified: fields.modified,
            changed: fields.changed,
            target: if node.kind == FileKind::Symlink { node.target.to_vec() } else { Vec::new() },
            device: match node.kind {
                FileKind::BlockDevice | FileKind::CharacterDevice => node.device,
                _ => 0,
            },
            ..Body::default()
        };
        let inode = Inode {
            parent,
            entries: is_directory.then(|| Box::new(Entries::default())),
            body: Box::new(body).into(),
            highest_version: 1,
            ..Inode::default()
        };
        self.inodes.insert(fields.inode, inode);
    }

    /// Deletes a name.
    pub(super) fn unlink(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let directory = self.directory(directory)?;
        let Some(entry) = self.entry(directory, name) else {
            return Err(fails(ErrorKind::NotFound, name, "not found"));
        };
        self.check_removable(entry.inode, name)?;
        let datum = self.separate_attributes(directory)?;
        let grant = self.reserve(Self::need_dirent(datum.region, name), Urgency::Deletion)?;
        let now = self.seconds();
        let version = self.next_version(directory)?;
        let gone = DirentFields { parent: directory, version, inode: Ino::NONE, made: now, kind: 0 };
        self.write_dirent(grant, &gone, name, Cause::Metadata, datum.stamp)?;
        self.touch(directory, now)?;
        self.drop_link(entry.inode, directory, now)
    }

    /// Returns `NotEmpty` for a non-empty directory.
    fn check_removable(&mut self, inode: Ino, name: &[u8]) -> Result<()> {
        if !self.inodes.contains_key(&inode) {
            return Ok(());
        }
        self.settle(inode)?;
        let is_empty = self.inode_mut(inode)?.entries.as_ref().is_none_or(|entries| entries.is_empty());
        if is_empty { Ok(()) } else { Err(fails(ErrorKind::NotEmpty, name, "is not empty")) }
    }

    /// Handles the loss of an inode's name in `directory`.
    fn drop_link(&mut self, inode: Ino, directory: Ino, now: u32) -> Result<()> {
        let Some(found) = self.inodes.get_mut(&inode) else { return Ok(()) };
        found.links = found.links.saturating_sub(1);
        if let Some(body) = found.body.get_mut() {
            body.changed = now;
        }
        if found.links == 0 && found.retained == 0 {
            self.bury(inode);
        } else if found.links > 0 && found.parent == directory && found.entries.is_some() {
            // A directory with two names, as an interrupted rename leaves it: its parent is now
            // that of the other name.
            let names =
                |above: &Inode| above.entries.iter().any(|all| all.iter().any(|(_, entry)| entry.inode == inode));
            let other =
                self.inodes.iter().find(|(_, above)| above.links > 0 && names(above)).map(|(number, _)| *number);
            if let (Some(other), Some(found)) = (other, self.inodes.get_mut(&inode)) {
                found.parent = other;
            }
        }
        Ok(())
    }

    /// Buries an inode that has no names and is not retained: all its nodes are obsolete. It is
    /// forgotten with its last node, so that its number is not reused earlier.
    pub(super) fn bury(&mut self, inode: Ino) {
        let Some(found) = self.inodes.get_mut(&inode) else { return };
        found.links = 0;
        found.entries = None;
        found.body = std::sync::OnceLock::new();
        for node in found.nodes.clone() {
            self.obsolete(node);
        }
        self.bury_xattrs(inode);
        if self.inodes.get(&inode).is_some_and(|found| found.nodes.is_empty()) {
            self.inodes.remove(&inode);
        }
    }

    /// Adds a name to an inode.
    pub(super) fn add_name(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let inode = self.living(inode)?;
        let mode = self.body_mut(inode)?.mode;
        if mode & 0o170_000 == format::DIRECTORY {
            return Err(fails(ErrorKind::IsADirectory, name, "a directory has one name"));
        }
        if self.inode_mut(inode)?.links == 0 {
            return Err(fails(ErrorKind::NotFound, name, "the file has no name any more"));
        }
        let directory = self.directory(directory)?;
        check_name(name)?;
        if self.entry(directory, name).is_some() {
            return Err(fails(ErrorKind::Exists, name, "exists"));
        }
        let datum = self.separate_attributes(directory)?;
        let grant = self.reserve(Self::need_dirent(datum.region, name), Urgency::Normal)?;
        let now = self.seconds();
        let version = self.next_version(directory)?;
        let entry = DirentFields { parent: directory, version, inode, made: now, kind: (mode >> 12) as u8 };
        self.write_dirent(grant, &entry, name, Cause::Metadata, datum.stamp)?;
        self.inode_mut(inode)?.links += 1;
        self.body_mut(inode)?.changed = now;
        self.touch(directory, now)
    }

    /// Renames an inode: first writes the new name, then the old one's deletion, as Linux does. A
    /// power cut between the two leaves both.
    pub(super) fn move_name(
        &mut self,
        (from, old): (InodeNumber, &[u8]),
        (to, new): (InodeNumber, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (self.directory(from)?, self.directory(to)?);
        check_name(new)?;
        if flags == RenameFlags::Exchange {
            return Err(FsError::new(ErrorKind::NotSupported, "JFFS2 cannot exchange two names"));
        }
        let Some(moved) = self.entry(from, old) else { return Err(fails(ErrorKind::NotFound, old, "not found")) };
        let replaced = self.entry(to, new);
        if !self.check_move(&moved, (from, to), replaced.as_ref(), new, flags)? {
            return Ok(());
        }
        let datum = self.separate_attributes(to)?;
        let (first, second) = (Self::need_dirent(datum.region, new), Self::need_dirent(datum.region, old));
        // One reservation for both nodes: a full volume gets neither.
        let both =
            Need { least: first.least.next_multiple_of(4) + second.least, entry: first.entry + second.entry, ..first };
        let grant = self.reserve(both, Urgency::Normal)?;
        let now = self.seconds();
        // Both before anything is written: a directory may have no version left.
        let version = self.next_version(to)?;
        let link = DirentFields { parent: to, version, inode: moved.inode, made: now, kind: moved.kind };
        let version = self.next_version(from)?;
        let gone = DirentFields { parent: from, version, inode: Ino::NONE, made: now, kind: 0 };
        self.write_dirent(grant, &link, new, Cause::Metadata, datum.stamp)?;
        // From here on it has two names, and the replaced inode has one less, whether or not the
        // deletion can be written.
        let inode = self.inode_mut(moved.inode)?;
        inode.links = inode.links.saturating_add(1);
        self.touch(to, now)?;
        if let Some(replaced) = replaced {
            self.drop_link(replaced.inode, to, now)?;
        }
        self.write_dirent(grant, &gone, old, Cause::Metadata, datum.stamp)?;
        self.touch(from, now)?;
        let inode = self.inode_mut(moved.inode)?;
        (inode.parent, inode.links) = (to, inode.links.saturating_sub(1));
        if let Some(body) = inode.body.get_mut() {
            body.changed = now;
        }
        Ok(())
    }

    /// Whether one directory is reachable from another or equal to it. Follows all names downwards,
    /// not the parents upwards, because interrupted renames leave directories with two names. Cost:
    /// a pass over the names below the first one.
    fn leads_to(&self, from: Ino, to: Ino) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            if at == to {
                return true;
            }
            let entries = self.inodes.get(&at).and_then(|inode| inode.entries.as_ref());
            for (_, entry) in
                entries.iter().flat_map(|entries| entries.iter()).filter(|(_, entry)| entry.inode != Ino::NONE)
            {
                let is_directory = entry.kind == (format::DIRECTORY >> 12) as u8
                    || self.inodes.get(&entry.inode).is_some_and(|inode| inode.entries.is_some());
                if is_directory && seen.insert(entry.inode) {
                    next.push(entry.inode);
                }
            }
        }
        false
    }

    /// Whether there is anything to do (not if both are names of one inode); an error if the move
    /// is forbidden.
    fn check_move(
        &mut self,
        moved: &Entry,
        (from, to): (Ino, Ino),
        replaced: Option<&Entry>,
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<bool> {
        let is_directory = self.body_mut(moved.inode)?.format() == format::DIRECTORY;
        if is_directory && from != to && self.leads_to(moved.inode, to) {
            return Err(fails(ErrorKind::InvalidArgument, new, "a directory cannot go into itself"));
        }
        let Some(replaced) = replaced else { return Ok(true) };
        if flags == RenameFlags::NoReplace {
            return Err(fails(ErrorKind::Exists, new, "exists"));
        }
        if replaced.inode == moved.inode {
            return Ok(false);
        }
        if self.inodes.contains_key(&replaced.inode) {
            let replaces_directory = self.body_mut(replaced.inode)?.format() == format::DIRECTORY;
            match (is_directory, replaces_directory) {
                (true, false) => return Err(fails(ErrorKind::NotADirectory, new, "is no directory")),
                (false, true) => return Err(fails(ErrorKind::IsADirectory, new, "is a directory")),
                _ => self.check_removable(replaced.inode, new)?,
            }
        }
        Ok(true)
    }
}
