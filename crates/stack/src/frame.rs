//! What the layers of a stack share while they are built.

use std::sync::Arc;

use nandkit_block::card::CardSpec;
use nandkit_block::wrap::DeviceCounters;
use nandkit_flash::wrap::FlashCounters;
use nandkit_nand_sim::QueueStatistics;
use nandkit_units::{Clock, Nanos, Statistics};

use crate::chip_file::{EmulatedChip, Keep, NewFile};
use crate::tap::FlashTap;
use crate::{DeviceSpec, FtlSpec, HostSpec, StackError};

/// 2020-01-01T00:00:00Z, the calendar time at which every simulation starts: FAT's time stamps need
/// one.
pub(crate) const EPOCH_UNIX_NS: u64 = 1_577_836_800 * 1_000_000_000;

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

/// What a stack expects on a chip that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing: it is made.
    Nothing,
    /// Its volume, which is mounted, and never made anew.
    Volume,
}

/// Closes the translation layer and brings the chip to its file.
pub(crate) type Closing = Box<dyn FnOnce(&Clock) -> Result<(), StackError> + Send>;

/// What is left to do for a chip in a file, and the file if this stack made it.
pub(crate) struct Keeping {
    pub closing: Closing,
    pub new_file: NewFile,
}

/// What the layers leave with the stack while they are built.
pub struct Frame {
    pub(crate) clock: Clock,
    pub(crate) started: Nanos,
    pub(crate) watched: Watched,
    pub(crate) keep: Keep,
    /// The host's memory.
    pub(crate) host: Option<HostSpec>,
    /// The card that the stack stands on, where it does.
    pub(crate) card: Option<Box<CardSpec>>,
    /// The device and its layer, as the spec has them.
    pub(crate) parts: (DeviceSpec, FtlSpec),
    /// A chip that is there already; it outlives the stack.
    pub(crate) given: Option<Box<dyn EmulatedChip>>,
    /// What is expected on that chip; its volume is seen from its root, and not from a directory of
    /// this run's own.
    pub(crate) expected: Option<Existing>,
    pub(crate) keeping: Option<Keeping>,
    /// Hears of every operation of the chip.
    pub(crate) tap: Option<FlashTap>,
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
