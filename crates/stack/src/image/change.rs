//! Changes of images. They happen on a copy in memory, which the caller writes back, or go to an
//! overlay, or for a large image to the file itself.

use std::path::{Path, PathBuf};

use nandkit_flash_image::{Access, DumpFlash, DumpOptions, Image};
use nandkit_units::{Clock, format_bytes};
use nandkit_vfs::check::Finding;
use nandkit_vfs::probe::Fit;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, Timestamp};

use super::choose::{Selected, choose};
use super::flash_length::{flash_length, grow};
use super::is_chip;
use crate::format::detected::DetectedFormat;
use crate::format::{
    BEGINNING, ChangeFormat, ChangeOptions, Changing, ChangingVolume, OpenOptions, container, titles, wrong,
};
use crate::{StackError, chip_file};

/// An image with its file system mounted for changes on a copy; the file is locked and does not
/// change.
pub struct ChangingImage {
    volume: Box<dyn ChangingVolume>,
    locked: LockedImage,
    /// Bytes of a block in the file, if erased blocks at the end are to be cut off: the image is
    /// shorter than its flash.
    block: Option<u64>,
    /// The format: `jffs2`, `fat`, `f2fs`.
    pub format: &'static str,
    how: &'static dyn ChangeFormat,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
    /// Marked-bad blocks with nodes, and losses by the repairs of the mount.
    bad: Vec<Finding>,
}

/// An image that is locked while a copy of it changes.
pub(super) struct LockedImage {
    file: PathBuf,
    pub image: Image,
    overlay: bool,
}

impl LockedImage {
    /// Opens and locks an image. Errors: those of [`super::open`]; another process has it open.
    pub fn lock(path: &Path, options: &OpenOptions, for_good: bool) -> Result<Self, StackError> {
        refuse_chips(path, options)?;
        let file =
            std::fs::canonicalize(path).map_err(|error| wrong(path, format!("cannot find the file: {error}")))?;
        let access = if for_good { Access::ReadWrite } else { Access::ReadOnly };
        // A dry run makes no overlay.
        let overlay = options.overlay.clone().filter(|overlay| for_good || overlay.exists());
        let image = Image::open(&file, &DumpOptions { access, overlay, ..DumpOptions::default() });
        let image = image.map_err(|error| wrong(path, error))?;
        Ok(Self { file, image, overlay: options.overlay.is_some() })
    }

    /// A copy in memory, which alone changes.
    pub fn copy(&self, path: &Path) -> Result<Image, StackError> {
        self.image.private_copy(&self.file).map_err(|error| wrong(path, error))
    }

    /// The image with the changed copy. If it was lengthened to the end of its flash, erased blocks
    /// at the end, of so many bytes, are cut off, down to the length that the image had.
    pub fn changed(self, changed: DumpFlash, lengthened: Option<u64>) -> nandkit_vfs::Result<ChangedImage> {
        let changed = match lengthened {
            None => changed.into_image(),
            Some(block) => {
                let (mut bytes, oob) = changed.into_bytes();
                let end = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
                bytes.truncate(end.next_multiple_of(block.max(1) as usize).max(self.image.bytes().len()));
                Image::from_bytes(bytes, oob).map_err(|error| FsError::device("the changed image", error))?
            }
        };
        if changed.bytes().len() < self.image.bytes().len() {
            return Err(FsError::new(ErrorKind::Device, "the changed image is shorter than it was"));
        }
        Ok(ChangedImage { file: self.file, changed, image: self.image, overlay: self.overlay })
    }
}

/// A changed image. The file is locked until this is dropped.
pub struct ChangedImage {
    /// The path of the file, with links resolved.
    pub file: PathBuf,
    changed: Image,
    image: Image,
    overlay: bool,
}

impl ChangedImage {
    /// All bytes of the image; those outside the opened part are unchanged.
    pub fn bytes(&self) -> &[u8] {
        self.changed.bytes()
    }

    /// Whether the caller has to replace the file by one with [`Self::bytes`]; [`Self::keep`] then
    /// does nothing.
    pub fn is_replacement(&self) -> bool {
        let (bytes, before) = (self.changed.bytes().len(), self.image.bytes().len());
        !self.overlay && (bytes != before || (bytes as u64) < IN_PLACE_FROM)
    }

    /// Writes the changes, all or none: to the overlay if the image was opened with one, otherwise
    /// through a journal to the file. Errors: the overlay or the file cannot be written (nothing is
    /// changed then, or the error says what completes the change); the image is longer than its
    /// file.
    pub fn keep(&mut self) -> Result<(), StackError> {
        let kept = match self.overlay {
            true => self.image.keep_in_overlay(&self.changed),
            false => self.image.keep_in_file(&self.changed),
        };
        kept.map_err(|error| wrong(&self.file, error))
    }
}

/// Image size in bytes from which changes are written in place, so that they cost their own size
/// and not that of a whole card. Smaller images, which include all flash of boards, are replaced as
/// a whole, so that no program ever sees a half-written change.
const IN_PLACE_FROM: u64 = 256 << 20;

impl ChangingImage {
    /// Opens and locks an image, and mounts a copy of it. Errors: those of [`super::open`]; another
    /// process has the file open; the format or the form of the file cannot be changed.
    pub fn open(path: &Path, options: &OpenOptions, how: &ChangeOptions) -> Result<Self, StackError> {
        let locked = LockedImage::lock(path, options, how.for_good)?;
        let Changeable { mut found, format, mut notes } = changeable(path, &locked.image, options, how)?;
        let mut copy = locked.copy(path)?;
        let mut block = None;
        if format.fills_up() {
            let length = flash_length(path, &locked.image, &mut found, options, clock_from(how.now))?;
            block = grow(path, &mut copy, &found, length)?;
        }
        let clock = clock_from(how.now);
        let compression = how.compression.as_deref();
        let changing = Changing { options, compression, clock, in_place: false };
        let opened = format.open(copy, &found, &changing).map_err(|error| error.of(path))?;
        notes.extend(opened.notes);
        let (volume, bad) = (opened.volume, opened.bad);
        Ok(Self { volume, locked, block, format: found.format.name(), how: format, notes, bad })
    }

    /// Whether new data are compressed.
    pub fn compresses(&self) -> bool {
        self.how.compresses()
    }

    /// Whether the option `size` extends an image, because the flash may be larger than the file.
    pub fn fills_up(&self) -> bool {
        self.how.fills_up()
    }

    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        self.volume.fs()
    }

    /// The write interface of the file system.
    pub fn changes(&mut self) -> &mut dyn Changes {
        self.volume.changes()
    }

    /// Free space in bytes, including the space of obsolete data. Cost: JFFS2 reads all inodes,
    /// once.
    pub fn free(&mut self) -> u64 {
        self.volume.count_free();
        self.fs().volume().map_or(0, |volume| volume.blocks_free.saturating_mul(volume.block_size.into()))
    }

    /// Damage found by mounting and reads so far, without harmless findings.
    pub fn damage(&self) -> Vec<Finding> {
        harmful(&self.bad, &*self.volume)
    }

    /// Unmounts and returns the changed image. Errors: `NoSpace`, `Device`.
    pub fn finish(self) -> nandkit_vfs::Result<ChangedImage> {
        self.locked.changed(self.volume.finish()?, self.block)
    }
}

/// Refuses a file that holds a chip, or nothing.
pub(super) fn refuse_chips(path: &Path, options: &OpenOptions) -> Result<(), StackError> {
    if is_chip(path, options)? {
        let expected = titles(|format| format.change().is_some());
        let detail =
            format!("the file holds an emulated chip, which only runs can change; expected an image of {expected}");
        return Err(wrong(path, detail));
    }
    if chip_file::beginning(path, BEGINNING)?.is_empty() {
        return Err(wrong(path, "the file is empty; expected an image"));
    }
    Ok(())
}

/// The chosen part of an image, and its format's change operations.
pub(super) struct Changeable {
    pub found: DetectedFormat,
    pub format: &'static dyn ChangeFormat,
    pub notes: Vec<String>,
}

/// Chooses the part to change. Errors: a wrapper, which can only be read; a format that cannot be
/// changed; an unproven erase size; options that do not fit the format.
pub(super) fn changeable(
    path: &Path,
    image: &Image,
    options: &OpenOptions,
    how: &ChangeOptions,
) -> Result<Changeable, StackError> {
    let (found, notes) = part(path, image, options)?;
    let name = found.format.name();
    let Some(format) = found.format.change() else {
        let expected = titles(|format| format.change().is_some());
        return Err(wrong(path, format!("{name} can only be read; expected an image of {expected}")));
    };
    refuse_unproven(path, options, &found)?;
    if let Some(asked) = how.compression.as_ref().filter(|_| !format.compresses()) {
        let expected = titles(|format| format.change().is_some_and(ChangeFormat::compresses));
        let detail =
            format!("`compression` {asked}: {name} cannot compress data; expected {expected}, or no `compression`");
        return Err(wrong(path, detail));
    }
    Ok(Changeable { found, format, notes })
}

/// The part of an image to change, and notes about it. Errors: a wrapper, which can only be read;
/// where the part ends is in doubt.
pub(super) fn part(
    path: &Path,
    image: &Image,
    options: &OpenOptions,
) -> Result<(DetectedFormat, Vec<String>), StackError> {
    container::refuse_changes(path, image, options)?;
    let Selected { found, region, notes } = choose(path, image, options)?;
    let doubts = region.as_ref().map_or(&found.doubts, |region| &region.doubts);
    match doubts.first().filter(|_| options.size.is_none()) {
        None => Ok((found, notes)),
        Some(doubt) => {
            let detail = format!("{doubt}. Nothing was changed; expected `offset` and `size` of the volume");
            Err(wrong(path, detail))
        }
    }
}

/// The clock from which time stamps come.
pub(super) fn clock_from(now: Timestamp) -> Clock {
    Clock::starting_at(u64::try_from(now.0).unwrap_or(0))
}

/// Reasons against changing a volume, without harmless findings.
pub(super) fn harmful(bad: &[Finding], volume: &dyn ChangingVolume) -> Vec<Finding> {
    let found = volume.damage().into_iter().map(|(_, finding)| finding);
    bad.iter().cloned().chain(found.filter(|finding| !finding.is_harmless())).collect()
}

/// Refuses an image with an unproven erase size. With a wrong size it can be read, but changes
/// would not fit the flash.
pub(super) fn refuse_unproven(path: &Path, options: &OpenOptions, found: &DetectedFormat) -> Result<(), StackError> {
    if options.erase_size.is_some() || found.fit == Fit::Proven {
        return Ok(());
    }
    let sizes: Vec<String> = found.detection.erase_sizes.iter().map(|size| format_bytes((*size).into())).collect();
    let sizes = sizes.join(", ");
    let detail = format!(
        "nothing in the image proves its erase size: blocks of {sizes} fit. Changes with a wrong size would not fit the flash, so nothing was changed; expected `erase_size`"
    );
    Err(wrong(path, detail))
}
