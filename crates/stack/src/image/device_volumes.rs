//! Changes of the volumes of a device in an image.

use std::path::Path;

use nandkit_flash_image::{Image, ImageLayout};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{FsError, Timestamp};

use super::change::{ChangedImage, LockedImage, clock_from, grow, part, refuse_unproven};
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
        let layout = &mut found.layout;
        let length = copy.bytes().len() as u64;
        let is_last = layout.size.is_none_or(|size| layout.offset.saturating_add(size) >= length);
        let mut block = None;
        if let (Some(size), None) = (options.size, &options.region) {
            let end = options.offset.unwrap_or(0).saturating_add(size) / u64::from(layout.block_size.max(1));
            lengthen(layout, end.saturating_mul(layout.stored_block()).saturating_sub(layout.offset));
            grow(path, &mut copy, &found)?;
        } else if is_last && options.size.is_none() {
            let blocks = format.blocks_promised(&locked.image, &found, clock_from(now));
            let blocks = blocks.map_err(|error| error.of(path))?;
            let layout = &mut found.layout;
            let (here, promised) = (length - layout.offset.min(length), u64::from(blocks) * layout.stored_block());
            if promised > here {
                block = Some(layout.stored_block());
                layout.size = Some(promised);
                grow(path, &mut copy, &found)?;
            }
        }
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
        let changed = self.volumes.finish()?;
        let Some(block) = self.block else { return self.locked.changed(changed.into_image()) };
        let least = self.locked.image.bytes().len();
        let (mut bytes, oob) = changed.into_bytes();
        let end = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(block.max(1) as usize).max(least));
        let image = Image::from_bytes(bytes, oob);
        self.locked.changed(image.map_err(|error| FsError::device("the changed image", error))?)
    }
}

/// Makes a device so many bytes of the file long, if it is shorter.
fn lengthen(layout: &mut ImageLayout, size: u64) {
    layout.size = layout.size.map(|before| before.max(size));
}
