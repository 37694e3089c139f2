//! Images: what is in them, and their file systems for reading. A chip that a file holds, a dump of flash, or a volume as it is. Nothing here changes the file; [`ChangingImage`] changes a copy.

mod change;
mod chip;
mod chip_volume;
mod emulated;
mod export;
mod in_place;
mod open;
mod overlay;

use std::path::Path;

pub use change::{ChangeOptions, ChangedImage, ChangingImage};
pub use chip::{ChipInfo, Layer, Volume};
pub use emulated::EmulatedImage;
pub use export::{ExportForm, Exported, Exporting};
pub use in_place::ImageInPlace;
pub use nandkit_f2fs::segment_map::{SegmentMap, Shown as SegmentsShown};
pub use nandkit_jffs2::mkfs::BuildReport;
pub use nandkit_vfs::check::{Finding, Report};
pub use open::{OpenImage, open};
pub use overlay::{apply_overlay, discard_overlay, discard_unused_overlay};

use crate::StackError;
use crate::chip_file;
pub use crate::format::f2fs::build::{F2fsBuild, MkfsReport, build_f2fs, check_f2fs_build};
pub use crate::format::f2fs::info::{CheckpointInfo, F2fsInfo, LogInfo};
pub use crate::format::fat::FatInfo;
pub use crate::format::jffs2::NO_ROOM;
pub use crate::format::jffs2::build::{Jffs2Build, OobOf, build_jffs2, check_jffs2_build};
pub use crate::format::recognise::{Detection, RegionInfo};
pub use crate::format::sparse::{SPARSE_BLOCK, pack_sparse, unpacked_device};
use crate::format::{BEGINNING, wrong};
pub use crate::format::{
    ByteOrder, Checked, DeletedName, FileVersion, ORPHAN, OldContent, OpenOptions, PlacedExtent, Repaired,
    RepairedImage, write_sparse,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSummary {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The part that was looked at, where it is not all.
    pub region: Option<RegionInfo>,
    /// What it may be, the likeliest first; empty where no format that can be opened is recognised.
    pub detections: Vec<Detection>,
    /// The F2FS volume, where it is one.
    pub f2fs: Option<Box<F2fsInfo>>,
    /// The FAT volume, where it is one.
    pub fat: Option<FatInfo>,
    /// The regions of a whole-device dump, whatever they hold.
    pub regions: Vec<RegionInfo>,
    /// Bad blocks, where the dump tells them.
    pub bad_blocks: Vec<u32>,
    /// Anything else that people should know: a sentence each.
    pub notes: Vec<String>,
}

impl DumpSummary {
    /// The format as which it would be opened.
    pub fn format(&self) -> Option<&'static str> {
        self.detections.first().map(|found| found.format)
    }
}

/// Whether a file holds a chip; then no option may say what a dump is like. Errors: no such plain file.
fn is_chip(path: &Path, options: &OpenOptions) -> Result<bool, StackError> {
    if !chip_file::is_device_file(&chip_file::beginning(path, BEGINNING)?) {
        return Ok(false);
    }
    match options.first_given() {
        None => Ok(true),
        Some(option) => Err(wrong(
            path,
            format!("{option}: the file holds a chip, which knows its own geometry; expected no such option"),
        )),
    }
}

/// Says what a file is and what it holds. Errors: a file that cannot be read, is empty, or is nothing that is known.
pub fn inspect(path: &Path, options: &OpenOptions) -> Result<Image, StackError> {
    if is_chip(path, options)? {
        return chip::inspect(path).map(|info| Image::Chip(Box::new(info)));
    }
    open::inspect(path, options).map(|info| Image::Dump(Box::new(info)))
}

/// What is in each segment of an F2FS volume. Errors: those of [`open()`]; another format.
pub fn segments(path: &Path, options: &OpenOptions) -> Result<SegmentMap, StackError> {
    if is_chip(path, options)? {
        return Err(wrong(path, "--segments: the file holds a chip; expected an image of F2FS"));
    }
    open::segments(path, options)
}

/// Checks the file system of a file.
pub fn check(path: &Path, options: &OpenOptions) -> Result<Checked, StackError> {
    if is_chip(path, options)? {
        return chip::check(path);
    }
    open::check(path, options)
}

/// Makes an image without what is provably bad, of JFFS2 or F2FS.
pub fn repair(path: &Path, options: &OpenOptions) -> Result<Repaired, StackError> {
    if is_chip(path, options)? {
        return Err(wrong(path, "--repair: the file holds a chip; expected an image of JFFS2 or F2FS"));
    }
    open::repair(path, options)
}
