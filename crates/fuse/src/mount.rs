//! Mounting and unmounting: by the system call for root, otherwise by the set-user-id program
//! fusermount3.

use std::ffi::{CString, OsString};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::fusermount;

/// The FUSE device of the kernel.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Why mounting failed.
#[derive(Debug)]
pub enum MountError {
    /// FUSE is not available.
    Device(String),
    /// The mount point is unusable.
    Point(String),
    /// The kernel, or fusermount3, refused.
    Refused(String),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(told) | Self::Point(told) | Self::Refused(told) => f.write_str(told),
        }
    }
}

impl std::error::Error for MountError {}

/// Whether this user is root and may use the system call.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Advice for an error of mounting.
fn hint(error: &io::Error) -> &'static str {
    // The message of fusermount3 (libfuse, util/fusermount.c).
    if error.to_string().contains("user_allow_other") {
        return "; expected a line user_allow_other in /etc/fuse.conf, which root writes, or no --allow-other";
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_root() => {
            "; expected root with the right to mount (CAP_SYS_ADMIN): for a container --cap-add SYS_ADMIN --device /dev/fuse, and --security-opt apparmor=unconfined where AppArmor forbids it"
        }
        io::ErrorKind::PermissionDenied => {
            "; expected fusermount3 to be root's and set-user-id (chmod u+s), and a container that lets it mount (--cap-add SYS_ADMIN --device /dev/fuse), or root"
        }
        _ => "",
    }
}

/// The error of mounting on `point`.
pub(crate) fn refused(point: &Path, error: &io::Error) -> MountError {
    MountError::Refused(format!("cannot mount on {}: {error}{}", point.display(), hint(error)))
}

/// Mounts; returns the connection with the kernel.
pub(crate) fn mount(point: &Path, source: &str, read_only: bool, allow_other: bool) -> Result<OwnedFd, MountError> {
    if is_root() {
        return mount_as_root(point, source, read_only);
    }
    let access = if read_only { "ro" } else { "rw" };
    let others = if allow_other { ",allow_other,default_permissions" } else { "" };
    let options = format!("fsname={source},subtype=nandkit,{access}{others}");
    fusermount::mount(point, &options).map_err(|error| refused(point, &error))
}

fn mount_as_root(point: &Path, source: &str, read_only: bool) -> Result<OwnedFd, MountError> {
    let refused = |error: io::Error| refused(point, &error);
    let device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(refused)?;
    let mode = File::open(point).and_then(|point| point.metadata()).map_err(refused)?.mode();
    let data = format!(
        "fd={},rootmode={mode:o},user_id=0,group_id=0,subtype=nandkit,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let data = CString::new(data).map_err(|error| refused(error.into()))?;
    // Devices and set-user-id programs of a foreign image are not trusted.
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, read_only);
    rustix::mount::mount(source, point, "fuse", flags, data.as_c_str()).map_err(|error| refused(error.into()))?;
    Ok(device.into())
}

/// Unmounts. Error: the mount is in use (not with `detach`).
pub(crate) fn unmount(point: &Path, detach: bool) -> io::Result<()> {
    if is_root() {
        let flags = if detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        return rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW).map_err(io::Error::from);
    }
    fusermount::unmount(point, detach)
}

/// Calls `look` with mount point and source of each mount (proc_pid_mountinfo(5)).
pub(crate) fn mounts(mut look: impl FnMut(&[u8], &[u8])) {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    for line in list.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        let point = fields.nth(4).unwrap_or_default();
        let source = fields.skip_while(|field| *field != b"-").nth(2).unwrap_or_default();
        look(&unescaped(point), &unescaped(source));
    }
}

/// Unmounts and aborts the connection of remaining users (umount(2), `MNT_FORCE`; only for root).
pub(crate) fn unmount_by_force(point: &Path) -> io::Result<()> {
    if !is_root() {
        return unmount(point, true);
    }
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(point, flags).map_err(io::Error::from)
}

/// The number of the kernel's FUSE connection of a mount: the minor number of its device.
pub(crate) fn connection_of(source: &str) -> Option<u32> {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = String::from_utf8_lossy(&list).into_owned();
    let line = lines.lines().find(|line| line.split(' ').any(|field| field == source))?;
    line.split(' ').nth(2)?.split(':').nth(1)?.parse().ok()
}

/// Aborts a connection: from then on the kernel fails all requests
/// (Documentation/filesystems/fuse.rst, "Aborting a filesystem connection"). Does nothing if the
/// connection has ended.
pub(crate) fn abort(connection: u32) {
    let _ = std::fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1");
}

/// Decodes the octal escapes of blanks and other characters.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()).filter(|_| *first == b'\\');
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

/// Whether something is mounted on a path without links.
pub(crate) fn is_mount_point(path: &Path) -> bool {
    let mut found = false;
    mounts(|point, _| found |= point == path.as_os_str().as_bytes());
    found
}

/// The current mount point of a source; `None` if it is not mounted, or hidden by another mount,
/// since unmounting a path affects the last mount there.
pub(crate) fn place_of(source: &str) -> Option<PathBuf> {
    let mut place: Option<Vec<u8>> = None;
    mounts(|point, from| {
        if from == source.as_bytes() {
            place = Some(point.to_vec());
        } else if place.as_deref() == Some(point) {
            place = None;
        }
    });
    place.map(|place| PathBuf::from(OsString::from_vec(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_would_be_right() {
        let told = |kind: io::ErrorKind| refused(Path::new("/mnt"), &kind.into()).to_string();
        let denied = told(io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("cannot mount on /mnt: permission denied; expected "), "{denied}");
        assert!(denied.contains("--cap-add SYS_ADMIN"), "{denied}");
        assert!(!told(io::ErrorKind::NotADirectory).contains("expected"));
        let said = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf";
        let others = refused(Path::new("/mnt"), &io::Error::other(said)).to_string();
        assert!(others.ends_with("which root writes, or no --allow-other"), "{others}");
    }

    #[test]
    fn escaped_paths_are_read() {
        assert_eq!(unescaped(b"/a\\040b\\134c"), b"/a b\\c");
        assert_eq!(unescaped(b"/a\\04"), b"/a\\04");
        assert!(is_mount_point(Path::new("/proc")) && !is_mount_point(Path::new("/proc/self")));
    }
}
