//! From a spec to a running stack, and to its orderly end.

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
    /// When the stack was built: zero, or on a chip from a file the end of its last run.
    pub started: Nanos,
    /// The top of the stack.
    pub mounted: Mounted,
    /// The counters of the layers below.
    pub watched: Watched,
    /// What is left to do for a chip in a file.
    keeping: Option<Keeping>,
}

impl Stack {
    /// Builds the stack: the device as it comes from the factory, the translation layer formatted,
    /// the file system made and mounted. `seed` decides the faults of the device.
    ///
    /// A device in a file is opened where there is one: the translation layer recovers from what is
    /// there, and a volume that is there is mounted. See [`Stack::close`].
    pub fn build(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        Self::build_keeping(spec, seed, Keep::AtEnd)
    }

    /// The same, with a chip's file that follows the chip as `keep` says; without such a file as
    /// [`Stack::build`].
    pub fn build_keeping(spec: &StackSpec, seed: u64, keep: Keep) -> Result<Self, StackError> {
        Self::build_given(spec, seed, keep, None, None)
    }

    /// As [`Stack::build`], with a tap that hears of every operation of the chip, those of making
    /// the volume among them.
    pub fn build_tapped(spec: &StackSpec, seed: u64, tap: FlashTap) -> Result<Self, StackError> {
        Self::build_given(spec, seed, Keep::AtEnd, None, Some(tap))
    }

    /// A stack on a chip that is somebody else's as well. Its end leaves the chip as it is.
    /// Errors: a volume where there should be none, or none where there should be one, besides
    /// those of [`Stack::build`].
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

    /// Ends in good order: unmounts, closes the translation layer, and keeps the chip where it has
    /// a file. A stack that is dropped instead leaves the file as it was before, and one that it
    /// made is gone: as if it had never been built. At [`Keep::AtSync`] it leaves what the last
    /// sync brought there.
    pub fn close(self) -> Result<(), StackError> {
        let (mounted, below) = self.lift();
        below.close(mounted)
    }

    /// Takes the top off, for somebody who uses it elsewhere. It is closed with [`Below::close`].
    pub fn lift(self) -> (Mounted, Below) {
        let Self { clock, started, mounted, watched, keeping } = self;
        (mounted, Below { clock, started, watched, keeping })
    }
}

/// A stack without its top, which somebody else has.
pub struct Below {
    /// The clock that all layers share.
    pub clock: Clock,
    /// When the stack was built.
    pub started: Nanos,
    /// The counters of the layers below.
    pub watched: Watched,
    keeping: Option<Keeping>,
}

impl Below {
    /// As [`Stack::close`], with the top of the same stack.
    pub fn close(self, mounted: Mounted) -> Result<(), StackError> {
        let Self { clock, watched, keeping, .. } = self;
        let Some(Keeping { closing, new_file }) = keeping else { return Ok(()) };
        match mounted {
            Mounted::Files(mut fs) => {
                fs.unmount().map_err(|error| StackError::new("stack.fs", format!("cannot unmount: {error}")))?;
            }
            Mounted::Blocks(blocks) => drop(blocks),
        }
        // The counters hold the layer too.
        drop(watched);
        closing(&clock)?;
        new_file.keep()
    }
}
