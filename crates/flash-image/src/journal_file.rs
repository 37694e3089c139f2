//! The file of a journal: `IMAGE.nandkit-journal` beside the image.
//!
//! Its directory is held open, so that no path is resolved once the image is open: the image may
//! lie below a mount point of its own file system, and its directory may be renamed. It is written
//! under another name and then renamed, so that a whole journal is replaced by a whole journal, and
//! whatever stands under either name, a link above all, is never followed.

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

/// Where a journal is, or would be.
#[derive(Debug)]
pub(crate) struct JournalFile {
    directory: File,
    image_name: OsString,
    name: OsString,
    name_new: OsString,
    /// For people.
    path: PathBuf,
}

/// A directory that may not be read can be looked into all the same, which is enough for readers.
fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path).or_else(|_| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
    })
}

impl JournalFile {
    /// The journal of an image, by whatever link it was opened. `image`: its open file. `None`
    /// where the name leads to another file by now. Errors: `Io`.
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

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it; `None` where there is none. Errors: a link in its place, and those of
    /// reading.
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

    /// Makes a journal durable, in place of the one that may be there. Errors: an image that has
    /// been moved or removed meanwhile, beside which nobody would find it, and those of writing;
    /// what was there before stays then.
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

    /// Tells whether one can be made. Errors: those of writing.
    pub fn try_out(&self) -> io::Result<()> {
        drop(self.create_new()?);
        self.remove_name(&self.name_new)
    }

    /// Forgets the journal, if there is one, and one that was not finished.
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

    /// Whether the image's name in the directory still leads to the open image.
    fn is_beside(&self, image: &File) -> io::Result<bool> {
        let open = image.metadata()?;
        match rustix::fs::statat(&self.directory, &self.image_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (open.dev(), open.ino())),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
