//! A file that appears complete or not at all: it is written under a temporary name in its folder
//! and then renamed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::failure::Failure;
use crate::stop::{Undo, Unfinished};

/// Longest file name on most file systems, in bytes.
const NAME_MAX: usize = 255;

/// A file that does not have its final name yet.
pub struct NewFile {
    file: NamedTempFile,
    path: PathBuf,
    unfinished: Unfinished,
}

fn failed(path: &Path, doing: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: cannot {doing}: {error}", path.display()))
}

/// Whether a path still leads to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |found: &std::fs::Metadata| (found.dev(), found.ino());
        matches!((std::fs::metadata(path), file.metadata()), (Ok(found), Ok(open)) if place(&found) == place(&open))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The temporary name `.NAME.nandkit-new`; `None` if it would be too long.
fn temporary_name(path: &Path) -> Option<OsString> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(".nandkit-new");
    (name.len() <= NAME_MAX).then_some(name)
}

impl NewFile {
    /// Refuses an existing target unless `replace` is set. `option` is the flag that allows
    /// replacing, for the message.
    pub fn check(path: &Path, replace: bool, option: Option<&str>) -> Result<(), Failure> {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                Err(Failure::Input(format!("{}: this is a directory; expected the path of a file", path.display())))
            }
            // Renaming would turn a device into a regular file.
            Ok(found) if !found.is_file() && !found.is_symlink() => Err(Failure::Input(format!(
                "{}: this is a device, a pipe or a socket; expected the path of a regular file",
                path.display()
            ))),
            Ok(_) if !replace => {
                let or = option.map_or_else(String::new, |option| format!(", or {option} to replace it"));
                Err(Failure::Input(format!("{}: the file exists; expected another path{or}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Locks a file before it is replaced, with the lock of the commands that change images. The
    /// lock is held until the result is dropped; `None` if the file does not exist. Error: another
    /// process has it open.
    pub fn lock(path: &Path) -> Result<Option<File>, Failure> {
        loop {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(path, "open it to lock it", error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                // Some network file systems have no locks; that is no reason to refuse.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(failed(path, "lock it", error)),
                Err(TryLockError::WouldBlock) => {
                    let detail = format!("{} is in use: another process has it open", path.display());
                    return Err(Failure::Input(detail));
                }
            }
            // The previous holder of the lock may have replaced the file.
            if is_at(&file, path) {
                return Ok(Some(file));
            }
        }
    }

    /// Begins a file. From now on Ctrl-C removes it.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        Self::begin_as(path, None)
    }

    /// Begins a file under this temporary name, which must be free; without a name, under a unique
    /// one.
    fn begin_as(path: &Path, name: Option<&OsStr>) -> Result<Self, Failure> {
        let folder = folder(path);
        let mut builder = Builder::new();
        match name {
            Some(name) => builder.prefix(name).rand_bytes(0),
            None => builder.prefix(".nandkit-").suffix(".new"),
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The user's umask applies, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let (file, unfinished) = Unfinished::begin(|| {
            let file = builder.tempfile_in(folder).map_err(|error| failed(path, "make a file in its folder", error))?;
            let temporary = file.path().to_path_buf();
            // A failure cannot be reported any more.
            let undo: Undo = Box::new(move || drop(std::fs::remove_file(temporary)));
            Ok((file, undo))
        })?;
        Ok(Self { file, path: path.to_path_buf(), unfinished })
    }

    /// Begins a file that will replace an existing one, with its owner and permissions. The caller
    /// holds the lock of that one. The temporary name is derived from its name: the holder of the
    /// lock knows that an existing file of that name was left by a killed process, and removes it.
    pub fn begin_again(path: &Path) -> Result<Self, Failure> {
        let name = temporary_name(path);
        if let Some(left) =
            name.as_ref().map(|name| folder(path).join(name)).filter(|left| left.symlink_metadata().is_ok())
        {
            let removed = std::fs::remove_file(&left);
            removed.map_err(|error| failed(&left, "remove what a killed process left", error))?;
        }
        let new = Self::begin_as(path, name.as_deref())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::metadata(path).map_err(|error| failed(path, "look at it", error))?;
            let (file, made) = (new.file.as_file(), new.file.as_file().metadata());
            let made = made.map_err(|error| failed(path, "look at the new file", error))?;
            let (uid, gid) = (found.uid(), found.gid());
            if (uid, gid) != (made.uid(), made.gid()) {
                let set = std::os::unix::fs::fchown(file, Some(uid), Some(gid));
                set.map_err(|error| failed(path, &format!("keep its owner {uid}:{gid}"), error))?;
            }
            file.set_permissions(found.permissions()).map_err(|error| failed(path, "keep its permissions", error))?;
        }
        Ok(new)
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Its temporary path.
    pub fn unfinished_path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its final name.
    pub fn keep(self, replace: bool) -> Result<(), Failure> {
        let Self { file, path, unfinished } = self;
        // Without locks, another process may have replaced the temporary file.
        if !is_at(file.as_file(), file.path()) {
            return Err(failed(&path, "give the finished file its name", "another process has replaced it"));
        }
        file.as_file().sync_all().map_err(|error| failed(&path, "write", error))?;
        let kept = unfinished.finish(|| if replace { file.persist(&path) } else { file.persist_noclobber(&path) });
        kept.map(drop).map_err(|error| failed(&path, "give the finished file its name", error.error))
    }
}
