//! The interface to file-system formats: one trait and one table for all that the stack and the
//! image commands need.
//!
//! `docs/design/12-formats.md` explains the design.

use std::fmt;
use std::path::Path;

use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_flash_image::regions::{Signature, SignatureProbe};
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_units::{Clock, Context};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::probe::Likeness;

pub mod build;
pub mod container;
pub mod detected;
pub mod device_volumes;
pub mod emulate;
mod error;
pub mod extents;
pub mod f2fs;
pub mod fact;
pub mod fat;
mod held_dump;
pub mod history;
pub mod jffs2;
mod on_sectors;
mod options;
pub mod recognise;
mod repaired;
pub mod rescue;
pub mod resize;
pub mod sectors;
pub mod ubi;
pub mod ubifs;
pub mod volume;

pub use build::{BuildVolume, Built};
pub use detected::{DetectedFormat, Detection, View};
pub use device_volumes::VolumesFormat;
pub use emulate::{EmulateFormat, FormatSpec};
pub use error::FormatError;
pub use extents::PlacedExtent;
pub use fact::Fact;
pub use history::{DeletedContent, DeletedName, FileVersion, OldContent};
pub use options::{BadMarks, ByteOrder, ChangeOptions, CodePage, OobLayoutChoice, OpenOptions, Swap};
pub use repaired::{RepairedImage, write_sparse};
pub use rescue::{Doubt, RescueFormat, RescuedFile, RescuedFiles};
pub use resize::{ResizeFormat, ResizePlan};
pub use volume::{
    Changing, ChangingVolume, Medium, OpenVolume, Opened, OpenedForChanges, Opening, SegmentTable, SegmentsShown,
    VolumeInfo,
};

use crate::frame::EPOCH_UNIX_NS;
use crate::{MountedFileSystem, StackError};

/// Bytes at the beginning of a file that identify its kind.
pub(crate) const BEGINNING: u64 = 512;

/// The formats that can be opened. The first format on sectors explains why unknown bytes are not a
/// volume. On a chip the first format that claims it wins; JFFS2 claims whatever leaves the OOB
/// alone, so it is the last.
pub static FORMATS: &[&dyn Format] = &[&fat::FORMAT, &f2fs::FORMAT, &ubi::FORMAT, &ubifs::FORMAT, &jffs2::FORMAT];

/// The medium of a format's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// Rewritable sectors.
    Blocks,
    /// Pages in erase blocks.
    Flash,
}

/// Information that volumes of a format offer besides their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// Old versions of files and deleted names.
    pub history: bool,
    /// Extents of files.
    pub extents: bool,
    /// A table of segments.
    pub segments: bool,
}

/// How Linux's tools write an image to NAND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlashWriter {
    /// All blocks are erased, then pages are written.
    #[default]
    Pages,
    /// As `Pages`, with cleanmarkers in erased blocks.
    Cleanmarkers,
    /// ubiformat, which keeps the erase counter of each block.
    Ubiformat,
}

/// A file-system format. A method that returns `None` means that the format does not support the
/// operation.
pub trait Format: Sync {
    /// The key of specs, options and JSON: `f2fs`.
    fn name(&self) -> &'static str;

    /// The name for messages: `F2FS`.
    fn title(&self) -> &'static str;

    /// The medium of its volumes.
    fn medium(&self) -> MediumKind;

    /// Information that its volumes offer besides their files.
    fn keeps(&self) -> Keeps {
        Keeps::default()
    }

    /// How Linux's tools write an image of it to NAND; only for formats on flash.
    fn writer(&self) -> FlashWriter {
        FlashWriter::default()
    }

    /// Detects this format in a part of an image, by every layout that the options allow.
    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat>;

    /// How likely a device of `length` bytes with this beginning holds a volume; only for formats
    /// on sectors.
    fn likeness(&self, _beginning: &[u8], _length: u64) -> Option<Likeness> {
        None
    }

    /// Whether a chip holds a volume on its bare flash; only for formats on flash.
    fn is_on_chip(&self, _chip: &dyn Flash, _context: &Context) -> bool {
        false
    }

    /// The probe that recognises the beginning of a volume inside a dump.
    fn signature(&self) -> Option<SignatureProbe> {
        None
    }

    /// The volumes in a dump, for formats whose volumes do not store their length: the start of
    /// each, and its proven size.
    fn volumes(&self, _device: &DumpFlash) -> Vec<(u64, Signature)> {
        Vec::new()
    }

    /// The start of a volume that extends over both sides of `place`, which happens if the dump
    /// leaves out blocks before a partition.
    fn crosses(&self, _device: &DumpFlash, _place: u64) -> Option<u64> {
        None
    }

    /// Smallest size of a part with this beginning, in bytes; 0 if unknown.
    fn bytes_min(&self, _beginning: &[u8]) -> u64 {
        0
    }

    /// Opens a volume for reading.
    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError>;

    /// Facts about a volume.
    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError>;

    /// Checks a volume.
    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError>;

    /// Erase blocks of the flash that the content of an image needs: one that is to be flashed has
    /// fewer. 0 if the format says nothing of it. Errors: it is no volume or device.
    fn blocks_promised(&self, _image: &Image, _found: &DetectedFormat, _clock: Clock) -> Result<u32, FormatError> {
        Ok(0)
    }

    /// Support for changes in images.
    fn change(&self) -> Option<&dyn ChangeFormat> {
        None
    }

    /// Support for changes of the volumes that a device of this format holds.
    fn volumes_for_change(&self) -> Option<&dyn VolumesFormat> {
        None
    }

    /// Support for repairs of images.
    fn repair(&self) -> Option<&dyn RepairFormat> {
        None
    }

    /// Support for resizing a volume.
    fn resize(&self) -> Option<&dyn ResizeFormat> {
        None
    }

    /// Support for rescues from images whose volume cannot be opened.
    fn rescue(&self) -> Option<&dyn RescueFormat> {
        None
    }

    /// Whether its images can be loaded onto an emulated chip and mounted there.
    fn loads_onto_chips(&self) -> bool {
        self.emulate().is_some()
    }

    /// Support for emulated devices: options in a spec, and mounting.
    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        None
    }
}

/// The operations of a format that changes images.
pub trait ChangeFormat: Sync {
    /// Whether new data can be stored compressed.
    fn compresses(&self) -> bool {
        false
    }

    /// Whether the option `size` means the size of the flash, so that a shorter image is extended
    /// with erased bytes.
    fn fills_up(&self) -> bool {
        false
    }

    /// Opens a volume for changes.
    fn open(&self, image: Image, found: &DetectedFormat, how: &Changing<'_>) -> Result<OpenedForChanges, FormatError>;

    /// Mounts the volume on a device in memory for changes; `None` if that is not supported.
    fn mount_on_blocks(
        &self,
        _device: Box<dyn BlockDevice>,
        _clock: &Clock,
    ) -> Option<Result<Box<dyn MountedFileSystem>, FormatError>> {
        None
    }
}

/// The operations of a format that repairs images.
pub trait RepairFormat: Sync {
    /// Makes a repaired image, without what is provably bad.
    fn repair(&self, image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError>;
}

impl fmt::Debug for dyn Format + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The options of the default format of stacks.
pub(crate) fn default_spec() -> Box<dyn FormatSpec> {
    Box::new(fat::spec::FatSpec::default())
}

/// The format of this name.
pub fn named(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

/// The titles of the formats that support something, in words: `FAT, F2FS or JFFS2`.
pub(crate) fn titles(offer: impl Fn(&dyn Format) -> bool) -> String {
    let titles: Vec<&str> = FORMATS.iter().filter(|format| offer(**format)).map(|format| format.title()).collect();
    match titles.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The titles of the formats that offer some information, in words.
pub fn formats_that_keep(what: impl Fn(Keeps) -> bool) -> String {
    titles(|format| what(format.keeps()))
}

/// The kind of finding about an intact file or directory without a path; a repair gives it one.
pub const ORPHAN: &str = "orphan";

/// The kind of finding about missing file data: the structure around it is sound, and nothing more
/// can be lost.
pub const MISSING_DATA: &str = "missing data";

/// The kind of finding about items that a repair left out because the image has no free space for
/// them.
pub const NO_ROOM: &str = "no room";

/// The result of checking an image's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The format's name: `fat`.
    pub format: &'static str,
    /// Findings and counts. Offsets are counted from the beginning of the opened part.
    pub report: Report,
}

/// A repaired image.
#[derive(Debug)]
pub struct Repaired {
    /// The result of the check before the repair.
    pub checked: Checked,
    /// Number of nodes that were kept.
    pub kept: u64,
    /// Repairs within the kept nodes.
    pub mended: Vec<Finding>,
    /// Items that were left out.
    pub dropped: Vec<Finding>,
    /// Remaining damage of the repaired image.
    pub remaining: Vec<Finding>,
    /// The whole image; bytes outside the opened part are unchanged.
    pub image: RepairedImage,
}

pub(crate) fn wrong(path: &Path, detail: impl fmt::Display) -> StackError {
    StackError::new("image", format!("{}: {detail}", path.display()))
}

pub(crate) fn clock_at(last_instant_ns: u64) -> Clock {
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    clock.advance_to(nandkit_units::Nanos(last_instant_ns));
    clock
}
