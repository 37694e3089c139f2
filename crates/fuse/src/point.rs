//! Checks before a mount: the kernel's device, and the mount point.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::dead::is_unanswered;
use crate::fusermount::find_fusermount;
use crate::mount::{DEVICE, MountError, is_mount_point, is_root};

/// The commands that work without mounts.
const WITHOUT: &str = "All commands except mount and exec work without it: ls, cat, get and extract read an image; put, rm, mv, mkdir, ln, chmod, chown and setfattr change it; info, check, mkfs, export and overlay read and make images; serve offers an emulated disk over NBD; run, compare and reproduce measure";
/// Advice for a dead mount.
const DEAD: &str =
    "a dead mount, whose process no longer exists, is in the way; unmount it first: nandkit doctor --clean, or umount";
/// The bit of the right to mount in a set of capabilities (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;

/// How this user can mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mounter {
    /// By the system call, as root.
    System,
    /// By this program, fusermount3.
    Program(PathBuf),
}

impl fmt::Display for Mounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("root may mount"),
            Self::Program(path) => write!(f, "{} can mount for this user", path.display()),
        }
    }
}

/// Whether mounts are possible on this machine, and how. Error: what is missing, what to do, and
/// what works without mounts.
pub fn check_device() -> Result<Mounter, MountError> {
    mounter().map_err(|told| MountError::Device(format!("{told}. {WITHOUT}")))
}

fn mounter() -> Result<Mounter, String> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE);
    opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "there is no /dev/fuse; expected Linux with FUSE: modprobe fuse as root, or for a container --device /dev/fuse --cap-add SYS_ADMIN"
                .to_owned()
        }
        ErrorKind::PermissionDenied => {
            "this user may not open /dev/fuse; expected mode 0666, as set by udev, or root; for a container --device /dev/fuse".to_owned()
        }
        _ => format!("/dev/fuse cannot be opened: {error}; expected Linux with FUSE: modprobe fuse as root"),
    })?;
    if is_root() {
        return match may_mount(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            true => Ok(Mounter::System),
            false => Err("root may not mount here (it lacks CAP_SYS_ADMIN); expected for a container --cap-add SYS_ADMIN --device /dev/fuse".to_owned()),
        };
    }
    find_fusermount().map(Mounter::Program).ok_or_else(|| {
        "there is no program fusermount3 that this user can run; expected it (Debian package fuse3), or root".to_owned()
    })
}

/// Whether a process with this status (proc_pid_status(5)) may mount; if unknown, the kernel
/// reports it later.
fn may_mount(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_none_or(|set| set >> CAP_SYS_ADMIN & 1 == 1)
}

/// Checks a mount point and returns its canonical path. Errors: it is missing, not a directory,
/// already a mount point, or owned by another user.
pub fn check_mount_point(path: &Path) -> Result<PathBuf, MountError> {
    let refuse = |what: String| MountError::Point(format!("{}: {what}", path.display()));
    let found = std::fs::metadata(path).map_err(|error| {
        refuse(match error.kind() {
            ErrorKind::NotFound => "there is no such directory; expected an empty one as the mount point".to_owned(),
            ErrorKind::NotConnected => DEAD.to_owned(),
            _ => format!("cannot look at it: {error}; expected a directory"),
        })
    })?;
    if !found.is_dir() {
        return Err(refuse("it is not a directory; expected an empty directory as the mount point".to_owned()));
    }
    let whole = path.canonicalize().map_err(|error| refuse(format!("cannot find its whole path: {error}")))?;
    if is_mount_point(&whole) {
        if is_unanswered(&whole) {
            return Err(refuse(DEAD.to_owned()));
        }
        return Err(refuse(
            "something is already mounted there; expected a directory that is not a mount point".to_owned(),
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    if user != 0 && found.uid() != user {
        let owner = found.uid();
        return Err(refuse(format!(
            "it belongs to user {owner}, but you are user {user}; expected a directory of your own"
        )));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_to_mount_is_one_bit() {
        assert!(may_mount("Name:\tx\nCapEff:\t000001ffffffffff\n") && may_mount("CapEff:\t0000000000200000"));
        assert!(!may_mount("CapEff:\t00000000a80425fb\nCapBnd:\t000001ffffffffff\n"));
        assert!(may_mount("") && may_mount("CapEff:\tnone"));
    }
}
