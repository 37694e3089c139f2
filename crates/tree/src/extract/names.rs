//! Making names inside the target, and only there.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{List, Work};
use crate::error::{escaped, show};
use crate::{Result, TreeError, host};

/// Why a name was not made.
#[derive(Debug)]
pub enum Failure {
    /// The host returned an error.
    Host(&'static str, io::Error),
    /// It could do harm.
    Refused(String),
}

impl Failure {
    pub fn host(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self::Host(doing, error.into())
    }
}

/// The directory that receives everything.
#[derive(Debug)]
pub struct Target {
    pub root: OwnedFd,
    pub shown: String,
    pub merge: bool,
}

/// Checks that a name is a single path component. Trees promise this; here a broken promise would
/// do harm.
fn single(name: &[u8]) -> std::result::Result<&OsStr, Failure> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
        return Err(Failure::Refused(format!("\"{}\" is not a valid name", escaped(name))));
    }
    Ok(OsStr::from_bytes(name))
}

impl Target {
    /// Opens a directory made earlier. Errors: `Host`, also if it was replaced meanwhile.
    pub fn open_directory(&self, path: &[u8]) -> Result<OwnedFd> {
        use std::os::fd::AsFd;
        host::open_beneath(self.root.as_fd(), path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| TreeError::host(format!("{}{}", self.shown, show(path)), "opening", error))
    }

    fn kind(parent: BorrowedFd<'_>, name: &OsStr) -> std::result::Result<FileType, Failure> {
        let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(FileType::from_raw_mode(found.map_err(Failure::host("looking at what has the name"))?.st_mode))
    }

    /// Removes what was just made under a name. Ignores failures: the reason for the removal is
    /// already reported.
    pub fn remove(&self, parent: BorrowedFd<'_>, name: &[u8]) {
        if let Ok(name) = single(name) {
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::empty());
        }
    }

    /// Makes a directory accessible to the user alone, or shares an existing one.
    pub fn make_directory(&self, parent: BorrowedFd<'_>, name: &[u8]) -> std::result::Result<(), Failure> {
        let name = single(name)?;
        match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Err(Errno::EXIST) if self.merge => match Self::kind(parent, name)? {
                FileType::Directory => Ok(()),
                kind => Err(Failure::Refused(format!("a {kind:?} exists where a directory is needed"))),
            },
            result => result.map_err(Failure::host("making the directory")),
        }
    }

    /// Calls `make`, which fails if the name exists; if names are to be replaced, removes the old
    /// one and tries again.
    pub fn make<T>(
        &self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        doing: &'static str,
        make: impl Fn(&OsStr) -> rustix::io::Result<T>,
    ) -> std::result::Result<T, Failure> {
        let name = single(name)?;
        match make(name) {
            Err(Errno::EXIST) if self.merge => {
                if Self::kind(parent, name)? == FileType::Directory {
                    return Err(Failure::Refused("a directory exists where a file is needed".to_owned()));
                }
                let removed = rustix::fs::unlinkat(parent, name, AtFlags::empty());
                removed.map_err(Failure::host("taking away what has the name"))?;
                make(name).map_err(Failure::host(doing))
            }
            result => result.map_err(Failure::host(doing)),
        }
    }

    /// Adds a name to an inode. For a symbolic link, the link itself gets the name, not its target.
    pub fn link(&self, from: (BorrowedFd<'_>, &[u8]), to: (BorrowedFd<'_>, &[u8])) -> std::result::Result<(), Failure> {
        let existing = single(from.1)?;
        self.make(to.0, to.1, "making the hard link", |name| {
            rustix::fs::linkat(from.0, existing, to.0, name, AtFlags::empty())
        })
    }
}

/// Whether an error would affect all other files too.
fn ends_all(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    )
}

impl Work<'_> {
    /// Reports why a node was not made. Errors: `Host` if the host cannot take more.
    pub fn fail(&self, node: usize, failure: Failure) -> Result<()> {
        match failure {
            Failure::Host(doing, error) if ends_all(&error) => {
                let path = format!("{}{}", self.target.shown, show(&self.path(node)));
                return Err(TreeError::host(path, doing, error));
            }
            Failure::Host(doing, error) => self.note(List::Skipped, node, format!("{doing}: {error}")),
            Failure::Refused(reason) => self.note(List::Refused, node, reason),
        }
        Ok(())
    }
}
