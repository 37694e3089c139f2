//! The files of an image: opening, locking, and crash-safe changes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use nandkit_block::{Access, Medium};

use crate::backing::Backing;
use crate::bytes::{Bytes, Private};
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::journal::{self, Journal};
use crate::journal_file::JournalFile;
use crate::mmap;
use crate::options::DumpOptions;
use crate::pieces::{Piece, PieceContent};
use crate::resident::Mapped;
use crate::room;

/// How often a file may be replaced between opening and locking it.
const REPLACED_MAX: u32 = 16;

/// The open files of an image, for changes.
#[derive(Debug)]
pub(crate) struct Store {
    image: File,
    oob: Option<File>,
    journal: JournalFile,
    copy: bool,
    resident_max: Option<u64>,
}

/// The opened files of an image, and their content.
pub(crate) struct OpenedFiles {
    pub bytes: Bytes,
    pub oob: Option<Bytes>,
    pub store: Store,
    pub notes: Vec<String>,
}

/// Opens an image, and completes or drops a sync that a crash interrupted. Ignores
/// `options.overlay`.
pub(crate) fn open(path: &Path, options: &DumpOptions) -> Result<OpenedFiles> {
    let (image, journal) = open_with_journal(path, options.access)?;
    let oob = options.oob_file.as_deref().map(|path| open_locked(path, options.access)).transpose()?;
    let mut store = Store { image, oob, journal, copy: options.copy, resident_max: options.resident_max };
    let failed = |error| ImageError::io("read", path, error);
    if store.image.len().map_err(failed)? == 0 {
        let detail = format!("{} is empty, expected a flash dump of at least a byte", path.display());
        return Err(ImageError::new(ImageErrorKind::Empty, detail));
    }
    let mut notes = Vec::new();
    let journal = store.journal.read().map_err(|error| ImageError::io("read", store.journal.path(), error))?;
    let journal = journal.and_then(Journal::decode);
    if let Some(journal) = &journal {
        let (image, oob) = store.load(false).map_err(failed)?;
        let sources = [image.as_slice(), oob.as_ref().map_or(&[][..], Bytes::as_slice)];
        if !journal.belongs_to(sources) {
            let detail = format!(
                "{} is the journal of another image, or {} was changed since by another program: expected the image that the journal was written for, with its OOB file where it has one; remove the journal to go on without",
                store.journal.path().display(),
                path.display()
            );
            return Err(ImageError::new(ImageErrorKind::Corrupt, detail));
        }
    }
    let (bytes, oob) = match (options.access, journal) {
        (Access::ReadWrite, journal) => {
            match journal {
                Some(journal) => {
                    store
                        .apply(&journal.pieces())
                        .map_err(|error| ImageError::io("complete the last sync of", path, error))?;
                    notes.push("a sync that a crash had interrupted was completed".to_owned());
                }
                None => {
                    store.journal.remove().map_err(|error| ImageError::io("remove", store.journal.path(), error))?;
                }
            }
            store.load(false).map_err(failed)?
        }
        (Access::ReadOnly, None) => store.load(false).map_err(failed)?,
        (Access::ReadOnly, Some(journal)) => {
            let (mut image, mut oob) = store.load(true).map_err(failed)?;
            for piece in journal.pieces() {
                match (piece.file, &mut oob) {
                    (0, _) => image.patch(&piece),
                    (_, Some(oob)) => oob.patch(&piece),
                    _ => {}
                }
            }
            notes.push("a sync that a crash had interrupted is shown complete; the file is unchanged".to_owned());
            (image, oob)
        }
    };
    Ok(OpenedFiles { bytes, oob, store, notes })
}

impl Store {
    /// Loads the content of the files. `private`: in a form that can be patched.
    pub fn load(&self, private: bool) -> io::Result<(Bytes, Option<Bytes>)> {
        let load = |file: &File| -> io::Result<Bytes> {
            let length = Medium::len(file)?;
            if self.copy || length == 0 {
                let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?];
                Medium::read_at(file, 0, &mut bytes)?;
                return Ok(Bytes::Owned(bytes));
            }
            let backing = self.resident_max.map(|_| Backing::new(file)).transpose()?;
            if private {
                return Ok(Bytes::Private(Private::new(mmap::map_private(file)?, backing)));
            }
            Ok(Bytes::Mapped(Mapped::new(mmap::map(file)?, self.resident_max, backing)))
        };
        Ok((load(&self.image)?, self.oob.as_ref().map(load).transpose()?))
    }

    /// Changes the image through a journal, atomically. `bytes` is the current image. Errors: `Io`,
    /// after which nothing has changed, or, if the message says so, the journal stays.
    pub fn change(&mut self, pieces: &[Piece<'_>], bytes: &[u8]) -> Result<()> {
        let path = self.journal.path().with_extension("");
        self.write_journal(pieces, [bytes, &[]]).map_err(|error| {
            // The journal may exist, and a change that was not confirmed must not happen later.
            let _ = self.journal.remove();
            ImageError::io("change", &path, error)
        })?;
        self.apply(pieces).map_err(|error| {
            let what = format!("bring all changes of {} into", self.journal.path().display());
            let detail = format!("{}; opened for changes again, it is completed", ImageError::io(&what, &path, error));
            ImageError::new(ImageErrorKind::Io, detail)
        })
    }

    /// Writes a durable journal next to the image: from here on the changes will happen in any
    /// case. `sources` are the current files.
    pub fn write_journal(&mut self, pieces: &[Piece<'_>], sources: [&[u8]; 2]) -> io::Result<()> {
        room::reserve(&self.image, 0, pieces)?;
        self.oob.as_ref().map_or(Ok(()), |oob| room::reserve(oob, 1, pieces))?;
        self.journal.write(&self.image, |mut out| journal::encode(pieces, sources, &mut out))
    }

    /// Applies the pieces of a durable journal, and removes it. Repeating this is safe.
    pub fn apply(&mut self, pieces: &[Piece<'_>]) -> io::Result<()> {
        for piece in pieces {
            let file = match piece.file {
                0 => &mut self.image,
                _ => self
                    .oob
                    .as_mut()
                    .ok_or_else(|| io::Error::other("the journal changes an OOB file, and none was named"))?,
            };
            match piece.content {
                PieceContent::Bytes(bytes) => file.write_at(piece.offset, bytes)?,
                PieceContent::Erased(length) => write_erased(file, piece.offset, length)?,
            }
        }
        self.image.sync_all()?;
        if let Some(oob) = &self.oob {
            oob.sync_all()?;
        }
        self.journal.remove()
    }

    /// Makes an empty journal, and removes it.
    pub fn check_journal(&self) -> Result<()> {
        self.journal.try_out().map_err(|error| ImageError::io("make", self.journal.path(), error))
    }
}

fn write_erased(file: &mut File, mut offset: u64, mut length: u64) -> io::Result<()> {
    static ERASED: [u8; 1 << 16] = [0xFF; 1 << 16];
    while length > 0 {
        let part = ERASED.get(..length.min(ERASED.len() as u64) as usize).unwrap_or(&ERASED);
        file.write_at(offset, part)?;
        offset += part.len() as u64;
        length -= part.len() as u64;
    }
    Ok(())
}

/// Opens an image, takes its advisory lock, and locates its journal.
fn open_with_journal(path: &Path, access: Access) -> Result<(File, JournalFile)> {
    for _ in 0..REPLACED_MAX {
        let image = open_and_lock(path, access)?;
        if let Some(journal) = JournalFile::of(path, &image)? {
            return Ok((image, journal));
        }
    }
    Err(replaced(path))
}

fn replaced(path: &Path) -> ImageError {
    let detail = format!("{} is in use: other processes replace it all the time", path.display());
    ImageError::new(ImageErrorKind::InUse, detail)
}

/// Opens a file and takes its advisory lock. If the file is replaced before the lock is taken,
/// opens the new one.
fn open_locked(path: &Path, access: Access) -> Result<File> {
    for _ in 0..REPLACED_MAX {
        let file = open_and_lock(path, access)?;
        if access == Access::ReadOnly || is_at(&file, path) {
            return Ok(file);
        }
    }
    Err(replaced(path))
}

/// Whether a path still refers to an open file.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same =
        |found: std::fs::Metadata, open: std::fs::Metadata| (found.dev(), found.ino()) == (open.dev(), open.ino());
    std::fs::metadata(path).and_then(|found| Ok(same(found, file.metadata()?))).unwrap_or(false)
}

fn open_and_lock(path: &Path, access: Access) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(access == Access::ReadWrite)
        .open(path)
        .map_err(|error| ImageError::io("open", path, error))?;
    if file.metadata().map_err(|error| ImageError::io("look at", path, error))?.is_dir() {
        let detail = format!("{} is a directory, expected a flash dump", path.display());
        return Err(ImageError::new(ImageErrorKind::Io, detail));
    }
    let locked = match access {
        Access::ReadOnly => file.try_lock_shared(),
        Access::ReadWrite => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let what = match access {
                Access::ReadOnly => "another process is changing it",
                Access::ReadWrite => "another process has it open",
            };
            Err(ImageError::new(ImageErrorKind::InUse, format!("{} is in use: {what}", path.display())))
        }
        // Some network file systems have no locks; that is no reason to refuse.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(ImageError::io("lock", path, error)),
    }
}
