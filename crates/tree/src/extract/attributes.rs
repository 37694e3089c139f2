//! Setting attributes on the host: the owner first, because changing it clears set-user-id and
//! capabilities; then extended attributes, mode and times.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use nandkit_vfs::FileKind;
use nandkit_vfs::source::SourceNode;
use rustix::fs::{AtFlags, Gid, Mode, Timestamps, Uid};
use rustix::io::Errno;

use super::names::Failure;
use super::{List, Work};
use crate::error::escaped;
use crate::{Result, host};

/// The target of attributes: an open file, or a name in an open directory.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Open(BorrowedFd<'a>),
    Name(BorrowedFd<'a>, &'a OsStr),
}

impl Work<'_> {
    /// Sets all attributes of an open directory.
    pub fn set_attributes_of(&self, opened: BorrowedFd<'_>, index: usize, node: &SourceNode) -> Result<()> {
        match self.set_all(At::Open(opened), index, node) {
            Ok(()) => Ok(()),
            Err(failure) => self.fail(index, failure),
        }
    }

    /// Sets all attributes of a file open for writing.
    pub fn set_attributes_of_file(
        &self,
        opened: BorrowedFd<'_>,
        index: usize,
        node: &SourceNode,
    ) -> std::result::Result<(), Failure> {
        self.set_all(At::Open(opened), index, node)
    }

    /// Sets all attributes of a newly made link or special file.
    pub fn set_attributes_of_name(
        &self,
        parent: BorrowedFd<'_>,
        index: usize,
        node: &SourceNode,
    ) -> std::result::Result<(), Failure> {
        self.set_all(At::Name(parent, OsStr::from_bytes(&node.name)), index, node)
    }

    fn set_all(&self, at: At<'_>, index: usize, node: &SourceNode) -> std::result::Result<(), Failure> {
        let owned = self.set_owner(at, index, node)?;
        if self.options.xattrs {
            for (name, value) in &node.xattrs {
                let set = match at {
                    At::Open(opened) => {
                        let flags = rustix::fs::XattrFlags::empty();
                        rustix::fs::fsetxattr(opened, OsStr::from_bytes(name), value, flags).map_err(Into::into)
                    }
                    At::Name(parent, file) => host::set_xattr(parent, file.as_bytes(), name, value),
                };
                if let Err(error) = set {
                    self.note(List::Skipped, index, format!("extended attribute {}: {error}", escaped(name)));
                }
            }
        }
        self.set_mode(at, index, node, owned)?;
        let times =
            Timestamps { last_access: host::timespec(node.accessed), last_modification: host::timespec(node.modified) };
        let set = match at {
            At::Open(opened) => rustix::fs::futimens(opened, &times),
            At::Name(parent, name) => rustix::fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW),
        };
        self.attribute(index, "times", set)
    }

    /// Reports a failure to set one attribute, and keeps the file; returns only errors that end the
    /// extraction.
    fn attribute(
        &self,
        index: usize,
        doing: &'static str,
        result: rustix::io::Result<()>,
    ) -> std::result::Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS)) => {
                Err(Failure::Host("setting attributes", error.into()))
            }
            Err(error) => {
                self.note(List::Skipped, index, format!("{doing}: {}", std::io::Error::from(error)));
                Ok(())
            }
        }
    }

    /// Sets owner and group; returns whether they now equal those of the node.
    fn set_owner(&self, at: At<'_>, index: usize, node: &SourceNode) -> std::result::Result<bool, Failure> {
        if !self.owners {
            let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            return Ok((node.uid, node.gid) == user);
        }
        // The system call reads -1 as "no change", and no system has such a user.
        if node.uid == u32::MAX || node.gid == u32::MAX {
            self.note(List::Skipped, index, format!("owner: no file can belong to {}:{}", node.uid, node.gid));
            return Ok(false);
        }
        let (uid, gid) = (Some(Uid::from_raw(node.uid)), Some(Gid::from_raw(node.gid)));
        let set = match at {
            At::Open(opened) => rustix::fs::fchown(opened, uid, gid),
            At::Name(parent, name) => rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        };
        let owned = set.is_ok();
        self.attribute(index, "owner", set)?;
        Ok(owned)
    }

    fn set_mode(&self, at: At<'_>, index: usize, node: &SourceNode, owned: bool) -> std::result::Result<(), Failure> {
        if node.kind == FileKind::Symlink {
            return Ok(());
        }
        let mut mode = node.mode;
        if !owned && node.kind != FileKind::Directory && mode & 0o6000 != 0 {
            mode &= !0o6000;
            let reason = format!("mode: {:04o} without set-user-id and set-group-id, since the owner is another", mode);
            self.note(List::Skipped, index, reason);
        }
        let mode = Mode::from_raw_mode(mode.into());
        let set = match at {
            At::Open(opened) => rustix::fs::fchmod(opened, mode),
            // This call follows symbolic links; the name is that of a newly made special file.
            At::Name(parent, name) => rustix::fs::chmodat(parent, name, mode, AtFlags::empty()),
        };
        self.attribute(index, "mode", set)
    }
}
