//! A file that is there whole or not at all: written under another name in its folder, and renamed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::failure::Failure;
use crate::stop::{Undo, Unfinished};

/// Bytes of a name on most file systems.
const NAME_MAX: usize = 255;

/// A file that has not got its name yet.
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

/// `.NAME.nandkit-new`; none where that is longer than names may be.
fn temporary_name(path: &Path) -> Option<OsString> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(".nandkit-new");
    (name.len() <= NAME_MAX).then_some(name)
}

impl NewFile {
    /// Refuses a target that exists, unless it may be replaced, for which the command may have an
    /// option.
    pub fn check(path: &Path, replace: bool, option: Option<&str>) -> Result<(), Failure> {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                Err(Failure::Input(format!("{}: this is a directory; expected the path of a file", path.display())))
            }
            // It would become a regular file, device or not.
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

    /// Locks a file that is to be replaced as those do who change it, until what is returned is
    /// dropped; nothing where none is there. Error: another process has it open.
    pub fn lock(path: &Path) -> Result<Option<File>, Failure> {
        loop {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(path, "open it to lock it", error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                // Some network file systems know no locks; that is no reason to refuse.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(failed(path, "lock it", error)),
                Err(TryLockError::WouldBlock) => {
                    let detail = format!("{} is in use: another process has it open", path.display());
                    return Err(Failure::Input(detail));
                }
            }
            // Who held the lock may have put another file in its place.
            if is_at(&file, path) {
                return Ok(Some(file));
            }
        }
    }

    /// Begins a file. From now on Ctrl-C takes it away.
    pub fn begin(path: &Path) -> Result<Self, Failure> {
        Self::begin_as(path, None)
    }

    /// Begins a file under this name in its folder, which nothing may have; else under one that
    /// nobody has.
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
            // Less what the user's umask takes away, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let (file, unfinished) = Unfinished::begin(|| {
            let file = builder.tempfile_in(folder).map_err(|error| failed(path, "make a file in its folder", error))?;
            let temporary = file.path().to_path_buf();
            // Nobody is left to tell where it fails.
            let undo: Undo = Box::new(move || drop(std::fs::remove_file(temporary)));
            Ok((file, undo))
        })?;
        Ok(Self { file, path: path.to_path_buf(), unfinished })
    }

    /// A file that is to replace one that exists, which the caller has locked, with its owner and
    /// permissions. Its name until then is made of that one's: whoever has the lock knows that one
    /// of this name is what a process left that was killed, and takes it away.
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

    /// Where it is until it has its name.
    pub fn unfinished_path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name.
    pub fn keep(self, replace: bool) -> Result<(), Failure> {
        let Self { file, path, unfinished } = self;
        // Where files cannot be locked, somebody else may have taken its name.
        if !is_at(file.as_file(), file.path()) {
            return Err(failed(&path, "give the finished file its name", "somebody else has replaced it"));
        }
        file.as_file().sync_all().map_err(|error| failed(&path, "write", error))?;
        let kept = unfinished.finish(|| if replace { file.persist(&path) } else { file.persist_noclobber(&path) });
        kept.map(drop).map_err(|error| failed(&path, "give the finished file its name", error.error))
    }
}
