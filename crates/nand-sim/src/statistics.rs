//! What the chip counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{StatisticValue, Statistics};

/// Counts of what changes the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Page programs, failed ones included.
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
    /// Reads that went before what had been asked for earlier, or that suspended it.
    pub reads_ahead: u64,
    /// Reads of pages whose program had not ended: delivered from the controller's memory, without
    /// the die.
    pub reads_in_flight: u64,
    /// Erases and programs that were suspended.
    pub suspensions: u64,
    /// Operations that began later than told when they were issued; each time one was moved counts.
    pub postponements: u64,
    /// By how much, all together.
    pub postponed_ns: u64,
}

/// The same as [`QueueCounters`], to be watched while the chip is in use.
#[derive(Debug, Default)]
pub struct QueueStatistics {
    pub(crate) reads_ahead: AtomicU64,
    pub(crate) reads_in_flight: AtomicU64,
    pub(crate) suspensions: AtomicU64,
    pub(crate) postponements: AtomicU64,
    pub(crate) postponed_ns: AtomicU64,
}

/// Counts. Only the chip does, and never on two threads at once: a load and a store, a fifth of the
/// cost of a locked addition.
pub(crate) fn count(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).saturating_add(value), Relaxed);
}

impl QueueStatistics {
    /// The counts at this moment.
    pub fn snapshot(&self) -> QueueCounters {
        QueueCounters {
            reads_ahead: self.reads_ahead.load(Relaxed),
            reads_in_flight: self.reads_in_flight.load(Relaxed),
            suspensions: self.suspensions.load(Relaxed),
            postponements: self.postponements.load(Relaxed),
            postponed_ns: self.postponed_ns.load(Relaxed),
        }
    }
}

impl Statistics for QueueStatistics {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let QueueCounters { reads_ahead, reads_in_flight, suspensions, postponements, postponed_ns } = self.snapshot();
        sink("die_reads_ahead", StatisticValue::Count(reads_ahead));
        sink("die_reads_in_flight", StatisticValue::Count(reads_in_flight));
        sink("die_suspensions", StatisticValue::Count(suspensions));
        sink("die_postponements", StatisticValue::Count(postponements));
        sink("die_postponed_ns", StatisticValue::Count(postponed_ns));
    }
}

/// One chip's counts. A snapshot of the chip goes on counting from here on its own.
#[derive(Debug, Default)]
pub(crate) struct QueueCounts(pub Arc<QueueStatistics>);

impl Clone for QueueCounts {
    fn clone(&self) -> Self {
        let QueueCounters { reads_ahead, reads_in_flight, suspensions, postponements, postponed_ns } =
            self.0.snapshot();
        Self(Arc::new(QueueStatistics {
            reads_ahead: reads_ahead.into(),
            reads_in_flight: reads_in_flight.into(),
            suspensions: suspensions.into(),
            postponements: postponements.into(),
            postponed_ns: postponed_ns.into(),
        }))
    }
}
