//! State shared by the layers of a stack while they are built.

use std::sync::Arc;

use nandkit_block::card::CardSpec;
use nandkit_block::wrap::DeviceCounters;
use nandkit_flash::wrap::FlashCounters;
use nandkit_nand_sim::QueueStatistics;
use nandkit_units::{Clock, Nanos, Statistics};

use crate::chip_file::{EmulatedChip, Keep, NewFile};
use crate::tap::FlashTap;
use crate::{DeviceSpec, FtlSpec, HostSpec, StackError};

/// 2020-01-01T00:00:00Z, the calendar time at which every simulation starts; FAT's time stamps need
/// one.
pub(crate) const EPOCH_UNIX_NS: u64 = 1_577_836_800 * 1_000_000_000;

/// Counters that may be read while the stack is in use.
#[derive(Default)]
pub struct Watched {
    /// Counters of the flash device, if there is one.
    pub flash: Option<Arc<FlashCounters>>,
    /// Counters of the block device under a file system, if there is one.
    pub block: Option<Arc<DeviceCounters>>,
    /// Counters of each other layer, with the layer's name.
    pub layers: Vec<(String, Arc<dyn Statistics>)>,
}

/// What a stack expects on a given chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// A blank chip: the volume is made.
    Nothing,
    /// A volume, which is mounted and never made anew.
    Volume,
}

/// Closes the translation layer and saves the chip to its file.
pub(crate) type Closing = Box<dyn FnOnce(&Clock) -> Result<(), StackError> + Send>;

/// Pending work for a chip in a file, and the file if this stack made it.
pub(crate) struct Keeping {
    pub closing: Closing,
    pub new_file: NewFile,
}

/// Inputs and results of building the layers of a stack.
pub struct Frame {
    pub(crate) clock: Clock,
    pub(crate) started: Nanos,
    pub(crate) watched: Watched,
    pub(crate) keep: Keep,
    /// The host's cache.
    pub(crate) host: Option<HostSpec>,
    /// The memory card, if the stack is on one.
    pub(crate) card: Option<Box<CardSpec>>,
    /// The device and its layer, from the spec.
    pub(crate) parts: (DeviceSpec, FtlSpec),
    /// An existing chip, which survives the stack.
    pub(crate) given: Option<Box<dyn EmulatedChip>>,
    /// What is expected on that chip. Its volume is seen from its root, not from a separate
    /// directory for the run.
    pub(crate) expected: Option<Existing>,
    pub(crate) keeping: Option<Keeping>,
    /// Hears of every operation of the chip.
    pub(crate) tap: Option<FlashTap>,
}

impl Frame {
    /// Adds the counters of a layer to the records, under its name.
    pub(crate) fn watch(&mut self, name: &str, layer: Arc<dyn Statistics>) {
        self.watched.layers.push((name.to_string(), layer));
    }

    /// Adds the statistics of reads that overtook other operations on the dies of a chip.
    pub(crate) fn watch_dies(&mut self, statistics: Option<Arc<QueueStatistics>>) {
        if let Some(statistics) = statistics {
            self.watch("dies", statistics);
        }
    }

    /// Refuses an unexpected or a missing volume on the chip.
    pub(crate) fn expect(&self, is_there: bool) -> Result<(), StackError> {
        match (self.expected, is_there) {
            (Some(Existing::Volume), false) => {
                Err(StackError::new("stack.fs", "the volume is gone: its beginning is blank"))
            }
            (Some(Existing::Nothing), true) => Err(StackError::new("stack.fs", "the chip is not blank")),
            _ => Ok(()),
        }
    }
}
