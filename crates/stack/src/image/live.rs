//! The volume on a chip in a file, open for changes in memory, which are never written back. For
//! callers that use the remap commands of the chip's translation layer.

use std::path::Path;
use std::sync::Arc;

use nandkit_block::wrap::{DeviceCounters, StatsDevice};
use nandkit_units::Clock;
use nandkit_vfs::FileSystem;

use super::{chip, is_chip};
use crate::format::{Medium, OpenOptions};
use crate::{MountedFileSystem, StackError};

/// A volume on a chip, open for changes.
pub struct LiveChip {
    fs: Box<dyn MountedFileSystem>,
    /// The clock of volume and chip, in simulated time.
    pub clock: Clock,
    /// Requests to the device below the volume.
    pub requests: Arc<DeviceCounters>,
    /// The format of the volume: `f2fs`.
    pub format: &'static str,
}

impl LiveChip {
    /// The volume.
    pub fn fs(&mut self) -> &mut dyn FileSystem {
        &mut *self.fs
    }
}

/// Opens a chip's volume for changes in memory, after recovery from a cut; `None` if the file holds
/// no chip, or a format that can only be read there. Errors: those of [`super::open()`].
pub fn open_live(path: &Path, options: &OpenOptions) -> Result<Option<LiveChip>, StackError> {
    if !is_chip(path, options)? {
        return Ok(None);
    }
    let (format, medium, clock) = chip::volume(path)?;
    let (Some(change), Medium::Blocks(device)) = (format.change(), medium) else { return Ok(None) };
    let device = StatsDevice::new(device);
    let requests = Arc::clone(device.counters());
    let Some(mounted) = change.mount_on_blocks(Box::new(device), &clock) else { return Ok(None) };
    let fs = mounted.map_err(|error| error.of(path))?;
    Ok(Some(LiveChip { fs, clock, requests, format: format.name() }))
}
