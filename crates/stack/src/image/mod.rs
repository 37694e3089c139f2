//! Images: detection, and their file systems for reading. An image is an emulated chip in a file, a
//! flash dump, or a volume. Nothing here changes the file; [`ChangingImage`] changes a copy.

mod change;
mod chip;
mod choose;
mod device_volumes;
mod emulated;
mod export;
mod flash_length;
mod in_place;
mod inspect;
mod left_out;
mod live;
mod oob_layout;
mod open;
mod overlay;
mod rescue;
mod resize;
mod swap;

use std::path::Path;

pub use crate::chip_layer::{ChipOwner, Layer, chip_owner};
pub use crate::format::FlashWriter;
pub use change::{ChangedImage, ChangingImage};
pub use chip::{ChipInfo, ChipVolume};
pub use device_volumes::ChangingDevice;
pub use emulated::EmulatedImage;
#[cfg(feature = "testing")]
pub use emulated::copy_sectors;
pub use export::{ExportForm, Exported, Exporting};
pub use in_place::ImageInPlace;
pub use live::{LiveChip, open_live};
pub use nandkit_flash_image::EccReport;
pub use nandkit_vfs::check::{Finding, Report};
pub use open::{OpenImage, open};
pub use overlay::{apply_overlay, discard_overlay, discard_unused_overlay};
pub use rescue::{RescuedImage, rescue};
pub use resize::{Resized, resize};

use crate::StackError;
use crate::chip_file;
pub use crate::format::container::{SPARSE_BLOCK, pack_sparse, unpacked_device};
pub use crate::format::device_volumes::{VolumeChange, VolumeToMake};
pub use crate::format::fact;
pub use crate::format::recognise::RegionInfo;
use crate::format::{BEGINNING, titles, wrong};
pub use crate::format::{
    BadMarks, BuildVolume, Built, ByteOrder, ChangeOptions, Checked, CodePage, DeletedContent, DeletedName, Detection,
    Fact, FileVersion, Keeps, MISSING_DATA, NO_ROOM, ORPHAN, OldContent, OobLayoutChoice, OpenOptions, PlacedExtent,
    Repaired, RepairedImage, RescuedFile, SegmentTable, SegmentsShown, Swap, formats_that_keep, write_sparse,
};

/// A summary of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// An emulated chip.
    Chip(Box<ChipInfo>),
    /// A flash dump or a volume.
    Dump(Box<DumpSummary>),
}

/// A summary of a flash dump or a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpSummary {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// The inspected part, unless it is the whole image.
    pub region: Option<RegionInfo>,
    /// The detected formats, the most likely first; empty if no supported format is recognised.
    pub detections: Vec<Detection>,
    /// Facts about the most likely volume.
    pub volume: Vec<Fact>,
    /// All regions of a whole-device dump.
    pub regions: Vec<RegionInfo>,
    /// Bad blocks, if the dump shows them.
    pub bad_blocks: Vec<u32>,
    /// ECC statistics of the part, if its pages have a layout with ECC.
    pub ecc: Option<EccReport>,
    /// Number of files with content in missing parts of a split sparse image.
    pub files_in_other_parts: usize,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

impl DumpSummary {
    /// The format with which it would be opened.
    pub fn format(&self) -> Option<&'static str> {
        self.detections.first().map(|found| found.format)
    }
}

/// Whether a file holds an emulated chip; options that describe a dump are then refused. Error: it
/// is not a regular file.
fn is_chip(path: &Path, options: &OpenOptions) -> Result<bool, StackError> {
    if !chip_file::is_device_file(&chip_file::beginning(path, BEGINNING)?) {
        return Ok(false);
    }
    match options.first_given() {
        None => Ok(true),
        Some(option) => Err(wrong(
            path,
            format!("`{option}`: the file holds an emulated chip, whose geometry is known; expected no such option"),
        )),
    }
}

/// Detects what a file is and what it holds. Errors: the file cannot be read, is empty, or has an
/// unknown format.
pub fn inspect(path: &Path, options: &OpenOptions) -> Result<Image, StackError> {
    if is_chip(path, options)? {
        return chip::inspect(path, options).map(|info| Image::Chip(Box::new(info)));
    }
    inspect::inspect(path, options).map(|info| Image::Dump(Box::new(info)))
}

/// The table of segments of a volume. Errors: those of [`open()`]; the format has no segments.
pub fn segments(path: &Path, options: &OpenOptions) -> Result<Box<dyn SegmentTable>, StackError> {
    open::segments(path, options)
}

/// Checks the file system of a file.
pub fn check(path: &Path, options: &OpenOptions) -> Result<Checked, StackError> {
    if is_chip(path, options)? {
        return chip::check(path, options);
    }
    open::check(path, options)
}

/// Makes a repaired image, without what is provably bad.
pub fn repair(path: &Path, options: &OpenOptions) -> Result<Repaired, StackError> {
    if is_chip(path, options)? {
        let expected = titles(|format| format.repair().is_some());
        return Err(wrong(path, format!("`repair`: the file holds an emulated chip; expected an image of {expected}")));
    }
    open::repair(path, options)
}
