//! The mount directories of `exec`. A process that uses one holds its lock, so that the directories
//! of killed processes can be told from the others.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Prefix of their names in the directory for temporary files. Nothing else may use it: other
/// programs' new directories are empty for a moment too, and would be taken for leftovers.
const PREFIX: &str = "nandkit-exec-";

/// A directory to mount on. It is removed on drop; if the process is killed, it becomes a leftover.
pub struct MountDirectory {
    directory: TempDir,
    /// The lock, released on drop. It is opened before the mount, so that it does not keep the
    /// mount busy.
    _lock: File,
}

/// Attempts to make a directory. A new directory has no lock for a moment, in which a search for
/// leftovers may lock or remove it.
const TRIES: u32 = 100;

impl MountDirectory {
    /// Makes a directory. Error: the directory for temporary files cannot be written.
    pub fn new() -> io::Result<Self> {
        Self::first_of(|| tempfile::Builder::new().prefix(PREFIX).tempdir())
    }

    /// Makes directories until one is not taken by another process.
    fn first_of(mut make: impl FnMut() -> io::Result<TempDir>) -> io::Result<Self> {
        for _ in 0..TRIES {
            let directory = make()?;
            if let Some(lock) = locked(directory.path()) {
                return Ok(Self { directory, _lock: lock });
            }
        }
        Err(io::Error::other("directories that were just made are locked or removed by others"))
    }

    /// The path of the leftover.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Keeps the directory after drop.
    pub fn keep(self) {
        let _ = self.directory.keep();
    }
}

/// Locks a directory; `None` if another process holds the lock or the directory was replaced.
fn locked(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (here, held) = (fs::symlink_metadata(path).ok()?, file.metadata().ok()?);
    ((here.dev(), here.ino()) == (held.dev(), held.ino())).then_some(file)
}

/// An empty directory left by a killed process of this user, without a mount.
pub struct LeftDirectory {
    /// The path of the leftover.
    pub path: PathBuf,
    /// Keeps other processes from taking the directory.
    _lock: File,
}

impl LeftDirectory {
    /// Removes the directory, unless its owner already did. Error: the directory for temporary
    /// files cannot be written.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// All leftover directories of this user.
pub fn directories() -> Vec<LeftDirectory> {
    directories_in(&std::env::temp_dir())
}

fn directories_in(folder: &Path) -> Vec<LeftDirectory> {
    let Ok(device) = fs::metadata(folder).map(|found| found.dev()) else { return Vec::new() };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut left: Vec<LeftDirectory> = named.filter_map(|entry| left_at(entry.path(), device)).collect();
    left.sort_by(|one, other| one.path.cmp(&other.path));
    left
}

fn left_at(path: PathBuf, device: u64) -> Option<LeftDirectory> {
    let user = rustix::process::geteuid().as_raw();
    // A mount point has another device number; a mount without a process gives an error.
    let found = fs::symlink_metadata(&path).ok()?;
    let ours = found.is_dir() && found.uid() == user && found.dev() == device;
    let is_empty = ours && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
    let lock = if is_empty { locked(&path) } else { None }?;
    Some(LeftDirectory { path, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers a race: `doctor` in one process removed the new directory of `exec` in another.
    #[test]
    fn a_directory_that_a_clean_up_took_before_it_was_locked_is_made_anew() {
        let folder = tempfile::tempdir().expect("a directory");
        let make = || tempfile::Builder::new().prefix(PREFIX).tempdir_in(folder.path());
        let mut taken = Vec::new();
        let made = MountDirectory::first_of(|| {
            let directory = make()?;
            if taken.len() < 2 {
                taken.extend(directories_in(folder.path()));
            }
            if taken.len() == 2 {
                taken[1].remove()?;
            }
            Ok(directory)
        });
        let made = made.expect("the third one");
        assert!(made.path().is_dir() && taken.iter().all(|left| left.path != made.path()));
        taken.iter().for_each(|left| left.remove().expect("its maker removed it"));
        assert!(directories_in(folder.path()).is_empty(), "the one that is held was not left");
        let left = make().expect("a directory").keep();
        let found = directories_in(folder.path());
        assert_eq!(found.iter().map(|left| &left.path).collect::<Vec<_>>(), [&left]);
    }
}
