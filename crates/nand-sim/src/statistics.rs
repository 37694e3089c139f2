//! Counters of the chip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_units::{StatisticValue, Statistics};

/// Counts of operations that change the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Page programs, failed ones included.
    pub programs: u64,
    /// Copybacks, including failed programs of the target.
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
    /// Reads, and sources of copies, that ECC could not correct.
    pub uncorrectable: u64,
}

/// Counts of how reads delayed other operations of their die, if reads may go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Reads that went before earlier requests, or suspended one.
    pub reads_ahead: u64,
    /// Reads of pages whose program had not ended: delivered from the controller's memory, without
    /// the die.
    pub reads_in_flight: u64,
    /// Suspended erases and programs.
    pub suspensions: u64,
    /// Operations that started later than announced when issued, counted each time one was moved.
    pub postponements: u64,
    /// Total delay of these operations in nanoseconds.
    pub postponed_ns: u64,
}

/// Live [`QueueCounters`], readable while the chip is in use.
#[derive(Debug, Default)]
pub struct QueueStatistics {
    pub(crate) reads_ahead: AtomicU64,
    pub(crate) reads_in_flight: AtomicU64,
    pub(crate) suspensions: AtomicU64,
    pub(crate) postponements: AtomicU64,
    pub(crate) postponed_ns: AtomicU64,
}

/// Adds to a counter. Only the chip does, and never from two threads at once, so a load and a store
/// suffice: a fifth of the cost of a locked addition.
pub(crate) fn count(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).saturating_add(value), Relaxed);
}

impl QueueStatistics {
    /// The current counts.
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

/// One chip's counts. A snapshot of the chip continues them independently.
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
