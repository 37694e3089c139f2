//! Access to host directories, always relative to an open one: no path leads out of it, and no
//! symbolic link is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use nandkit_vfs::Timestamp;
use rustix::fs::{Mode, OFlags, ResolveFlags, Timespec};
use rustix::io::Errno;

/// Longest path in bytes passed to the kernel at once (PATH_MAX in linux/limits.h is 4096, with the
/// NUL).
const PATH_BYTES_MAX: usize = 4000;

/// Opens `path`, relative and without `..`, below `root`. Symbolic links on the way are errors
/// (`ELOOP` or `ENOTDIR`).
pub fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() > PATH_BYTES_MAX {
        let cut = rest.get(..PATH_BYTES_MAX).and_then(|head| head.iter().rposition(|byte| *byte == b'/'));
        let Some((head, tail)) = cut.and_then(|cut| rest.split_at_checked(cut)) else {
            return Err(Errno::NAMETOOLONG.into());
        };
        let from = at.as_ref().map_or(root, AsFdBorrow::borrow);
        at = Some(open_short(from, head, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)?);
        rest = tail.get(1..).unwrap_or_default();
    }
    open_short(at.as_ref().map_or(root, AsFdBorrow::borrow), rest, flags)
}

/// `as_fd` as a function for `map_or`.
trait AsFdBorrow {
    fn borrow(&self) -> BorrowedFd<'_>;
}

impl AsFdBorrow for OwnedFd {
    fn borrow(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(self)
    }
}

fn open_short(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, OsStr::from_bytes(path), flags, Mode::empty(), resolve) {
        // Linux before 5.6 lacks this call, and some sandboxes answer that it is forbidden.
        Err(Errno::NOSYS | Errno::PERM) => open_by_steps(root, path, flags),
        result => Ok(result?),
    }
}

/// [`open_beneath`], one component at a time.
fn open_by_steps(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(Errno::XDEV.into());
        }
        let flags = match names.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            None => flags | OFlags::NOFOLLOW,
        };
        let from = at.as_ref().map_or(root, AsFdBorrow::borrow);
        at = Some(rustix::fs::openat(from, OsStr::from_bytes(name), flags, Mode::empty())?);
    }
    at.ok_or_else(|| Errno::INVAL.into())
}

/// Fills as much of `into` as the file has from `offset` on.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Converts a host time to nanoseconds; clamped to the ends of the range (years 1677 and 2262).
pub fn timestamp(seconds: i64, nanoseconds: i64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// Converts nanoseconds to a host time.
pub fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: time.0.div_euclid(1_000_000_000), tv_nsec: time.0.rem_euclid(1_000_000_000) }
}

/// The path of a name in an open directory, for calls without a directory argument (extended
/// attributes). Calls of the `l` kind do not follow the last component.
fn path_through(directory: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}", directory.as_raw_fd()).into_bytes();
    path.push(b'/');
    path.extend_from_slice(if name.is_empty() { b"." } else { name });
    path
}

/// All extended attributes of a name in an open directory (of the directory itself for an empty
/// name), sorted by name; empty if the host supports none.
pub fn xattrs(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let path = path_through(directory, name);
    let path = OsStr::from_bytes(&path);
    all_xattrs(|names| rustix::fs::llistxattr(path, names), |name, value| rustix::fs::lgetxattr(path, name, value))
}

/// The extended attributes of an open file, sorted by name.
pub fn file_xattrs(file: &File) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    all_xattrs(|names| rustix::fs::flistxattr(file, names), |name, value| rustix::fs::fgetxattr(file, name, value))
}

fn all_xattrs(
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&OsStr, &mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names: Vec<u8> = vec![0; 1024];
    let length = loop {
        match list(names.as_mut_slice()) {
            Err(Errno::RANGE) if names.len() < 1 << 20 => names.resize(names.len() * 4, 0),
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            result => break result?,
        }
    };
    names.truncate(length);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 4096];
        let length = loop {
            match get(OsStr::from_bytes(name), value.as_mut_slice()) {
                Err(Errno::RANGE) if value.len() < 1 << 20 => value.resize(value.len() * 4, 0),
                // Listed, but gone or not accessible to this user.
                Err(Errno::NODATA | Errno::OPNOTSUPP) => break None,
                result => break Some(result?),
            }
        };
        if let Some(length) = length {
            value.truncate(length);
            found.push((name.to_vec(), value));
        }
    }
    found.sort();
    Ok(found)
}

/// Sets an extended attribute of a name in an open directory.
pub fn set_xattr(directory: BorrowedFd<'_>, name: &[u8], attribute: &[u8], value: &[u8]) -> io::Result<()> {
    let path = path_through(directory, name);
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::lsetxattr(OsStr::from_bytes(&path), OsStr::from_bytes(attribute), value, flags)?)
}
