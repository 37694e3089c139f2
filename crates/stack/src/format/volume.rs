//! Open volumes and their media: operations of all formats, and of some.

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

/// The medium of a volume.
pub enum Medium {
    /// A part of a file, for reading, with its detected format.
    Dump(Box<Dump>),
    /// A block device in memory; changes are not written back to its origin.
    Blocks(Box<dyn BlockDevice>),
    /// Flash in memory; changes are not written back to its origin.
    Flash(Box<dyn Flash>),
}

/// A part of a file.
pub struct Dump {
    /// The part.
    pub device: DumpFlash,
    /// Its detected format.
    pub found: DetectedFormat,
}

impl Medium {
    /// A part of a file.
    pub(crate) fn dump(device: DumpFlash, found: DetectedFormat) -> Self {
        Self::Dump(Box::new(Dump { device, found }))
    }

    /// Returns the sectors of a dump, or the block device. Error: it is bare flash.
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
    /// What the caller knows about the image.
    pub options: &'a OpenOptions,
    /// The clock of the medium.
    pub clock: Clock,
}

/// A volume open for reading.
pub trait OpenVolume: Send + Sync {
    /// The file system.
    fn fs(&self) -> &dyn FileSystem;

    /// Damage found by mounting and by all reads so far, with its inode if known. Harmless findings
    /// are included.
    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        Vec::new()
    }

    /// The extents of a file; `None` if the format does not support that. Errors: those of
    /// [`nandkit_vfs::Extents::extent_after`].
    fn extents(&self, inode: InodeNumber) -> Option<Result<Vec<PlacedExtent>>> {
        extents::of(self.fs(), inode)
    }

    /// Old versions and deleted names, if the format keeps them.
    fn history(&self) -> Option<&dyn History> {
        None
    }

    /// The table of segments, if the format has one. Error: it cannot be read.
    fn segments(&self) -> Option<Result<Box<dyn SegmentTable>>> {
        None
    }
}

/// The state of all segments of a volume.
pub trait SegmentTable {
    /// Draws a character per segment, with a legend and the counts of types; lines have at most
    /// `columns` columns if possible.
    fn draw(&self, shown: SegmentsShown, columns: usize) -> String;

    /// The table in JSON: valid blocks and types by segment.
    fn json(&self) -> Value;
}

/// The property of a segment that its character shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentsShown {
    /// Share of valid blocks.
    Fill,
    /// Its type.
    Kind,
}

/// The result of opening a volume for reading.
pub struct Opened {
    /// The volume.
    pub volume: Box<dyn OpenVolume>,
    /// Notes about opening it, a sentence each.
    pub notes: Vec<String>,
}

impl Opened {
    /// A volume without notes.
    pub(crate) fn plain(volume: impl OpenVolume + 'static) -> Self {
        Self { volume: Box::new(volume), notes: Vec::new() }
    }
}

/// Facts about a volume.
pub struct VolumeInfo {
    /// Its facts.
    pub facts: Vec<Fact>,
    /// Further notes, a sentence each.
    pub notes: Vec<String>,
}

/// Options for opening a volume in an image for changes.
pub struct Changing<'a> {
    /// What the caller knows about the image.
    pub options: &'a OpenOptions,
    /// Compression of new data; `None` for the default.
    pub compression: Option<&'a str>,
    /// The clock from which time stamps come.
    pub clock: Clock,
    /// Whether each sync writes the changes to the file; otherwise they stay in memory.
    pub in_place: bool,
}

/// A volume open for changes.
pub trait ChangingVolume: OpenVolume {
    /// The write interface of the file system.
    fn changes(&mut self) -> &mut dyn Changes;

    /// Counts the space of obsolete data, so that the free space is exact. Cost: JFFS2 reads all
    /// inodes, once.
    fn count_free(&mut self) {}

    /// Makes all changes durable and leaves a volume that needs no repair.
    fn unmount(&mut self) -> Result<()>;

    /// Unmounts as [`ChangingVolume::unmount`] does, and returns the changed dump.
    fn finish(self: Box<Self>) -> Result<DumpFlash>;
}

/// The result of opening a volume for changes.
pub struct OpenedForChanges {
    /// The volume.
    pub volume: Box<dyn ChangingVolume>,
    /// Notes about opening it, a sentence each.
    pub notes: Vec<String>,
    /// Reasons against changing it: damage, and losses by the repairs of the mount.
    pub bad: Vec<Finding>,
    /// While this is set, nothing is written to the file: repairs of the mount wait for the first
    /// change.
    pub held: Arc<AtomicBool>,
}
