//! The directories on which `exec` mounts: who uses one holds its lock, so that those of killed
//! processes can be told from the others.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// How their names begin, in the directory for temporary files: as nothing else of this project's
/// does, since other programs' directories are empty too for a moment after they were made.
const PREFIX: &str = "nandkit-exec-";

/// A directory to mount on; it goes when this is dropped, or is told to be left over once the
/// process has gone.
pub struct MountDirectory {
    directory: TempDir,
    /// Its lock is let go with it. Opened before the mount, it keeps nobody from unmounting.
    _lock: File,
}

/// A directory that was just made has no lock for a moment: a look at what was left may hold it, or
/// remove it. Each time another one is made.
const TRIES: u32 = 100;

impl MountDirectory {
    /// Makes one. Errors: the directory for temporary files cannot be written.
    pub fn new() -> io::Result<Self> {
        Self::first_of(|| tempfile::Builder::new().prefix(PREFIX).tempdir())
    }

    /// The first of those made that nobody else has taken.
    fn first_of(mut make: impl FnMut() -> io::Result<TempDir>) -> io::Result<Self> {
        for _ in 0..TRIES {
            let directory = make()?;
            if let Some(lock) = locked(directory.path()) {
                return Ok(Self { directory, _lock: lock });
            }
        }
        Err(io::Error::other("directories that were just made are locked or removed by others"))
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

/// The lock of a directory that is still where it was; none where another process holds it.
fn locked(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (here, held) = (fs::symlink_metadata(path).ok()?, file.metadata().ok()?);
    ((here.dev(), here.ino()) == (held.dev(), held.ino())).then_some(file)
}

/// An empty directory that a killed process of this user has left, on which nothing is mounted.
pub struct LeftDirectory {
    /// Where it is.
    pub path: PathBuf,
    /// As long as it is held nobody else takes the directory.
    _lock: File,
}

impl LeftDirectory {
    /// Removes it, where its owner did not. Errors: the directory for temporary files cannot be
    /// written.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// All that are left.
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
    // A mount has another device, and one that nobody answers an error.
    let found = fs::symlink_metadata(&path).ok()?;
    let ours = found.is_dir() && found.uid() == user && found.dev() == device;
    let is_empty = ours && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
    let lock = if is_empty { locked(&path) } else { None }?;
    Some(LeftDirectory { path, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `doctor` of one process ended the `exec` of another, now and then.
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
