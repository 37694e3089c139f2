//! The files of an image: opening, locking, and changing them so that a crash leaves the last sync.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nandkit_block::{Access, Medium};

use crate::bytes::Bytes;
use crate::changes::{Piece, PieceContent};
use crate::error::{ImageError, ImageErrorKind, Result};
use crate::image::{DumpOptions, Image};
use crate::journal::{self, Journal};
use crate::mmap;

/// How often a file may be replaced between its opening and its lock.
const REPLACED_MAX: u32 = 16;

/// The open files of an image that may be changed.
#[derive(Debug)]
pub(crate) struct Store {
    image: File,
    oob: Option<File>,
    journal_path: PathBuf,
    copy: bool,
}

/// The journal of an image: `IMAGE.nandkit-journal` beside it, by whatever link it was opened.
fn journal_path(image: &Path) -> Result<PathBuf> {
    let image = std::fs::canonicalize(image).map_err(|error| ImageError::io("find the place of", image, error))?;
    let mut name = image.into_os_string();
    name.push(".nandkit-journal");
    Ok(PathBuf::from(name))
}

/// Opens an image, and completes or forgets a sync that a crash interrupted.
pub(crate) fn open(path: &Path, options: &DumpOptions) -> Result<Image> {
    let image = open_locked(path, options.access)?;
    let oob = options.oob_file.as_deref().map(|path| open_locked(path, options.access)).transpose()?;
    let mut store = Store { image, oob, journal_path: journal_path(path)?, copy: options.copy };
    let failed = |error| ImageError::io("read", path, error);
    if store.image.len().map_err(failed)? == 0 {
        let detail = format!("{} is empty, expected a flash dump of at least a byte", path.display());
        return Err(ImageError::new(ImageErrorKind::Empty, detail));
    }
    let mut notes = Vec::new();
    let journal = match std::fs::read(&store.journal_path) {
        Ok(bytes) => Journal::decode(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(ImageError::io("read", &store.journal_path, error)),
    };
    if let Some(journal) = &journal {
        let (image, oob) = store.load(false).map_err(failed)?;
        let sources = [image.as_slice(), oob.as_ref().map_or(&[][..], Bytes::as_slice)];
        if !journal.belongs_to(sources) {
            let detail = format!(
                "{} is the journal of another image, or {} was changed since by another program: expected the image that the journal was written for, with its OOB file where it has one; remove the journal to go on without",
                store.journal_path.display(),
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
                None => store.remove_journal().map_err(|error| ImageError::io("remove", &store.journal_path, error))?,
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
    Ok(Image { bytes: Arc::new(bytes), oob: oob.map(Arc::new), store: Some(store), access: options.access, notes })
}

impl Bytes {
    /// Lays a piece over bytes that are our own.
    fn patch(&mut self, piece: &Piece<'_>) {
        if let Self::Private(map) = self
            && piece.end() > map.len() as u64
        {
            *self = Self::Owned(map.to_vec());
        }
        match self {
            Self::Owned(bytes) => put(bytes, piece),
            Self::Private(map) => overwrite(map, piece),
            Self::Mapped(_) => {}
        }
    }
}

/// Lays a piece over bytes, which grow as needed; a gap is erased.
pub(crate) fn put(bytes: &mut Vec<u8>, piece: &Piece<'_>) {
    let end = usize::try_from(piece.end()).unwrap_or(usize::MAX);
    if end > bytes.len() {
        bytes.resize(end, 0xFF);
    }
    overwrite(bytes, piece);
}

fn overwrite(bytes: &mut [u8], piece: &Piece<'_>) {
    let start = usize::try_from(piece.offset).unwrap_or(usize::MAX);
    let end = usize::try_from(piece.end()).unwrap_or(usize::MAX);
    if let Some(into) = bytes.get_mut(start..end) {
        match piece.content {
            PieceContent::Bytes(bytes) => into.copy_from_slice(bytes),
            PieceContent::Erased(_) => into.fill(0xFF),
        }
    }
}

impl Store {
    /// The content of the files. `private`: in a form that can be patched.
    pub fn load(&self, private: bool) -> io::Result<(Bytes, Option<Bytes>)> {
        let load = |file: &File| {
            let length = Medium::len(file)?;
            if self.copy || length == 0 {
                let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?];
                Medium::read_at(file, 0, &mut bytes)?;
                return Ok(Bytes::Owned(bytes));
            }
            if private { mmap::map_private(file).map(Bytes::Private) } else { mmap::map(file).map(Bytes::Mapped) }
        };
        Ok((load(&self.image)?, self.oob.as_ref().map(load).transpose()?))
    }

    /// Makes the changes durable beside the image: from here on they happen, whatever else does. `sources`: the files as they are.
    pub fn write_journal(&mut self, pieces: &[Piece<'_>], sources: [&[u8]; 2]) -> io::Result<()> {
        let path = &self.journal_path;
        let write = || {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            let mut out = io::BufWriter::with_capacity(1 << 20, &file);
            journal::encode(pieces, sources, &mut out)?;
            out.flush()?;
            drop(out);
            file.sync_all()?;
            sync_directory(path)
        };
        write().map_err(|error| {
            // What is left of it is no whole journal, and would be forgotten at the next opening.
            let _ = std::fs::remove_file(path);
            io::Error::new(error.kind(), format!("cannot write the journal {}: {error}", path.display()))
        })
    }

    /// Brings the pieces of a durable journal to their places, and forgets it. May be done again and again.
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
        self.remove_journal()
    }

    /// Makes the journal, with nothing in it, and takes it away.
    pub fn check_journal(&self) -> Result<()> {
        let path = &self.journal_path;
        // One that is left behind has no content, and is forgotten at the next opening.
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        made.and_then(|_| self.remove_journal()).map_err(|error| ImageError::io("make", path, error))
    }

    fn remove_journal(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.journal_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
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

/// Makes a new name in a directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

/// Opens a file and takes its advisory lock. A file that another one replaced before the lock was there is left for that one.
fn open_locked(path: &Path, access: Access) -> Result<File> {
    for _ in 0..REPLACED_MAX {
        let file = open_and_lock(path, access)?;
        if access == Access::ReadOnly || is_at(&file, path) {
            return Ok(file);
        }
    }
    let detail = format!("{} is in use: other processes replace it all the time", path.display());
    Err(ImageError::new(ImageErrorKind::InUse, detail))
}

/// Whether a path still leads to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same =
        |found: std::fs::Metadata, open: std::fs::Metadata| (found.dev(), found.ino()) == (open.dev(), open.ino());
    std::fs::metadata(path).and_then(|found| Ok(same(found, file.metadata()?))).unwrap_or(false)
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
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
        // Some network file systems know no locks; that is no reason to refuse.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(ImageError::io("lock", path, error)),
    }
}
