//! What the chip counts.

use crate::chip::NandChip;
use crate::store::Store;

/// Counts of what changes the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Page programs, failed ones included; each page of a multi-plane command is one.
    pub programs: u64,
    /// Copybacks, failed programs of the target included.
    pub copies: u64,
    /// Block erases, failed ones included.
    pub erases: u64,
    /// Programs and copies that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
}

/// Counts of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Page reads, failed ones included.
    pub reads: u64,
    /// Reads in which ECC corrected something.
    pub corrected: u64,
    /// Reads, and sources of copies, in which it could not.
    pub uncorrectable: u64,
}

/// Counts of what reads did to other operations of their dies, where they may go before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Reads of pages whose program had not ended: delivered from the controller's memory, without the die.
    pub reads_in_flight: u64,
    /// Erases and programs that were suspended.
    pub suspensions: u64,
    /// Operations that began later than told when they were issued; each time one was moved counts.
    pub postponements: u64,
    /// By how much, all together.
    pub postponed_ns: u64,
}

impl<S: Store> NandChip<S> {
    /// Counts of what reads moved; all zero where no read goes before anything.
    pub fn queue_counters(&self) -> QueueCounters {
        self.lock().schedule.queue_counters()
    }

    /// Counts of programs, copies, erases and their failures.
    pub const fn write_counters(&self) -> WriteCounters {
        self.counters
    }

    /// Counts of reads.
    pub fn read_counters(&self) -> ReadCounters {
        self.lock().counters
    }
}
