//! Volumes that are open, and what they stand on: what every format gives, and what only some can.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_flash_image::DumpFlash;
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, FileSystem, InodeNumber, Result};
use serde_json::Value;

use super::detected::DetectedFormat;
use super::extents::{self, PlacedExtent};
use super::fact::Fact;
use super::history::History;
use super::sectors::DumpSectors;
use super::{FormatError, OpenOptions};

/// What a volume stands on.
pub enum Medium {
    /// A part of a file, for reading, and how it was recognised.
    Dump(Box<Dump>),
    /// A block device in memory, of which nothing goes back to where it came from.
    Blocks(Box<dyn BlockDevice>),
    /// Flash in memory, likewise.
    Flash(Box<dyn Flash>),
}

/// A part of a file.
pub struct Dump {
    /// The part.
    pub device: DumpFlash,
    /// How it was recognised.
    pub found: DetectedFormat,
}

impl Medium {
    /// A part of a file.
    pub(crate) fn dump(device: DumpFlash, found: DetectedFormat) -> Self {
        Self::Dump(Box::new(Dump { device, found }))
    }

    /// The sectors of a dump, or the block device. Error: it is bare flash.
    pub fn into_blocks(self) -> std::result::Result<Box<dyn BlockDevice>, FormatError> {
        match self {
            Self::Dump(dump) => Ok(Box::new(DumpSectors::new(dump.device))),
            Self::Blocks(device) => Ok(device),
            Self::Flash(_) => Err(FormatError::Unfit("this is bare flash; expected a block device".to_owned())),
        }
    }
}

/// How a volume is opened.
pub struct Opening<'a> {
    /// What the caller knows of the image.
    pub options: &'a OpenOptions,
    /// The clock of the medium.
    pub clock: Clock,
}

/// A volume that is open for reading.
pub trait OpenVolume: Send + Sync {
    /// The file system.
    fn fs(&self) -> &dyn FileSystem;

    /// What mounting, and all reading until now, found damaged, with the inode that it belongs to
    /// where that can be known. Harmless findings are among them.
    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        Vec::new()
    }

    /// Where a file lies; `None` where the format does not say. Errors: those of
    /// [`nandkit_vfs::Extents::extent_after`].
    fn extents(&self, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
        extents::of(self.fs(), inode)
    }

    /// What was there before, where the format keeps it.
    fn history(&self) -> Option<&dyn History> {
        None
    }

    /// What is in each segment, where the format has a table of them. Errors: it cannot be read.
    fn segments(&self) -> Option<Result<Box<dyn SegmentTable>>> {
        None
    }
}

/// What is in each segment of a volume.
pub trait SegmentTable {
    /// A character for each segment, what the characters mean, and the types in numbers; lines of
    /// so many columns at the most, where that is possible.
    fn draw(&self, shown: SegmentsShown, columns: usize) -> String;

    /// The table in JSON: valid blocks and types by segment.
    fn json(&self) -> Value;
}

/// Which of its properties a segment's character shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentsShown {
    /// How much of it is valid.
    Fill,
    /// Its type.
    Kind,
}

/// A volume that was opened for reading.
pub struct Opened {
    /// The volume.
    pub volume: Box<dyn OpenVolume>,
    /// What people should know: a sentence each.
    pub notes: Vec<String>,
}

impl Opened {
    /// A volume of which nothing is to be told.
    pub(crate) fn plain(volume: impl OpenVolume + 'static) -> Self {
        Self { volume: Box::new(volume), notes: Vec::new() }
    }
}

/// What a volume says of itself.
pub struct VolumeInfo {
    /// Its facts.
    pub facts: Vec<Fact>,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

/// How a volume in an image is opened for changes.
pub struct Changing<'a> {
    /// What the caller knows of the image.
    pub options: &'a OpenOptions,
    /// How new data are compressed, where the caller says so.
    pub compression: Option<&'a str>,
    /// The clock from which time stamps come.
    pub clock: Clock,
    /// Whether changes go to the file, sync by sync; else they stay in memory.
    pub in_place: bool,
}

/// A volume that is open for changes.
pub trait ChangingVolume: OpenVolume {
    /// The file system's writing side.
    fn changes(&mut self) -> &mut dyn Changes;

    /// Finds out what older contents still take, where that is not known: free space is exact then.
    /// Cost: of JFFS2 all inodes are read, once.
    fn count_free(&mut self) {}

    /// Makes everything durable, and leaves the volume as one that needs no repair.
    fn unmount(&mut self) -> Result<()>;

    /// The dump as it is after [`ChangingVolume::unmount`]'s work.
    fn finish(self: Box<Self>) -> Result<DumpFlash>;
}

/// A volume that was opened for changes.
pub struct OpenedForChanges {
    /// The volume.
    pub volume: Box<dyn ChangingVolume>,
    /// What people should know: a sentence each.
    pub notes: Vec<String>,
    /// What speaks against changing it: damage, and what the mount had to take away so that the
    /// volume is whole.
    pub bad: Vec<Finding>,
    /// While this is set, nothing reaches the file: repairs of the mount wait until the first
    /// change is asked for.
    pub held: Arc<AtomicBool>,
}
