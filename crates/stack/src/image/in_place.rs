//! Images that are changed where they are, or beside them in an overlay: the file always holds what a
//! power cut could leave.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_flash_image::{DumpOptions, Image, ImageError};
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, FileSystem};

use super::change::{Changeable, changeable, clock_from, harmful, refuse_chips};
use crate::StackError;
use crate::format::{ChangeOptions, Changing, ChangingVolume, OpenOptions, wrong};

/// An image with its file system mounted for changes in the file itself, which is locked. Changes stay in memory up to [`Changes::sync`], which brings them to the file through a
/// journal: whatever happens to this process or to the host, the image is as it was after one of the syncs.
pub struct ImageInPlace {
    volume: Box<dyn ChangingVolume>,
    /// The clock from which time stamps come.
    pub clock: Clock,
    /// The format: `fat`.
    pub format: &'static str,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
    /// Blocks that are marked bad and hold nodes; what the mount has to take away so that a volume is whole.
    bad: Vec<Finding>,
    /// Set until the first change is asked for: repairs of the mount do not reach the file before.
    held: Arc<AtomicBool>,
}

impl ImageInPlace {
    /// Opens and locks an image. Errors: those of [`super::open`]; a file that another process has
    /// open; what is no plain file, or lies where no journal can be made; a form of file that cannot
    /// be changed.
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
        let Changeable { found, format, mut notes } = changeable(path, &image, options, how)?;
        let clock = clock_from(how.now);
        let compression = how.compression.as_deref();
        let changing = Changing { options, compression, clock: clock.clone(), in_place: true };
        let opened = format.open(image, &found, &changing).map_err(|error| error.of(path))?;
        notes.extend(opened.notes);
        let (volume, bad, held) = (opened.volume, opened.bad, opened.held);
        Ok(Self { volume, clock, format: found.format.name(), notes, bad, held })
    }

    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        self.volume.fs()
    }

    /// The file system's writing side.
    pub fn changes(&mut self) -> &mut dyn Changes {
        self.held.store(false, Ordering::Release);
        self.volume.changes()
    }

    /// What mounting and reading found damaged until now, without what is harmless.
    pub fn damage(&self) -> Vec<Finding> {
        harmful(&self.bad, &*self.volume)
    }

    /// Makes everything durable, and leaves the volume as one that needs no repair. Errors: `NoSpace`,
    /// `Device`.
    pub fn close(&mut self) -> nandkit_vfs::Result<()> {
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        self.volume.unmount()
    }
}
