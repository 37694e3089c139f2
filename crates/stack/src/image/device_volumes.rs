//! Changes of the volumes of a device in an image.

use std::path::Path;

use nandkit_vfs::Timestamp;
use nandkit_vfs::check::Finding;

use super::change::{ChangedImage, LockedImage, clock_from, part, refuse_unproven};
use super::flash_length::{flash_length, grow};
use crate::StackError;
use crate::format::device_volumes::{ChangingVolumes, VolumeChange};
use crate::format::{OpenOptions, titles, wrong};

/// An image of a device that holds volumes, open for changes on a copy; the file is locked and does
/// not change.
pub struct ChangingDevice {
    volumes: Box<dyn ChangingVolumes>,
    locked: LockedImage,
    /// Bytes of a block in the file, if erased blocks at the end are to be cut off: the image is
    /// shorter than its flash.
    block: Option<u64>,
    /// Notes about the image, a sentence each.
    pub notes: Vec<String>,
}

impl ChangingDevice {
    /// Opens and locks an image, and attaches a copy of the device in it. A dry run is not
    /// `for_good`.
    ///
    /// Errors: those of [`super::open`]; another process has the file open; it holds no volumes, or
    /// nothing proves the size of its erase blocks; the device cannot be written without a loss.
    pub fn open(path: &Path, options: &OpenOptions, for_good: bool, now: Timestamp) -> Result<Self, StackError> {
        let locked = LockedImage::lock(path, options, for_good)?;
        let (mut found, notes) = part(path, &locked.image, options)?;
        let Some(format) = found.format.volumes_for_change() else {
            let expected = titles(|format| format.volumes_for_change().is_some());
            let detail = format!("{} holds files, no volumes; expected {expected}", found.format.title());
            return Err(wrong(path, detail));
        };
        refuse_unproven(path, options, &found)?;
        let mut copy = locked.copy(path)?;
        let length = flash_length(path, &locked.image, &mut found, options, clock_from(now))?;
        let block = grow(path, &mut copy, &found, length)?;
        let volumes = format.open(copy, &found, options, clock_from(now)).map_err(|error| error.of(path))?;
        Ok(Self { volumes, locked, block, notes })
    }

    /// Damage of the device, without harmless findings.
    pub fn damage(&self) -> Vec<Finding> {
        self.volumes.damage().into_iter().filter(|finding| !finding.is_harmless()).collect()
    }

    /// Bytes that new volumes can have.
    pub fn available(&self) -> u64 {
        self.volumes.available()
    }

    /// Makes a change; returns what was done, in words. Errors: those of the format; what was
    /// changed so far is then not to be kept.
    pub fn change(&mut self, change: VolumeChange<'_>) -> nandkit_vfs::Result<String> {
        self.volumes.change(change)
    }

    /// Ends the changes and returns the changed image. Errors: `Device`.
    pub fn finish(self) -> nandkit_vfs::Result<ChangedImage> {
        self.locked.changed(self.volumes.finish()?, self.block)
    }
}
