//! Images: what is in them, and their file systems for reading. A chip that a file holds, a dump of
//! flash, or a volume as it is. Nothing here changes the file; [`ChangingImage`] changes a copy.

mod change;
mod chip;
mod choose;
mod emulated;
mod export;
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
pub use change::{ChangedImage, ChangingImage};
pub use chip::{ChipInfo, ChipVolume};
pub use emulated::EmulatedImage;
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
pub use crate::format::fact;
pub use crate::format::recognise::RegionInfo;
use crate::format::{BEGINNING, titles, wrong};
pub use crate::format::{
    BadMarks, BuildVolume, Built, ByteOrder, ChangeOptions, Checked, CodePage, DeletedContent, DeletedName, Detection,
    Fact, FileVersion, Keeps, MISSING_DATA, NO_ROOM, ORPHAN, OldContent, OobLayoutChoice, OpenOptions, PlacedExtent,
    Repaired, RepairedImage, RescuedFile, SegmentTable, SegmentsShown, Swap, formats_that_keep, write_sparse,
};

/// What a file is.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// A chip.
    Chip(Box<ChipInfo>),
    /// A dump of flash, or a volume, byte by byte.
    Dump(Box<DumpSummary>),
}

/// A dump of flash, or a volume as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpSummary {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The part that was looked at, where it is not all.
    pub region: Option<RegionInfo>,
    /// What it may be, the likeliest first; empty where no format that can be opened is recognised.
    pub detections: Vec<Detection>,
    /// What the likeliest volume says of itself.
    pub volume: Vec<Fact>,
    /// The regions of a whole-device dump, whatever they hold.
    pub regions: Vec<RegionInfo>,
    /// Bad blocks, where the dump tells them.
    pub bad_blocks: Vec<u32>,
    /// What the ECC of the part says of it, where its pages have a layout with one.
    pub ecc: Option<EccReport>,
    /// Files with content in parts of a split sparse image that were not given.
    pub files_in_other_parts: usize,
    /// Anything else that people should know: a sentence each.
    pub notes: Vec<String>,
}

impl DumpSummary {
    /// The format as which it would be opened.
    pub fn format(&self) -> Option<&'static str> {
        self.detections.first().map(|found| found.format)
    }
}

/// Whether a file holds a chip; then no option may say what a dump is like. Errors: no such plain
/// file.
fn is_chip(path: &Path, options: &OpenOptions) -> Result<bool, StackError> {
    if !chip_file::is_device_file(&chip_file::beginning(path, BEGINNING)?) {
        return Ok(false);
    }
    match options.first_given() {
        None => Ok(true),
        Some(option) => Err(wrong(
            path,
            format!("`{option}`: the file holds a chip, which knows its own geometry; expected no such option"),
        )),
    }
}

/// Says what a file is and what it holds. Errors: a file that cannot be read, is empty, or is
/// nothing that is known.
pub fn inspect(path: &Path, options: &OpenOptions) -> Result<Image, StackError> {
    if is_chip(path, options)? {
        return chip::inspect(path, options).map(|info| Image::Chip(Box::new(info)));
    }
    inspect::inspect(path, options).map(|info| Image::Dump(Box::new(info)))
}

/// What is in each segment of a volume, where its format has a table of them. Errors: those of
/// [`open()`]; another format.
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

/// Makes an image without what is provably bad, of a format that can.
pub fn repair(path: &Path, options: &OpenOptions) -> Result<Repaired, StackError> {
    if is_chip(path, options)? {
        let expected = titles(|format| format.repair().is_some());
        return Err(wrong(path, format!("`repair`: the file holds a chip; expected an image of {expected}")));
    }
    open::repair(path, options)
}
