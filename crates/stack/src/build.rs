//! From a spec to a running stack, and to its orderly end.

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_block::wrap::DeviceCounters;
use nandkit_fat::Fat;
use nandkit_flash::wrap::FlashCounters;
use nandkit_nand_sim::QueueStatistics;
use nandkit_units::{Clock, Nanos, Statistics};
use nandkit_vfs::FileSystem;
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

use crate::block_stack::block_stack;
use crate::chip_file::{FileChip, Keep, NewFile};
use crate::crash::Existing;
use crate::device_handle::DeviceHandle;
use crate::mount_f2fs::mount_f2fs;
use crate::mount_fat::mount_fat;
use crate::mount_jffs2::mount_jffs2;
use crate::{FsSpec, HostSpec, StackError, StackSpec};

/// 2020-01-01T00:00:00Z, the calendar time at which every simulation starts: FAT's time stamps need one.
pub(crate) const EPOCH_UNIX_NS: u64 = 1_577_836_800 * 1_000_000_000;

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

/// The top of a stack.
pub enum Mounted {
    /// A file system.
    Files(Box<dyn MountedFileSystem>),
    /// A block device.
    Blocks(DeviceHandle),
}

/// A file system that knows an orderly end.
pub trait MountedFileSystem: FileSystem {
    /// What its mount found lost, or had to take away, that an unfinished change does not explain: a sentence each.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes everything durable and leaves the volume as one that needs no repair.
    fn unmount(&mut self) -> nandkit_vfs::Result<()>;
}

impl<D: BlockDevice> MountedFileSystem for Fat<D> {
    /// Entries that go may be those of a rename that was not finished; files that are shorter are none's.
    fn losses(&self) -> Vec<String> {
        let shortened = self.recovery().map_or(0, |report| report.shortened);
        let told = || format!("{shortened} files had fewer clusters than bytes, and are shorter now");
        (shortened > 0).then(told).into_iter().collect()
    }

    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Fat::unmount(self)
    }
}

impl MountedFileSystem for ModelFileSystem {
    /// Nothing of it outlives the run.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Ok(())
    }
}

/// Counters that may be read while the stack is in use.
#[derive(Default)]
pub struct Watched {
    /// The flash device's, where there is one.
    pub flash: Option<Arc<FlashCounters>>,
    /// Those of the block device under a file system, where there is one.
    pub block: Option<Arc<DeviceCounters>>,
    /// Each other layer's own, with the layer's name.
    pub layers: Vec<(String, Arc<dyn Statistics>)>,
}

/// Closes the translation layer and brings the chip to its file.
pub(crate) type Closing = Box<dyn FnOnce(&Clock) -> Result<(), StackError> + Send>;

/// What is left to do for a chip in a file, and the file if this stack made it.
pub(crate) struct Keeping {
    pub closing: Closing,
    pub new_file: NewFile,
}

/// What the layers leave with the stack while they are built.
pub(crate) struct Frame {
    pub clock: Clock,
    pub started: Nanos,
    pub watched: Watched,
    pub keep: Keep,
    /// The host's memory.
    pub host: Option<HostSpec>,
    /// A chip that is there already; it outlives the stack.
    pub given: Option<Box<dyn FileChip>>,
    /// What is expected on that chip; its volume is seen from its root, and not from a directory of this run's own.
    pub expected: Option<Existing>,
    pub keeping: Option<Keeping>,
}

impl Frame {
    /// Records hold what a layer counts, under its name.
    pub(crate) fn watch(&mut self, name: &str, layer: Arc<dyn Statistics>) {
        self.watched.layers.push((name.to_string(), layer));
    }

    /// Records tell what reads moved on the dies of a chip, where they go before other operations.
    pub(crate) fn watch_dies(&mut self, statistics: Option<Arc<QueueStatistics>>) {
        if let Some(statistics) = statistics {
            self.watch("dies", statistics);
        }
    }

    /// Refuses a chip with, or without, a volume where the other was expected.
    pub(crate) fn expect(&self, is_there: bool) -> Result<(), StackError> {
        match (self.expected, is_there) {
            (Some(Existing::Volume), false) => {
                Err(StackError::new("stack.fs", "the volume is gone: what should be its beginning is blank"))
            }
            (Some(Existing::Nothing), true) => Err(StackError::new("stack.fs", "the chip is not blank")),
            _ => Ok(()),
        }
    }
}

impl Stack {
    /// Builds the stack: the device as it comes from the factory, the translation layer formatted, the file system made and mounted. `seed` decides
    /// the faults of the device.
    ///
    /// A device in a file is opened where there is one: the translation layer recovers from what is there, and a volume that is there is mounted. See
    /// [`Stack::close`].
    pub fn build(spec: &StackSpec, seed: u64) -> Result<Self, StackError> {
        Self::build_keeping(spec, seed, Keep::AtEnd)
    }

    /// The same, with a chip's file that follows the chip as `keep` says; without such a file as [`Stack::build`].
    pub fn build_keeping(spec: &StackSpec, seed: u64, keep: Keep) -> Result<Self, StackError> {
        Self::build_given(spec, seed, keep, None)
    }

    pub(crate) fn build_given(
        spec: &StackSpec,
        seed: u64,
        keep: Keep,
        given: Option<(Box<dyn FileChip>, Existing)>,
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
        };
        let mounted = match &spec.fs {
            FsSpec::Model => Mounted::Files(Box::new(ModelFileSystem::new(ModelOptions::POSIX, frame.clock.clone()))),
            FsSpec::None => Mounted::Blocks(block_stack(spec, seed, &mut frame)?),
            FsSpec::Fat(fat) => {
                let device = block_stack(spec, seed, &mut frame)?;
                Mounted::Files(mount_fat(device, fat, &mut frame)?)
            }
            FsSpec::F2fs(f2fs) => {
                let device = block_stack(spec, seed, &mut frame)?;
                Mounted::Files(mount_f2fs(device, f2fs, seed, &mut frame)?)
            }
            FsSpec::Jffs2(jffs2) => Mounted::Files(mount_jffs2(spec, jffs2, seed, &mut frame)?),
        };
        let Frame { clock, started, watched, keep, mut keeping, .. } = frame;
        if let Some(Keeping { new_file, .. }) = &mut keeping {
            *new_file = std::mem::take(new_file).named(keep)?;
        }
        Ok(Self { clock, started, mounted, watched, keeping })
    }

    /// Ends in good order: unmounts, closes the translation layer, and keeps the chip where it has a file. A stack that is dropped instead leaves
    /// the file as it was before, and one that it made is gone: as if it had never been built. At [`Keep::AtSync`] it leaves what the last sync brought there.
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
