//! Overlays: a file that holds the changed sectors of an image, while the image itself stays
//! unchanged.
//!
//! The file is a [`JournalledFile`] with 4 KiB sectors, so that a sync is atomic; it is sparse and
//! takes only the space of the changes. All numbers are little-endian. The format is nandkit's own
//! and defined by this file.
//!
//! ```text
//! sector 0        magic "NANDKOV1" · u32 version 1 · u32 CRC-32 of the image · u64 length of the image · u64 length with the changes ·
//!                 u32 whether the changes are on their way into the image · u32 CRC-32 of the image with them, then · u32 CRC-32 of these 40 bytes
//! sectors 1..     a bit for each sector of the image, the lowest first: whether it is here
//! from then on    the sectors of the image
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nandkit_block::{Access, BlockDevice, BlockError, BlockGeometry, JournalledFile};
use nandkit_units::{Context, Lba, Payload, ReadInto};

use crate::error::{ImageError, ImageErrorKind, Result};
use crate::pieces::{Piece, PieceContent};

const MAGIC: &[u8; 8] = b"NANDKOV1";
const VERSION: u32 = 1;
const HEADER: usize = 44;
const SECTOR: u64 = 4096;
/// Bytes by which an image may grow beyond doubling its length: as for the journal of an image
/// changed in place.
const GROWTH: u64 = 64 << 20;
/// Most sectors per read.
const RUN_MAX: u64 = 256;

/// An open overlay.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// `None` while it is being reopened.
    file: Option<JournalledFile>,
    path: PathBuf,
    base_length: u64,
    base_crc: u32,
    /// Length of the image with the changes.
    length: u64,
    /// The CRC-32 of the image with the changes, once they are being applied.
    applied_crc: Option<u32>,
    bitmap: Vec<u8>,
}

/// The positions in the overlay of an image of a given length.
#[derive(Clone, Copy)]
struct Shape {
    sectors: u64,
    bitmap_sectors: u64,
}

impl Shape {
    const fn of(base_length: u64) -> Self {
        let sectors = base_length.saturating_mul(2).saturating_add(GROWTH).div_ceil(SECTOR);
        Self { sectors, bitmap_sectors: sectors.div_ceil(8).div_ceil(SECTOR) }
    }

    fn geometry(self) -> BlockGeometry {
        let sectors = 1 + self.bitmap_sectors + self.sectors;
        BlockGeometry { sector_size: SECTOR as u32, sectors, preferred_size: SECTOR as u32, recycling_size: 0 }
    }

    const fn place(self, sector: u64) -> Lba {
        Lba(1 + self.bitmap_sectors + sector)
    }
}

fn told(error: BlockError) -> io::Error {
    io::Error::other(error)
}

impl Overlay {
    /// Opens or creates the overlay of an image. `base` holds all bytes of the image. Errors: `Io`;
    /// `Corrupt` if the file is no overlay, or that of another image.
    pub fn open_or_create(path: &Path, base: &[u8]) -> Result<Self> {
        match path.try_exists() {
            Ok(false) => Self::create(path, base),
            _ => Self::open_of(path, base, Access::ReadWrite),
        }
    }

    /// Opens the overlay of an image. Errors: those of [`Overlay::open_or_create`].
    pub fn open_of(path: &Path, base: &[u8], access: Access) -> Result<Self> {
        let overlay = Self::open(path, access, &[base.len() as u64])?;
        overlay.expect_base(base)?;
        Ok(overlay)
    }

    /// Whether it is certain that nothing was changed.
    pub(crate) fn is_unused(&self) -> bool {
        let is_known = self.bitmap.len() as u64 == Shape::of(self.base_length).sectors.div_ceil(8);
        is_known
            && self.length == self.base_length
            && self.applied_crc.is_none()
            && self.bitmap.iter().all(|byte| *byte == 0)
    }

    fn create(path: &Path, base: &[u8]) -> Result<Self> {
        let base_length = base.len() as u64;
        let shape = Shape::of(base_length);
        let failed = |error: BlockError| ImageError::io("make the overlay", path, told(error));
        let file = JournalledFile::create(path, shape.geometry()).map_err(failed)?;
        let bitmap = vec![0; shape.sectors.div_ceil(8) as usize];
        let base_crc = crc32fast::hash(base);
        let (path_buf, length) = (path.to_owned(), base_length);
        let mut made =
            Self { file: Some(file), path: path_buf, base_length, base_crc, length, applied_crc: None, bitmap };
        let written = made.write_header().and_then(|()| made.flush()).and_then(|()| sync_directory(path));
        written.map_err(|error| {
            let _ = std::fs::remove_file(path);
            ImageError::io("make the overlay", path, error)
        })?;
        Ok(made)
    }

    /// Opens an overlay of an image with one of these lengths, before or after the changes; with no
    /// length given, of any image and without loading its content. Errors: `Io`, `Corrupt`.
    pub fn open(path: &Path, access: Access, lengths: &[u64]) -> Result<Self> {
        let failed = |error: BlockError| match error.kind {
            nandkit_block::ErrorKind::Corrupt => not_one(path, &error.to_string()),
            _ => ImageError::io("open the overlay", path, told(error)),
        };
        let file = JournalledFile::open(path, access).map_err(failed)?;
        let mut header = vec![0; SECTOR as usize];
        file.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut header)).map_err(failed)?;
        let u32_at =
            |at: usize| header.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        let u64_at =
            |at: usize| header.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
        if !header.starts_with(MAGIC) || u32_at(40) != crc32fast::hash(header.get(..40).unwrap_or_default()) {
            return Err(not_one(path, "its first sector is not that of an overlay"));
        }
        if u32_at(8) != VERSION {
            return Err(not_one(path, &format!("it is of version {}, expected {VERSION}", u32_at(8))));
        }
        let (base_crc, base_length, length) = (u32_at(12), u64_at(16), u64_at(24));
        let shape = Shape::of(base_length);
        if *file.geometry() != shape.geometry() || length < base_length || length.div_ceil(SECTOR) > shape.sectors {
            return Err(not_one(path, "its length does not fit the image that it names"));
        }
        let applied_crc = (u32_at(32) != 0).then(|| u32_at(36));
        let mut bitmap = Vec::new();
        // Refuse an image of another length before loading anything into memory that only the
        // length limits.
        if lengths.contains(&base_length) || lengths.contains(&length) {
            bitmap.resize((shape.bitmap_sectors * SECTOR) as usize, 0);
            file.read(&Context::default(), Lba(1), ReadInto::Bytes(&mut bitmap)).map_err(failed)?;
            bitmap.truncate(shape.sectors.div_ceil(8) as usize);
        }
        Ok(Self { file: Some(file), path: path.to_owned(), base_length, base_crc, length, applied_crc, bitmap })
    }

    /// Checks that the overlay belongs to this image. Errors: `Corrupt` if it was made for another
    /// image, or the image was changed since.
    pub fn expect_base(&self, base: &[u8]) -> Result<()> {
        if base.len() as u64 == self.base_length && crc32fast::hash(base) == self.base_crc {
            return Ok(());
        }
        let detail = format!(
            "{} holds changes of an image of {} bytes with the CRC-32 {:08x}, and this one has {} bytes and {:08x}: expected the image for which the overlay was made, as it was then",
            self.path.display(),
            self.base_length,
            self.base_crc,
            base.len(),
            crc32fast::hash(base)
        );
        Err(ImageError::new(ImageErrorKind::Corrupt, detail))
    }

    /// Whether the image already has all the changes, through a call of [`crate::apply_overlay`]
    /// that was interrupted by a crash.
    pub fn is_applied_to(&self, image: &[u8]) -> bool {
        image.len() as u64 == self.length && self.applied_crc == Some(crc32fast::hash(image))
    }

    /// Records durably that the changes are about to be applied to the image, whose CRC-32 will
    /// then be `crc`.
    pub fn begin_applying(&mut self, crc: u32) -> io::Result<()> {
        self.applied_crc = Some(crc);
        self.write_header()?;
        self.flush()
    }

    fn file(&self) -> io::Result<&JournalledFile> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the overlay could not be opened again"))
    }

    fn file_mut(&mut self) -> io::Result<&mut JournalledFile> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the overlay could not be opened again"))
    }

    /// After a failure: reopens the file, which has the state of one of the syncs, possibly the
    /// failed one. Errors: it cannot be opened, or was replaced.
    fn reopen(&mut self) -> Result<()> {
        // Closing the old file releases the lock.
        self.file = None;
        let again = Self::open(&self.path, Access::ReadWrite, &[self.base_length])?;
        if (again.base_length, again.base_crc) != (self.base_length, self.base_crc) {
            return Err(not_one(&self.path, "it was replaced meanwhile"));
        }
        *self = again;
        Ok(())
    }

    /// Length of the image with the changes, in bytes.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Passes each run of changed bytes to `take`, in ascending order.
    pub fn for_each(&self, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
        let shape = Shape::of(self.base_length);
        let end = self.length.div_ceil(SECTOR).min(shape.sectors);
        let mut sector = 0;
        while sector < end {
            let run = (sector..end.min(sector + RUN_MAX)).take_while(|sector| self.holds(*sector)).count() as u64;
            if run == 0 {
                sector += 1;
                continue;
            }
            let mut bytes = vec![0; (run * SECTOR) as usize];
            let at = shape.place(sector);
            self.file()?.read(&Context::default(), at, ReadInto::Bytes(&mut bytes)).map_err(told)?;
            let offset = sector * SECTOR;
            let length = (self.length - offset).min(run * SECTOR) as usize;
            take(offset, bytes.get(..length).unwrap_or(&bytes));
            sector += run;
        }
        Ok(())
    }

    fn holds(&self, sector: u64) -> bool {
        self.bitmap.get((sector / 8) as usize).is_some_and(|byte| byte >> (sector % 8) & 1 == 1)
    }

    /// Stores changes atomically. `current` is the image with the earlier changes. After an error
    /// the overlay has either its old state or the changes; writing them again is safe either way.
    pub fn write(&mut self, pieces: &[Piece<'_>], current: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen().map_err(io::Error::other)?;
        }
        self.write_once(pieces, current).inspect_err(|_| {
            // If it cannot be opened now, the next attempt will try again.
            let _ = self.reopen();
        })
    }

    /// Like [`Self::write`]. Errors: `Io`.
    pub fn keep(&mut self, pieces: &[Piece<'_>], current: &[u8]) -> Result<()> {
        self.write(pieces, current).map_err(|error| ImageError::io("write the overlay", &self.path, error))
    }

    fn write_once(&mut self, pieces: &[Piece<'_>], current: &[u8]) -> io::Result<()> {
        let shape = Shape::of(self.base_length);
        let end = pieces.iter().map(Piece::end).fold(self.length, u64::max);
        if end.div_ceil(SECTOR) > shape.sectors || pieces.iter().any(|piece| piece.file != 0) {
            return Err(io::Error::other(
                "the changes go beyond what an overlay of this image holds: is the block size right?",
            ));
        }
        let mut sectors: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for piece in pieces {
            for sector in piece.offset / SECTOR..piece.end().div_ceil(SECTOR) {
                let bytes = sectors.entry(sector).or_insert_with(|| sector_of(current, sector));
                lay(bytes, sector * SECTOR, piece);
            }
        }
        let context = Context::default();
        for (sector, bytes) in &sectors {
            self.file_mut()?.write(&context, shape.place(*sector), Payload::Bytes(bytes)).map_err(told)?;
            if let Some(byte) = self.bitmap.get_mut((sector / 8) as usize) {
                *byte |= 1 << (sector % 8);
            }
        }
        self.length = end;
        self.applied_crc = None;
        let touched: std::collections::BTreeSet<u64> = sectors.keys().map(|sector| sector / 8 / SECTOR).collect();
        for part in touched {
            let start = (part * SECTOR) as usize;
            let mut bytes = self.bitmap.get(start..).unwrap_or_default().to_vec();
            bytes.resize(SECTOR as usize, 0);
            self.file_mut()?.write(&context, Lba(1 + part), Payload::Bytes(&bytes)).map_err(told)?;
        }
        self.write_header()?;
        self.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let mut header = Vec::with_capacity(SECTOR as usize);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&self.base_crc.to_le_bytes());
        header.extend_from_slice(&self.base_length.to_le_bytes());
        header.extend_from_slice(&self.length.to_le_bytes());
        header.extend_from_slice(&u32::from(self.applied_crc.is_some()).to_le_bytes());
        header.extend_from_slice(&self.applied_crc.unwrap_or(0).to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        debug_assert_eq!(header.len(), HEADER);
        header.resize(SECTOR as usize, 0);
        self.file_mut()?.write(&Context::default(), Lba(0), Payload::Bytes(&header)).map(|_| ()).map_err(told)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file_mut()?.flush(&Context::default()).map(|_| ()).map_err(told)
    }
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(directory)?.sync_all()
}

fn not_one(path: &Path, why: &str) -> ImageError {
    let detail = format!("{}: {why}; expected an overlay, or the name of a new one", path.display());
    ImageError::new(ImageErrorKind::Corrupt, detail)
}

/// A sector of the image; bytes past its end are erased.
fn sector_of(image: &[u8], sector: u64) -> Vec<u8> {
    let start = usize::try_from(sector * SECTOR).unwrap_or(usize::MAX).min(image.len());
    let mut bytes =
        image.get(start..image.len().min(start.saturating_add(SECTOR as usize))).unwrap_or_default().to_vec();
    bytes.resize(SECTOR as usize, 0xFF);
    bytes
}

/// Applies the part of a piece that falls into the sector at `start`.
fn lay(sector: &mut [u8], start: u64, piece: &Piece<'_>) {
    let from = piece.offset.max(start);
    let to = piece.end().min(start + SECTOR);
    let Some(into) = sector.get_mut((from - start) as usize..(to - start) as usize) else { return };
    match piece.content {
        PieceContent::Erased(_) => into.fill(0xFF),
        PieceContent::Bytes(bytes) => {
            if let Some(part) = bytes.get((from - piece.offset) as usize..(to - piece.offset) as usize) {
                into.copy_from_slice(part);
            }
        }
    }
}
