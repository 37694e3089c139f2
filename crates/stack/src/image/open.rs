//! Opens, checks and repairs images.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use nandkit_flash_image::{DumpFlash, DumpOptions, Image};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{FileSystem, InodeNumber, Result as FsResult};

use super::choose::{Selected, choose};
use super::swap::swapped;
use super::{chip, is_chip, left_out};
use crate::format::detected::DetectedFormat;
use crate::format::recognise::RegionInfo;
use crate::format::{
    BEGINNING, Checked, DeletedName, Detection, FileVersion, Medium, OldContent, OpenOptions, OpenVolume, Opening,
    PlacedExtent, Repaired, SegmentTable, clock_at, container, formats_that_keep, titles, wrong,
};
use crate::{StackError, chip_file};

/// An image with its file system mounted for reading.
pub struct OpenImage {
    volume: Box<dyn OpenVolume>,
    /// Byte ranges of the volume that are in another file, and the files with content there,
    /// computed on demand.
    left_out: Vec<Range<u64>>,
    elsewhere: OnceLock<Vec<(Option<InodeNumber>, Finding)>>,
    /// The format: `fat`.
    pub format: &'static str,
    /// How it was detected; `None` for a volume on a chip.
    pub detection: Option<Detection>,
    /// The opened region, unless it is the whole image.
    pub region: Option<RegionInfo>,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

impl OpenImage {
    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        self.volume.fs()
    }

    /// Damage found by mounting and by all reads so far, with its inode if known, and files whose
    /// content is in a missing part of the image. Harmless findings are included.
    pub fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        let elsewhere = self.elsewhere.get_or_init(|| left_out::files(&*self.volume, &self.left_out));
        self.volume.damage().into_iter().chain(elsewhere.iter().cloned()).collect()
    }

    /// The extents of a file; `None` if the format does not support that. Errors: those of
    /// [`nandkit_vfs::Extents::extent_after`].
    pub fn extents(&self, inode: InodeNumber) -> Option<FsResult<Vec<PlacedExtent>>> {
        self.volume.extents(inode)
    }

    /// The versions of a file that are still on the flash, the current one last; `None` if the
    /// format keeps none. Errors: `NotFound`, `Device`.
    pub fn versions(&self, inode: InodeNumber) -> Option<FsResult<Vec<FileVersion>>> {
        Some(self.volume.history()?.versions(inode))
    }

    /// The content of a file at one of its versions; `None` if the format keeps none. Errors:
    /// `NotFound`, `InvalidArgument` (not a regular file), `Device`.
    pub fn content_at(&self, inode: InodeNumber, number: u64) -> Option<FsResult<OldContent>> {
        Some(self.volume.history()?.content_at(inode, number))
    }

    /// Deleted and replaced names that are still on the flash; `None` if the format keeps none.
    /// Errors: `Device`.
    pub fn deleted(&self) -> Option<FsResult<Vec<DeletedName>>> {
        Some(self.volume.history()?.deleted())
    }
}

/// Detects what an image is, and mounts it for reading. Errors: the file cannot be read, or its
/// format is unknown; it holds several file systems and none was chosen; options do not fit.
pub fn open(path: &Path, options: &OpenOptions) -> Result<OpenImage, StackError> {
    if is_chip(path, options)? {
        let (opened, format) = chip::open(path, options)?;
        let (volume, notes) = (opened.volume, opened.notes);
        let (left_out, elsewhere) = (Vec::new(), OnceLock::new());
        return Ok(OpenImage { volume, left_out, elsewhere, format, detection: None, region: None, notes });
    }
    let (image, mut notes) = read(path, options)?;
    let Selected { found, region, notes: more } = choose(path, &image, options)?;
    notes.extend(more);
    let left_out = left_out::stretches(&image, found.layout.offset, options);
    let medium = medium(path, image, &found)?;
    let opened = found.format.open(medium, &opening(options)).map_err(|error| error.of(path))?;
    notes.extend(opened.notes);
    let format = found.format.name();
    let (volume, elsewhere) = (opened.volume, OnceLock::new());
    Ok(OpenImage { volume, left_out, elsewhere, format, detection: Some(found.detection), region, notes })
}

/// The segments of an image's volume in the state of the checkpoint, to compare with other tools.
pub(super) fn segments(path: &Path, options: &OpenOptions) -> Result<Box<dyn SegmentTable>, StackError> {
    let options = OpenOptions { no_recovery: true, ..options.clone() };
    let opened = open(path, &options)?;
    let Some(segments) = opened.volume.segments() else {
        let expected = formats_that_keep(|keeps| keeps.segments);
        let detail = format!("`segments`: this is {}, which has none; expected an image of {expected}", opened.format);
        return Err(wrong(path, detail));
    };
    segments.map_err(|error| wrong(path, format!("`segments`: {error}")))
}

/// Checks the file system of an image that is not a chip.
pub(super) fn check(path: &Path, options: &OpenOptions) -> Result<Checked, StackError> {
    let (image, _) = read(path, options)?;
    let found = choose(path, &image, options)?.found;
    let left_out = left_out::stretches(&image, found.layout.offset, options);
    let view = (!left_out.is_empty()).then(|| image.view(found.layout.clone()));
    let elsewhere = view.transpose().map_err(|error| wrong(path, error))?.map(|part| {
        let opened = found.format.open(Medium::dump(part, found.clone()), &opening(options));
        // If it cannot be opened, the check itself reports why.
        opened.map_or_else(|_| Vec::new(), |opened| left_out::files(&*opened.volume, &left_out))
    });
    let medium = medium(path, image, &found)?;
    let mut report = found.format.check(medium, &opening(options)).map_err(|error| error.of(path))?;
    report.findings.extend(elsewhere.into_iter().flatten().map(|(_, finding)| finding));
    Ok(Checked { format: found.format.name(), report })
}

/// Repairs the image in a file, without changing the file.
pub(super) fn repair(path: &Path, options: &OpenOptions) -> Result<Repaired, StackError> {
    let (image, _) = read(path, options)?;
    let found = choose(path, &image, options)?.found;
    let Some(repair) = found.format.repair() else {
        let expected = titles(|format| format.repair().is_some());
        let detail = format!("`repair`: this is {}; expected an image of {expected}", found.format.name());
        return Err(wrong(path, detail));
    };
    repair.repair(image, &found, &opening(options)).map_err(|error| error.of(path))
}

/// Options for opening a dump, with a clock at zero.
pub(super) fn opening(options: &OpenOptions) -> Opening<'_> {
    Opening { options, clock: clock_at(0) }
}

/// Opens the file for reading and unpacks the image.
pub(super) fn read(path: &Path, options: &OpenOptions) -> Result<(Image, Vec<String>), StackError> {
    let beginning = chip_file::beginning(path, BEGINNING)?;
    if beginning.is_empty() {
        return Err(wrong(path, "the file begins with \"\": it is empty; expected an image"));
    }
    let (overlay, resident_max) = (options.overlay.clone(), options.resident_max);
    let how = DumpOptions { overlay, resident_max, ..DumpOptions::read_only() };
    let image = Image::open(path, &how).map_err(|error| wrong(path, error))?;
    let (image, mut notes) = container::joined(path, image, options)?;
    let (image, unwrapped) = container::unwrapped(path, image, options)?;
    let (image, swapped) = swapped(path, image, options)?;
    notes.extend(unwrapped);
    notes.extend(swapped);
    Ok((image, notes))
}

/// The detected part of an image, for reading.
pub(super) fn dump(path: &Path, image: Image, found: &DetectedFormat) -> Result<DumpFlash, StackError> {
    let device = DumpFlash::new(image, found.layout.clone()).map_err(|error| wrong(path, error))?;
    Ok(device.into_read_only())
}

fn medium(path: &Path, image: Image, found: &DetectedFormat) -> Result<Medium, StackError> {
    Ok(Medium::dump(dump(path, image, found)?, found.clone()))
}
