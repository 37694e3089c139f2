//! One door for formats: what the stack and the image commands need of a file system, behind one trait and one table.
//!
//! The cut is explained in `docs/design/12-formats.md`.

use std::fmt;
use std::path::Path;

use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Report};

pub(crate) mod emulate;
pub(crate) mod extents;
pub(crate) mod f2fs;
pub(crate) mod fat;
mod history;
pub(crate) mod jffs2;
mod options;
pub(crate) mod recognise;
mod repaired;
pub(crate) mod sectors;
pub(crate) mod sparse;

pub use emulate::{EmulateFormat, FormatSpec};
pub use extents::PlacedExtent;
pub use history::{DeletedName, FileVersion, OldContent};
pub use options::{ByteOrder, OpenOptions};
pub use repaired::{RepairedImage, write_sparse};

use crate::StackError;
use crate::frame::EPOCH_UNIX_NS;

/// Bytes in which a file's kind is recognised.
pub(crate) const BEGINNING: u64 = 512;

/// The formats that can be opened. Of those that stand on sectors, the first one says why unknown bytes are no volume.
pub static FORMATS: &[&dyn Format] = &[&fat::FORMAT, &f2fs::FORMAT, &jffs2::FORMAT];

/// What a volume of a format stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// Sectors that can be written again.
    Blocks,
    /// Pages in erase blocks.
    Flash,
}

/// One file-system format. A method that answers `None` says that the format does not offer this.
pub trait Format: Sync {
    /// The key of specs, options and JSON: `f2fs`.
    fn name(&self) -> &'static str;

    /// The name in sentences: `F2FS`.
    fn title(&self) -> &'static str;

    /// What its volumes stand on.
    fn medium(&self) -> MediumKind;

    /// Its options in a spec, and its mount on an emulated device.
    fn emulate(&self) -> Option<&dyn EmulateFormat>;
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
/// The kind of finding that tells of something whole to which no path leads any more; a repair gives it one.
pub const ORPHAN: &str = "orphan";

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
