//! Changes of a device that holds volumes: making, removing and filling them.

use std::io::Read;

use nandkit_flash_image::{DumpFlash, Image};
use nandkit_units::Clock;
use nandkit_vfs::Result;
use nandkit_vfs::check::Finding;

use super::detected::DetectedFormat;
use super::{FormatError, OpenOptions};

/// The operations of a format whose content are volumes.
pub trait VolumesFormat: Sync {
    /// Opens a device for changes. Errors: it is none, or cannot be written without a loss.
    fn open(
        &self,
        image: Image,
        found: &DetectedFormat,
        options: &OpenOptions,
        clock: Clock,
    ) -> std::result::Result<Box<dyn ChangingVolumes>, FormatError>;
}

/// A device in an image, open for changes of its volumes.
pub trait ChangingVolumes {
    /// Damage found by attaching, also harmless one.
    fn damage(&self) -> Vec<Finding>;

    /// Bytes that new volumes can have.
    fn available(&self) -> u64;

    /// Makes a change; returns what was done, in words. Errors: no such volume, a name or number
    /// that is taken, no room; the device may then be half changed, and is not to be kept.
    fn change(&mut self, change: VolumeChange<'_>) -> Result<String>;

    /// Ends the changes, and returns the device.
    fn finish(self: Box<Self>) -> Result<DumpFlash>;
}

/// A change of a device's volumes, which are meant by their names.
pub enum VolumeChange<'a> {
    /// Makes a volume.
    Make(VolumeToMake),
    /// Removes a volume.
    Remove(&'a str),
    /// Changes the size of a volume, in bytes.
    Resize(&'a str, u64),
    /// Renames volumes, each from one name to another, all at once. A volume with one of the new
    /// names that is not renamed is removed.
    Rename(Vec<(&'a str, &'a str)>),
    /// Replaces the content of a volume by so many bytes.
    Update(&'a str, &'a mut dyn Read, u64),
}

/// A volume to be made.
#[derive(Clone, Debug)]
pub struct VolumeToMake {
    /// Its name.
    pub name: String,
    /// Its size in bytes; `None` takes all that is available.
    pub bytes: Option<u64>,
    /// Its number; `None` takes the first free one.
    pub number: Option<u32>,
    /// Whether its content is written as a whole, with checksums.
    pub is_static: bool,
    /// The size of its LEBs is a multiple of this.
    pub alignment: u32,
    /// Whether the content of a static volume is not checked when it is opened.
    pub skips_check: bool,
}
