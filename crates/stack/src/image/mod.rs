//! Images: what is in them, and their file systems for reading. A chip that a file holds, a dump of flash, or a volume as it is. Nothing here changes the file; [`ChangingImage`] changes a copy.

mod bad_blocks;
mod build;
mod build_f2fs;
mod change;
mod chip;
mod chip_volume;
mod detect;
mod emulated;
mod erase_size;
mod export;
mod extents;
mod f2fs;
mod f2fs_check;
mod f2fs_info;
mod f2fs_recovery;
mod f2fs_write;
mod fat;
mod fat_repairs;
mod history;
mod in_place;
mod jffs2;
mod open;
mod options;
mod overlay;
mod placement;
mod repaired;
mod sectors;
mod sparse;
mod survey;

use std::path::Path;

use nandkit_jffs2::DamageKind;
use nandkit_units::Clock;

pub use build::{Jffs2Build, OobOf, build_jffs2, check_jffs2_build};
pub use build_f2fs::{F2fsBuild, MkfsReport, build_f2fs, check_f2fs_build};
pub use change::{ChangeOptions, ChangedImage, ChangingImage};
pub use chip::{ChipInfo, Layer, Volume};
pub use detect::{Detection, RegionInfo};
pub use emulated::EmulatedImage;
pub use export::{ExportForm, Exported, Exporting};
pub use extents::PlacedExtent;
pub use f2fs_info::{CheckpointInfo, F2fsInfo, LogInfo};
pub use fat::FatInfo;
pub use history::{DeletedName, FileVersion, OldContent};
pub use in_place::ImageInPlace;
pub use jffs2::NO_ROOM;
pub use nandkit_f2fs::segment_map::{SegmentMap, Shown as SegmentsShown};
pub use nandkit_jffs2::mkfs::BuildReport;
pub use open::{OpenImage, open};
pub use options::{ByteOrder, OpenOptions};
pub use overlay::{apply_overlay, discard_overlay, discard_unused_overlay};
pub use repaired::{RepairedImage, write_sparse};
pub use sparse::{SPARSE_BLOCK, pack_sparse, unpacked_device};

use crate::StackError;
use crate::build::EPOCH_UNIX_NS;
use crate::chip_file;

/// Bytes in which a file's kind is recognised.
const BEGINNING: u64 = 512;

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

/// The kind of finding that tells of something whole to which no path leads any more; a repair gives it one.
pub const ORPHAN: &str = DamageKind::Orphan.name();

/// Something that is wrong in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What, in a word.
    pub kind: String,
    /// The first data byte concerned, counted from the beginning of the part that was opened.
    pub offset: Option<u64>,
    /// The files concerned, where it can be known: paths without a leading `/`.
    pub paths: Vec<Vec<u8>>,
    /// What was found, and what would be right.
    pub detail: String,
    /// Nothing is lost by it: the torn end of a write that was never acknowledged.
    pub harmless: bool,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The format: `fat`.
    pub format: &'static str,
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
    /// What there is, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

impl Checked {
    /// Whether nothing is wrong; a harmless finding is none.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.harmless)
    }

    /// How many there are of what has this name; 0 for a name that the format does not know.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}

/// A repaired image.
#[derive(Debug)]
pub struct Repaired {
    /// What was wrong before.
    pub checked: Checked,
    /// Nodes that were kept.
    pub kept: u64,
    /// What was put right in them.
    pub mended: Vec<Finding>,
    /// What was left out.
    pub dropped: Vec<Finding>,
    /// What is wrong with the repaired image.
    pub remaining: Vec<Finding>,
    /// The whole image, what is outside the part that was opened as it was.
    pub image: RepairedImage,
}

fn wrong(path: &Path, detail: impl std::fmt::Display) -> StackError {
    StackError::new("image", format!("{}: {detail}", path.display()))
}

fn clock_at(last_instant_ns: u64) -> Clock {
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    clock.advance_to(nandkit_units::Nanos(last_instant_ns));
    clock
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
