//! What has to be there before a mount: the kernel's device, and a directory of ours.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mount::{DEVICE, MountError, is_mount_point};

/// What can be done where there is no FUSE.
const WITHOUT: &str = "Without it: nandkit ls, cat, get and extract read an image, put, rm, mv, mkdir, ln, chmod, chown and setfattr change it, and nandkit run measures";

/// Whether mounts are possible here at all. Errors: what is missing, what to do, and what works without.
pub fn check_device() -> Result<(), MountError> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE);
    let told = match opened {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            "there is no /dev/fuse; expected Linux with FUSE: modprobe fuse as root, or for a container --device /dev/fuse --cap-add SYS_ADMIN"
                .to_owned()
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            "/dev/fuse may not be opened by this user; expected its mode to be 0666, as udev makes it, or root".to_owned()
        }
        Err(error) => format!("/dev/fuse cannot be opened: {error}; expected Linux with FUSE: modprobe fuse as root"),
    };
    Err(MountError::Device(format!("{told}. {WITHOUT}")))
}

/// The whole path of a directory on which can be mounted. Errors: it is absent, no directory, a mount point already, or somebody else's.
pub fn check_mount_point(path: &Path) -> Result<PathBuf, MountError> {
    let refuse = |what: String| MountError::Point(format!("{}: {what}", path.display()));
    let found = std::fs::metadata(path).map_err(|error| {
        refuse(match error.kind() {
            ErrorKind::NotFound => "there is no such directory; expected an empty one as the mount point".to_owned(),
            ErrorKind::NotConnected => {
                "a mount whose process has gone is in the way; expected it to be unmounted first: nandkit doctor --clean, or umount".to_owned()
            }
            _ => format!("cannot look at it: {error}; expected a directory"),
        })
    })?;
    if !found.is_dir() {
        return Err(refuse("it is no directory; expected an empty directory as the mount point".to_owned()));
    }
    let whole = path.canonicalize().map_err(|error| refuse(format!("cannot find its whole path: {error}")))?;
    if is_mount_point(&whole) {
        return Err(refuse(
            "something is mounted there already; expected a directory that is no mount point".to_owned(),
        ));
    }
    let user = rustix::process::geteuid().as_raw();
    if user != 0 && found.uid() != user {
        let owner = found.uid();
        return Err(refuse(format!(
            "it belongs to user {owner}, and this is user {user}; expected a directory of one's own"
        )));
    }
    Ok(whole)
}
