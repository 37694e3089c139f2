//! The journal's file: `IMAGE.nandkit-journal` next to the image.
//!
//! Its directory is held open, so that no path is resolved once the image is open: the image may be
//! inside a mount point of its own file system, and its directory may be renamed. It is written
//! under a temporary name and then renamed, so that a complete journal is only replaced by a
//! complete one. Existing files under either name, in particular links, are never followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{ImageError, Result};

const SUFFIX: &str = ".nandkit-journal";
const SUFFIX_NEW: &str = ".nandkit-journal.new";

/// The location of a journal, which may not exist.
#[derive(Debug)]
pub(crate) struct JournalFile {
    directory: File,
    image_name: OsString,
    name: OsString,
    name_new: OsString,
    /// Its path, for messages.
    path: PathBuf,
}

/// Opens a directory. Even an unreadable one can be searched, which is enough for readers.
fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path).or_else(|_| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
    })
}

impl JournalFile {
    /// The journal of an image, whatever link was used to open it. `image` is the open file. `None`
    /// if the name refers to another file by now. Errors: `Io`.
    pub fn of(path: &Path, image: &File) -> Result<Option<Self>> {
        let place = std::fs::canonicalize(path).map_err(|error| ImageError::io("find the place of", path, error))?;
        let parent = place.parent().unwrap_or(Path::new("/"));
        let directory = open_directory(parent).map_err(|error| ImageError::io("open", parent, error))?;
        let image_name = place.file_name().unwrap_or(OsStr::new(".")).to_owned();
        let with = |suffix: &str| {
            let mut name = image_name.clone();
            name.push(suffix);
            name
        };
        let (name, name_new) = (with(SUFFIX), with(SUFFIX_NEW));
        let journal = Self { directory, path: parent.join(&name), image_name, name, name_new };
        let beside = journal.is_beside(image).map_err(|error| ImageError::io("look at", path, error))?;
        Ok(beside.then_some(journal))
    }

    /// The journal's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the journal; `None` if there is none. Errors: the path is a link, or reading fails.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut file = match rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("a link stands in place of the journal")),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("what stands in place of the journal is no plain file"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a journal durably, replacing an existing one. Errors: the image was moved or removed
    /// meanwhile, so that the journal would not be found, and write errors; an existing journal
    /// then stays.
    pub fn write(&self, image: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let written = self.write_new(image, content);
        written.map_err(|error| {
            let _ = self.remove_name(&self.name_new);
            io::Error::new(error.kind(), format!("cannot write the journal {}: {error}", self.path.display()))
        })
    }

    fn write_new(&self, image: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if !self.is_beside(image)? {
            return Err(io::Error::other("the image is no longer there: it was moved, replaced or removed meanwhile"));
        }
        let file = File::from(self.create_new()?);
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        content(&mut out)?;
        out.flush()?;
        drop(out);
        file.sync_all()?;
        rustix::fs::renameat(&self.directory, &self.name_new, &self.directory, &self.name)?;
        self.directory.sync_all()
    }

    /// Checks that a journal can be written. Errors: those of writing.
    pub fn try_out(&self) -> io::Result<()> {
        drop(self.create_new()?);
        self.remove_name(&self.name_new)
    }

    /// Removes the journal and an unfinished one, if they exist.
    pub fn remove(&self) -> io::Result<()> {
        self.remove_name(&self.name)?;
        self.remove_name(&self.name_new)
    }

    fn create_new(&self) -> io::Result<OwnedFd> {
        self.remove_name(&self.name_new)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, &self.name_new, flags, Mode::RUSR | Mode::WUSR)?)
    }

    fn remove_name(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(error) if error != rustix::io::Errno::NOENT => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Whether the image's name in the directory still refers to the open image.
    fn is_beside(&self, image: &File) -> io::Result<bool> {
        let open = image.metadata()?;
        match rustix::fs::statat(&self.directory, &self.image_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (open.dev(), open.ino())),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
