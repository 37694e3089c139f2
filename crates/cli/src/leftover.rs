//! The directories on which `exec` mounts: who uses one holds its lock, so that those of killed processes can be told from the others.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// How their names begin, in the directory for temporary files.
const PREFIX: &str = "nandkit-";

/// A directory to mount on; it goes when this is dropped, or is told to be left over once the process has gone.
pub struct MountDirectory {
    directory: TempDir,
    /// Its lock is let go with it. Opened before the mount, it keeps nobody from unmounting.
    _lock: File,
}

impl MountDirectory {
    /// Makes one. Errors: the directory for temporary files cannot be written.
    pub fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let lock = File::open(directory.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { directory, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves it where it is.
    pub fn keep(self) {
        let _ = self.directory.keep();
    }
}

/// Empty directories that killed processes of this user have left, on which nothing is mounted.
pub fn directories() -> Vec<PathBuf> {
    let folder = std::env::temp_dir();
    let Ok(device) = fs::metadata(&folder).map(|found| found.dev()) else { return Vec::new() };
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut left: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| is_left(path, device)).collect();
    left.sort();
    left
}

fn is_left(path: &Path, device: u64) -> bool {
    let user = rustix::process::geteuid().as_raw();
    // A mount has another device, and one that nobody answers an error.
    let ours =
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user && found.dev() == device);
    ours && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        && File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}
