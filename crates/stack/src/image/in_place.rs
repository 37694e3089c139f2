//! Images changed in place or in an overlay. At any time the file has a state that a power cut
//! could leave.

use std::fs::OpenOptions as OpenOptionsOfFile;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_flash_image::{DumpOptions, Image, ImageError};
use nandkit_units::{Clock, format_bytes};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, FileSystem};

use super::change::{Changeable, changeable, clock_from, harmful, refuse_chips};
use super::flash_length::{FlashLength, check_size, flash_length};
use crate::StackError;
use crate::format::detected::DetectedFormat;
use crate::format::{ChangeOptions, Changing, ChangingVolume, OpenOptions, wrong};

/// Bytes by which a file is extended at once.
const LENGTHENED_AT_ONCE: usize = 1 << 20;

/// An image with its file system mounted for changes in the file itself, which is locked. Changes
/// stay in memory until [`Changes::sync`] writes them through a journal: after a crash of this
/// process or the host, the image has its state after one of the syncs.
pub struct ImageInPlace {
    volume: Box<dyn ChangingVolume>,
    /// The clock from which time stamps come.
    pub clock: Clock,
    /// The format: `fat`.
    pub format: &'static str,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
    /// Marked-bad blocks with nodes, and losses by the repairs of the mount.
    bad: Vec<Finding>,
    /// Set until the first change is requested; repairs of the mount are not written before.
    held: Arc<AtomicBool>,
}

impl ImageInPlace {
    /// Opens and locks an image. Errors: those of [`super::open`]; another process has the file
    /// open; it is not a regular file, no journal can be created beside it, or its form cannot be
    /// changed.
    pub fn open(path: &Path, options: &OpenOptions, how: &ChangeOptions) -> Result<Self, StackError> {
        refuse_chips(path, options)?;
        let failed = |error: ImageError| wrong(path, error);
        let overlay = options.overlay.clone();
        let in_file = overlay.is_none();
        let resident_max = options.resident_max;
        let image = Image::open(path, &DumpOptions { overlay, resident_max, ..DumpOptions::read_write() });
        let image = image.map_err(failed)?;
        if in_file {
            image.check_journal().map_err(failed)?;
        }
        let Changeable { mut found, format, mut notes } = changeable(path, &image, options, how)?;
        let length = match format.fills_up() {
            true => flash_length(path, &image, &mut found, options, clock_from(how.now))?,
            false => FlashLength::Unknown,
        };
        let before = image.bytes().len();
        let image = match length {
            FlashLength::Unknown => image,
            FlashLength::Asked | FlashLength::Promised => lengthened(path, image, &found, in_file)?,
        };
        let more = (image.bytes().len() - before) as u64;
        if length == FlashLength::Promised && more > 0 {
            let more = format_bytes(more);
            notes.push(format!("the file was made {more} longer, to the blocks that its volumes were promised"));
        }
        let clock = clock_from(how.now);
        let compression = how.compression.as_deref();
        let changing = Changing { options, compression, clock: clock.clone(), in_place: true };
        let opened = format.open(image, &found, &changing).map_err(|error| error.of(path))?;
        notes.extend(opened.notes);
        let (volume, bad, held) = (opened.volume, opened.bad, opened.held);
        Ok(Self { volume, clock, format: found.format.name(), notes, bad, held })
    }

    /// Whether there is no free space except what removals free.
    pub fn is_full(&self) -> bool {
        self.fs().volume().is_ok_and(|volume| volume.blocks_free == 0)
    }

    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        self.volume.fs()
    }

    /// The write interface of the file system.
    pub fn changes(&mut self) -> &mut dyn Changes {
        self.held.store(false, Ordering::Release);
        self.volume.changes()
    }

    /// Damage found by mounting and reads so far, without harmless findings.
    pub fn damage(&self) -> Vec<Finding> {
        harmful(&self.bad, &*self.volume)
    }

    /// Makes all changes durable and leaves a volume that needs no repair. Errors: `NoSpace`,
    /// `Device`.
    pub fn close(&mut self) -> nandkit_vfs::Result<()> {
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        self.volume.unmount()
    }
}

/// Extends the image and its file with blank bytes to the end of the flash. The file is extended
/// before anything else is written; a crash in between leaves blank bytes after the volume.
fn lengthened(path: &Path, image: Image, found: &DetectedFormat, in_file: bool) -> Result<Image, StackError> {
    let end = found.layout.offset.saturating_add(found.layout.size.unwrap_or(0));
    let length = image.bytes().len() as u64;
    if end <= length {
        return Ok(image);
    }
    check_size(path, found)?;
    if !in_file {
        let detail = format!(
            "the flash ends at {end}, by `size` or by what its volumes were promised, but an overlay has the length of its image, {length} bytes; expected an image that is as long, or no overlay"
        );
        return Err(wrong(path, detail));
    }
    drop(image);
    let failed = |error: std::io::Error| wrong(path, format!("cannot extend the file: {error}"));
    let mut file = OpenOptionsOfFile::new().append(true).open(path).map_err(failed)?;
    let blank = vec![0xFF; LENGTHENED_AT_ONCE];
    let mut left = end - length;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(LENGTHENED_AT_ONCE);
        file.write_all(blank.get(..now).unwrap_or_default()).map_err(failed)?;
        left -= now as u64;
    }
    file.sync_all().map_err(failed)?;
    Image::open(path, &DumpOptions::read_write()).map_err(|error| wrong(path, error))
}
