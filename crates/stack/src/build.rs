//! Builds a running stack from a spec, and closes it.

use std::sync::Arc;

use nandkit_block::wrap::StatsDevice;
use nandkit_units::{Clock, Nanos};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

use crate::block_stack::block_stack;
use crate::chip_file::{EmulatedChip, Keep};
use crate::crash::CrashChip;
use crate::flash_stack::flash_stack;
use crate::frame::{EPOCH_UNIX_NS, Existing, Frame, Keeping, Watched};
use crate::mounted::Mounted;
use crate::tap::FlashTap;
use crate::{FsSpec, StackError, StackSpec};

/// A running stack.
pub struct Stack {
    /// The clock that all layers share.
    pub clock: Clock,
    /// The simulated instant at which the stack was built: zero, or for a chip from a file the end
    /// of its last run.
    pub started: Nanos,
    /// The top of the stack.
    pub mounted: Mounted,
    /// The counters of the layers below.
    pub watched: Watched,
    /// Pending work for a chip in a file.
    keeping: Option<Keeping>,
}

impl Stack {
    /// Builds the stack: a device in factory state, a formatted translation layer, and a new
    /// mounted file system. `seed` determines the faults of the device.
    ///
    /// If the file of a device exists, the device is opened: the translation layer recovers, and an
    /// existing volume is mounted. See [`Stack::close`].
    pub fn build(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        Self::build_keeping(spec, seed, Keep::AtEnd)
    }

    /// Builds the stack like [`Stack::build`]; `keep` says when a chip's file is written.
    pub fn build_keeping(spec: &StackSpec, seed: u64, keep: Keep) -> Result<Self, StackError> {
        Self::build_given(spec, seed, keep, None, None)
    }

    /// Builds the stack like [`Stack::build`], with a tap that hears of every operation of the
    /// chip, including those that make the volume.
    pub fn build_tapped(spec: &StackSpec, seed: u64, tap: FlashTap) -> Result<Self, StackError> {
        Self::build_given(spec, seed, Keep::AtEnd, None, Some(tap))
    }

    /// Builds a stack on a chip that the caller shares and keeps. Errors: those of
    /// [`Stack::build`]; an unexpected or a missing volume.
    pub fn build_on(spec: &StackSpec, seed: u64, chip: CrashChip, expected: Existing) -> Result<Self, StackError> {
        Self::build_given(spec, seed, Keep::AtEnd, Some((Box::new(chip), expected)), None)
    }

    fn build_given(
        spec: &StackSpec,
        seed: u64,
        keep: Keep,
        given: Option<(Box<dyn EmulatedChip>, Existing)>,
        tap: Option<FlashTap>,
    ) -> Result<Self, StackError> {
        let spec = &spec.resolved()?;
        spec.check()?;
        let mut frame = Frame {
            clock: Clock::starting_at(EPOCH_UNIX_NS),
            started: Nanos::ZERO,
            watched: Watched::default(),
            keep,
            host: spec.host,
            expected: given.as_ref().map(|(_, expected)| *expected),
            given: given.map(|(chip, _)| chip),
            keeping: None,
            tap,
            card: None,
            parts: (spec.device.clone(), spec.ftl.clone()),
        };
        let mounted = match &spec.fs {
            FsSpec::Model => Mounted::Files(Box::new(ModelFileSystem::new(ModelOptions::POSIX, frame.clock.clone()))),
            FsSpec::None => Mounted::Blocks(block_stack(spec, seed, &mut frame)?),
            FsSpec::Format(format) if spec.fs.is_on_flash() => {
                let flash = flash_stack(spec, seed, &mut frame)?;
                Mounted::Files(format.mount_on_flash(flash, seed, &mut frame)?)
            }
            FsSpec::Format(format) => {
                let device = StatsDevice::new(block_stack(spec, seed, &mut frame)?);
                frame.watched.block = Some(Arc::clone(device.counters()));
                Mounted::Files(format.mount_on_blocks(Box::new(device), seed, &mut frame)?)
            }
        };
        let Frame { clock, started, watched, keep, mut keeping, .. } = frame;
        if let Some(Keeping { new_file, .. }) = &mut keeping {
            *new_file = std::mem::take(new_file).named(keep)?;
        }
        Ok(Self { clock, started, mounted, watched, keeping })
    }

    /// Closes the stack: unmounts, closes the translation layer, and saves the chip if it has a
    /// file. If the stack is dropped instead, the file is unchanged, and a new file is removed; at
    /// [`Keep::AtSync`] the file has the state of the last sync.
    pub fn close(self) -> Result<(), StackError> {
        let (mounted, below) = self.lift();
        below.close(mounted)
    }

    /// Separates the top from the layers below, for use elsewhere. [`Below::close`] closes both.
    pub fn lift(self) -> (Mounted, Below) {
        let Self { clock, started, mounted, watched, keeping } = self;
        (mounted, Below { clock, started, watched, keeping })
    }
}

/// The layers of a stack below its top.
pub struct Below {
    /// The clock that all layers share.
    pub clock: Clock,
    /// The simulated instant at which the stack was built.
    pub started: Nanos,
    /// The counters of the layers below.
    pub watched: Watched,
    keeping: Option<Keeping>,
}

impl Below {
    /// Closes the stack like [`Stack::close`]; `mounted` is its top.
    pub fn close(self, mounted: Mounted) -> Result<(), StackError> {
        let Self { clock, watched, keeping, .. } = self;
        let Some(Keeping { closing, new_file }) = keeping else { return Ok(()) };
        match mounted {
            Mounted::Files(mut fs) => {
                fs.unmount().map_err(|error| StackError::new("stack.fs", format!("cannot unmount: {error}")))?;
            }
            Mounted::Blocks(blocks) => drop(blocks),
        }
        // The counters also hold a reference to the layer.
        drop(watched);
        closing(&clock)?;
        new_file.keep()
    }
}
