//! A driver's reports: progress while it runs, counts and latencies afterwards.

use std::ops::ControlFlow;

use nandkit_units::Nanos;

use crate::latency::LatencyHistogram;
use crate::operation::{OperationKind, Phase};

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The phase; `None` while everything is read back.
    pub phase: Option<Phase>,
    /// Operations (or, reading back, bytes) done in the phase.
    pub done: u64,
    /// Number of operations (or bytes) that there will be, if that is known.
    pub total: Option<u64>,
    /// The simulated instant.
    pub now: Nanos,
    /// Bytes that the user has written in the phase; 0 while everything is read back.
    pub user_bytes_written: u64,
    /// Bytes that the user has read in the phase; 0 while everything is read back.
    pub user_bytes_read: u64,
}

impl Progress {
    /// Progress that is not the user's: a device is filled, or everything is read back.
    pub const fn apart(phase: Option<Phase>, done: u64, total: u64, now: Nanos) -> Self {
        Self { phase, done, total: Some(total), now, user_bytes_written: 0, user_bytes_read: 0 }
    }

    /// The done share of the phase, 0 to 1, where it is known.
    pub fn fraction(&self) -> Option<f64> {
        self.total.map(|total| if total == 0 { 1.0 } else { (self.done as f64 / total as f64).min(1.0) })
    }
}

/// Hears how far a run is, and stops it by answering `Break`.
pub type ProgressSink<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// A phase in windows, each with a number of bytes written by the user. The phase goes on until
/// `ended` stops it at the end of a window.
pub struct Windows<'a> {
    /// Bytes of a window; it ends with the operation that reaches them.
    pub bytes: u64,
    /// Hears what the phase has counted up to the end of a window, and ends the phase by answering
    /// `Break`.
    pub ended: &'a mut dyn FnMut(&PhaseReport) -> ControlFlow<()>,
}

/// Counts and latencies of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// When its first operation was issued at the earliest.
    pub started: Nanos,
    /// When its last operation had ended.
    pub ended: Nanos,
    /// Bytes that the user wrote.
    pub user_bytes_written: u64,
    /// Bytes that the user read.
    pub user_bytes_read: u64,
    /// Syncs of the host's own, by its rule of time.
    pub host_syncs: u64,
    /// Latencies by [`OperationKind::index`]; their counts are the counts of operations.
    latencies: Vec<LatencyHistogram>,
}

impl PhaseReport {
    pub(crate) fn new(phase: Phase, started: Nanos) -> Self {
        let latencies = vec![LatencyHistogram::default(); OperationKind::COUNT];
        Self { phase, started, ended: started, user_bytes_written: 0, user_bytes_read: 0, host_syncs: 0, latencies }
    }

    /// How far the phase is: operations done, and how many there will be, where that is known.
    pub(crate) const fn progress(&self, done: u64, total: Option<u64>, now: Nanos) -> Progress {
        let (user_bytes_written, user_bytes_read) = (self.user_bytes_written, self.user_bytes_read);
        Progress { phase: Some(self.phase), done, total, now, user_bytes_written, user_bytes_read }
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: OperationKind, latency: Nanos) {
        if let Some(histogram) = self.latencies.get_mut(kind.index()) {
            histogram.record(latency);
        }
    }

    /// The latencies of one kind of operation; `None` where there was none.
    pub fn latency(&self, kind: OperationKind) -> Option<&LatencyHistogram> {
        self.latencies.get(kind.index()).filter(|histogram| histogram.count() > 0)
    }

    /// The kinds that occurred, in their order, with their latencies.
    pub fn latencies(&self) -> impl Iterator<Item = (OperationKind, &LatencyHistogram)> {
        OperationKind::ALL.into_iter().filter_map(|kind| Some((kind, self.latency(kind)?)))
    }

    /// How many operations of one kind there were.
    pub fn operations(&self, kind: OperationKind) -> u64 {
        self.latency(kind).map_or(0, LatencyHistogram::count)
    }

    /// How many operations there were in all.
    pub fn operations_total(&self) -> u64 {
        self.latencies.iter().map(LatencyHistogram::count).sum()
    }

    /// The simulated time that the phase took.
    pub fn elapsed(&self) -> Nanos {
        self.ended.since(self.started)
    }
}

/// The counts of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverReport {
    /// The phases in which there was something to do, in their order.
    pub phases: Vec<PhaseReport>,
    /// Bytes that were compared while the workload ran (its own reads) and at the end.
    pub verified_bytes: u64,
    /// Files, or on blocks written sectors, that were read back at the end; `None` where that was
    /// switched off.
    pub verified_at_end: Option<u64>,
    /// Recorded calls that the file system has no way to do and that were left out; `None` where
    /// none were replayed.
    pub skipped_calls: Option<u64>,
}

impl DriverReport {
    /// The report of one phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|report| report.phase == phase)
    }
}
