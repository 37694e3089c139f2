//! Making an empty volume.

use nandkit_flash::{ErrorKind as FlashErrorKind, Flash};
use nandkit_units::{BlockIndex, Cause, Clock};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::allocate::is_failure;
use super::device;
use crate::medium::{Medium, Shape};
use crate::volume::{Jffs2, MountOptions};

impl<F: Flash> Jffs2<F> {
    /// Formats a device and mounts the empty volume: erases all good blocks and writes their
    /// cleanmarkers. The root directory needs no node. Blocks that cannot be erased are marked bad.
    /// Errors: `InvalidArgument` if the device does not suit JFFS2; those of the device and of the
    /// mount.
    pub fn format(flash: F, clock: Clock, options: MountOptions) -> Result<Self> {
        let mut shape = Shape::of(flash.geometry()).map_err(|what| FsError::new(ErrorKind::InvalidArgument, what))?;
        shape.cleanmarker = options.cleanmarker.unwrap_or(shape.cleanmarker);
        let mut medium = Medium::new(flash, clock.clone(), shape, options.order.unwrap_or_default(), 1);
        for block in (0..shape.blocks).map(BlockIndex).filter(|block| !medium.is_bad(*block)).collect::<Vec<_>>() {
            match medium.erase(block, Cause::Format) {
                Ok(()) => {}
                Err(error) if error.kind == FlashErrorKind::BadBlock => {}
                Err(error) if is_failure(error.kind) => medium.mark_bad(block).map_err(device)?,
                Err(error) => return Err(device(error)),
            }
        }
        medium.sync().map_err(device)?;
        Self::mount(medium.into_flash(), clock, MountOptions { just_erased: true, ..options })
    }
}
