//! From a spec to a running stack.

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_flash::wrap::FlashCounters;
use nandkit_units::{Clock, Statistics};
use nandkit_vfs::FileSystem;
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

use crate::{FsSpec, StackError, StackSpec};

/// 2020-01-01T00:00:00Z, the calendar time at which every simulation starts: FAT's time stamps need one.
const EPOCH_UNIX_NS: u64 = 1_577_836_800 * 1_000_000_000;

/// A running stack.
pub struct Stack {
    /// The clock that all layers share.
    pub clock: Clock,
    /// The top of the stack.
    pub mounted: Mounted,
    /// The counters of the layers below.
    pub watched: Watched,
}

/// The top of a stack.
pub enum Mounted {
    /// A file system.
    Files(Box<dyn FileSystem>),
    /// A block device of a concrete type.
    Blocks(BlockStack),
}

/// Counters that may be read while the stack is in use.
#[derive(Default)]
pub struct Watched {
    /// The flash device's, where there is one.
    pub flash: Option<Arc<FlashCounters>>,
    /// Each layer's own, with the layer's name.
    pub layers: Vec<(String, Arc<dyn Statistics>)>,
}

/// Work on a block device of any concrete type: compiled for each, so that no call in its loops is dynamic.
pub trait BlockVisitor {
    /// What the work comes to.
    type Output;

    /// Does the work.
    fn visit<D: BlockDevice>(self, device: &mut D) -> Self::Output;
}

/// Every block device that a stack can be.
pub enum BlockStack {}

impl BlockStack {
    /// Does work on the device.
    pub fn visit<V: BlockVisitor>(&mut self, _visitor: V) -> V::Output {
        match *self {}
    }
}

impl Stack {
    /// Builds the stack: the device as it comes from the factory, the translation layer formatted, the file system made and mounted. `seed` decides
    /// the faults of the device.
    pub fn build(spec: &StackSpec, _seed: u64) -> Result<Self, StackError> {
        spec.check()?;
        let clock = Clock::starting_at(EPOCH_UNIX_NS);
        let watched = Watched::default();
        let mounted = match &spec.fs {
            FsSpec::Model => Mounted::Files(Box::new(ModelFileSystem::new(ModelOptions::POSIX, clock.clone()))),
            _ => return Err(StackError::new("stack.fs", "wait")),
        };
        Ok(Self { clock, mounted, watched })
    }
}
