//! One door for formats: what the stack and the image commands need of a file system, behind one
//! trait and one table.
//!
//! The cut is explained in `docs/design/12-formats.md`.

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
pub mod emulate;
mod error;
pub mod extents;
pub mod f2fs;
pub mod fact;
pub mod fat;
pub mod history;
pub mod jffs2;
mod on_sectors;
mod options;
pub mod recognise;
mod repaired;
pub mod rescue;
pub mod resize;
pub mod sectors;
pub mod volume;

pub use build::{BuildVolume, Built};
pub use detected::{DetectedFormat, Detection, View};
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

/// Bytes in which a file's kind is recognised.
pub(crate) const BEGINNING: u64 = 512;

/// The formats that can be opened. Of those that stand on sectors, the first one says why unknown
/// bytes are no volume.
pub static FORMATS: &[&dyn Format] = &[&fat::FORMAT, &f2fs::FORMAT, &jffs2::FORMAT];

/// What a volume of a format stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// Sectors that can be written again.
    Blocks,
    /// Pages in erase blocks.
    Flash,
}

/// What volumes of a format tell beside their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// Older contents and deleted names.
    pub history: bool,
    /// Where files lie.
    pub extents: bool,
    /// A table of segments.
    pub segments: bool,
}

/// One file-system format. A method that answers `None` says that the format does not offer this.
pub trait Format: Sync {
    /// The key of specs, options and JSON: `f2fs`.
    fn name(&self) -> &'static str;

    /// The name in sentences: `F2FS`.
    fn title(&self) -> &'static str;

    /// What its volumes stand on.
    fn medium(&self) -> MediumKind;

    /// What its volumes tell beside their files.
    fn keeps(&self) -> Keeps {
        Keeps::default()
    }

    /// Everything that a part of an image may be of this format, by any layout that the options
    /// leave open.
    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat>;

    /// How surely a device of `length` bytes that begins so holds a volume; asked of formats on
    /// sectors.
    fn likeness(&self, _beginning: &[u8], _length: u64) -> Option<Likeness> {
        None
    }

    /// Whether a chip holds a volume on its bare flash; asked of formats on flash.
    fn is_on_chip(&self, _chip: &dyn Flash, _context: &Context) -> bool {
        false
    }

    /// What recognises the beginning of a volume inside a dump.
    fn signature(&self) -> Option<SignatureProbe> {
        None
    }

    /// The volumes in a dump of a format whose volumes do not tell their length: where each begins,
    /// with its proven bytes as its size.
    fn volumes(&self, _device: &DumpFlash) -> Vec<(u64, Signature)> {
        Vec::new()
    }

    /// Where a volume in a dump begins that stands on both sides of a place, as one does where the
    /// dump leaves out blocks in front of a partition.
    fn crosses(&self, _device: &DumpFlash, _place: u64) -> Option<u64> {
        None
    }

    /// The fewest bytes that a part has that begins so; 0 where nothing is known.
    fn bytes_min(&self, _beginning: &[u8]) -> u64 {
        0
    }

    /// Opens a volume for reading.
    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError>;

    /// What a volume says of itself.
    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError>;

    /// Checks a volume.
    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError>;

    /// Changes in images.
    fn change(&self) -> Option<&dyn ChangeFormat> {
        None
    }

    /// Repairs of images.
    fn repair(&self) -> Option<&dyn RepairFormat> {
        None
    }

    /// Changes of a volume's size.
    fn resize(&self) -> Option<&dyn ResizeFormat> {
        None
    }

    /// Rescues from images of which no volume can be opened.
    fn rescue(&self) -> Option<&dyn RescueFormat> {
        None
    }

    /// Its options in a spec, and its mount on an emulated device.
    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        None
    }
}

/// What a format has for images that are changed.
pub trait ChangeFormat: Sync {
    /// Whether new data can be stored compressed.
    fn compresses(&self) -> bool {
        false
    }

    /// Whether the option `size` names the flash of which the image is a part, so that a shorter
    /// image becomes longer by erased bytes.
    fn fills_up(&self) -> bool {
        false
    }

    /// Opens a volume for changes.
    fn open(&self, image: Image, found: &DetectedFormat, how: &Changing<'_>) -> Result<OpenedForChanges, FormatError>;

    /// Mounts the volume on a device in memory for changes; `None` where that is not offered.
    fn mount_on_blocks(
        &self,
        _device: Box<dyn BlockDevice>,
        _clock: &Clock,
    ) -> Option<Result<Box<dyn MountedFileSystem>, FormatError>> {
        None
    }
}

/// What a format has for images that are repaired.
pub trait RepairFormat: Sync {
    /// The image without what is provably bad.
    fn repair(&self, image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError>;
}

impl fmt::Debug for dyn Format + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The options of the format that a stack has where its spec names none.
pub(crate) fn default_spec() -> Box<dyn FormatSpec> {
    Box::new(fat::spec::FatSpec::default())
}

/// The format of this name.
pub fn named(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

/// The titles of the formats that offer something, in words: `FAT, F2FS or JFFS2`.
pub(crate) fn titles(offer: impl Fn(&dyn Format) -> bool) -> String {
    let titles: Vec<&str> = FORMATS.iter().filter(|format| offer(**format)).map(|format| format.title()).collect();
    match titles.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The titles of the formats that keep something, in words.
pub fn formats_that_keep(what: impl Fn(Keeps) -> bool) -> String {
    titles(|format| what(format.keeps()))
}

/// The kind of finding that tells of something whole to which no path leads any more; a repair
/// gives it one.
pub const ORPHAN: &str = "orphan";

/// The kind of finding that tells of bytes of a file that are nowhere: the structure around them is
/// sound, and nothing more can be lost of them.
pub const MISSING_DATA: &str = "missing data";

/// The kind of what a repair left out because the image has no room for it.
pub const NO_ROOM: &str = "no room";

/// The check of an image's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The format's name: `fat`.
    pub format: &'static str,
    /// What is wrong, and what there is. Offsets are counted from the beginning of the part that
    /// was opened.
    pub report: Report,
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

pub(crate) fn wrong(path: &Path, detail: impl fmt::Display) -> StackError {
    StackError::new("image", format!("{}: {detail}", path.display()))
}

pub(crate) fn clock_at(last_instant_ns: u64) -> Clock {
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    clock.advance_to(nandkit_units::Nanos(last_instant_ns));
    clock
}
