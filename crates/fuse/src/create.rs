//! Creating, linking, removing and renaming.

use fuser::{Errno, FileAttr, INodeNo, Request};
use nandkit_vfs::{Changes, ErrorKind, FileKind, InodeNumber, NewNode, RenameFlags, acl};

use crate::access::inherited;
use crate::answer::{Answer, FaultResult};
use crate::served_volume::ServedVolume;
use crate::translate::{MODE_BITS, SET_GID};
use crate::{Operation, Volume};

/// The inode to make.
pub(crate) struct Wanted<'a> {
    pub operation: Operation,
    pub directory: INodeNo,
    pub name: &'a [u8],
    pub kind: FileKind,
    pub mode: u32,
    pub umask: u32,
    pub device: u64,
    pub target: &'a [u8],
}

impl<V: Volume> ServedVolume<V> {
    /// Makes an inode with a name; returns its attributes.
    pub(crate) fn make(&self, request: &Request, wanted: &Wanted<'_>) -> Answer<FileAttr> {
        let directory = self.inside(wanted.directory);
        self.change(wanted.operation, |changes| {
            let above = changes.stat(directory)?;
            let mut mode = (wanted.mode & u32::from(MODE_BITS)) as u16;
            let mut gid = request.gid();
            if above.mode & SET_GID != 0 {
                gid = above.gid;
                if wanted.kind == FileKind::Directory {
                    mode |= SET_GID;
                }
            }
            let uid = if self.options.owner.is_some() { above.uid } else { request.uid() };
            let gid = if self.options.owner.is_some() { above.gid } else { gid };
            let default = self.default_list(changes, directory, wanted.kind)?;
            let mut access = None;
            match &default {
                Some(value) => {
                    let inherited = inherited(&acl::parse(value)?, mode);
                    (mode, access) = (inherited.mode, inherited.access);
                }
                None if wanted.kind != FileKind::Symlink => mode &= !(wanted.umask & 0o777) as u16,
                None => {}
            }
            let (kind, device, target) = (wanted.kind, wanted.device, wanted.target);
            let node = NewNode { kind, mode, uid, gid, device, target };
            let inode = changes.create(directory, wanted.name, &node)?;
            let given = self.give_lists(changes, inode, kind, access.as_deref(), default.as_deref());
            let told = given.and_then(|()| self.tell(changes, inode, directory));
            told.inspect_err(|_| {
                // Remove an inode that could not be completed.
                let _ = changes.remove(directory, wanted.name);
            })
        })
    }

    /// The default access control list of a directory.
    fn default_list(
        &self,
        changes: &dyn Changes,
        directory: InodeNumber,
        kind: FileKind,
    ) -> FaultResult<Option<Vec<u8>>> {
        if !self.features.posix_acls || kind == FileKind::Symlink {
            return Ok(None);
        }
        let Some(xattrs) = changes.xattrs() else { return Ok(None) };
        match xattrs.xattr(directory, acl::DEFAULT) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind == ErrorKind::NoAttribute => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn give_lists(
        &self,
        changes: &mut dyn Changes,
        inode: InodeNumber,
        kind: FileKind,
        access: Option<&[u8]>,
        default: Option<&[u8]>,
    ) -> FaultResult<()> {
        let default = default.filter(|_| kind == FileKind::Directory);
        if access.is_none() && default.is_none() {
            return Ok(());
        }
        let xattrs = changes.xattr_changes().ok_or(Errno::EOPNOTSUPP)?;
        if let Some(value) = access {
            xattrs.set_xattr(inode, acl::ACCESS, value)?;
        }
        if let Some(value) = default {
            xattrs.set_xattr(inode, acl::DEFAULT, value)?;
        }
        Ok(())
    }

    /// Adds a name to an inode.
    pub(crate) fn link(&self, inode: INodeNo, directory: INodeNo, name: &[u8]) -> Answer<FileAttr> {
        let (inode, directory) = (self.inside(inode), self.inside(directory));
        self.change(Operation::Link, |changes| {
            changes.links().ok_or(Errno::EPERM)?.link(inode, directory, name)?;
            self.tell(changes, inode, directory)
        })
    }

    /// Removes a name; `is_directory` is the kernel's view of its type.
    pub(crate) fn remove(&self, directory: INodeNo, name: &[u8], is_directory: bool) -> Answer<()> {
        let directory = self.inside(directory);
        let operation = if is_directory { Operation::RemoveDirectory } else { Operation::Remove };
        self.change(operation, |changes| {
            let inode = changes.lookup(directory, name)?;
            match (changes.stat(inode)?.kind == FileKind::Directory, is_directory) {
                (true, false) => return Err(Errno::EISDIR.into()),
                (false, true) => return Err(Errno::ENOTDIR.into()),
                _ => {}
            }
            let retained = self.retain_last(changes, inode)?;
            let removed = changes.remove(directory, name);
            if removed.is_err() && retained {
                self.undo_retain(changes, inode);
            }
            Ok(removed?)
        })
    }

    /// Retains an inode that the kernel holds and that is about to lose its last name; returns
    /// whether it did.
    fn retain_last(&self, changes: &mut dyn Changes, inode: InodeNumber) -> FaultResult<bool> {
        let found = changes.stat(inode)?;
        if (found.links > 1 && found.kind != FileKind::Directory) || changes.open_files().is_none() {
            return Ok(false);
        }
        if !self.nodes().retain(inode) {
            return Ok(false);
        }
        let Some(Err(error)) = changes.open_files().map(|files| files.retain(inode)) else { return Ok(true) };
        let _ = self.nodes().undo_retain(inode);
        Err(error.into())
    }

    fn undo_retain(&self, changes: &mut dyn Changes, inode: InodeNumber) {
        if !self.nodes().undo_retain(inode) {
            return;
        }
        if let Some(Err(error)) = changes.open_files().map(|files| files.release(inode)) {
            self.remember(format!("inode {} stays in memory: {error}", inode.0));
        }
    }

    /// Renames a file or directory.
    pub(crate) fn rename(&self, from: (INodeNo, &[u8]), to: (INodeNo, &[u8]), flags: fuser::RenameFlags) -> Answer<()> {
        let flags = match flags {
            flags if flags.is_empty() => RenameFlags::Replace,
            fuser::RenameFlags::RENAME_NOREPLACE => RenameFlags::NoReplace,
            fuser::RenameFlags::RENAME_EXCHANGE if self.features.exchange => RenameFlags::Exchange,
            _ => return Err(Errno::EINVAL),
        };
        let (from, to) = ((self.inside(from.0), from.1), (self.inside(to.0), to.1));
        self.change(Operation::Rename, |changes| {
            let moved = changes.lookup(from.0, from.1)?;
            let replaced = match changes.lookup(to.0, to.1) {
                Ok(inode) => Some(inode),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            let mut retained = false;
            if let Some(inode) = replaced.filter(|inode| *inode != moved && flags == RenameFlags::Replace) {
                retained = self.retain_last(changes, inode)?;
            }
            let renamed = changes.rename(from, to, flags);
            match (&renamed, replaced) {
                (Err(_), Some(inode)) if retained => self.undo_retain(changes, inode),
                (Ok(()), _) => {
                    self.nodes().moved(moved, to.0);
                    if let Some(inode) = replaced.filter(|_| flags == RenameFlags::Exchange) {
                        self.nodes().moved(inode, from.0);
                    }
                }
                _ => {}
            }
            Ok(renamed?)
        })
    }
}
