//! What the lab knows of the machine that it runs on: only what the caller passes in.

/// Measures the simulating host. Records keep its answers in their `host_*` fields, and nothing
/// else depends on them.
pub trait HostMeter: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// The largest resident memory of this process so far, in bytes; 0 where the system does not
    /// tell.
    fn peak_bytes(&self) -> u64;
}

/// A host that is not measured: every answer is 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmeasured;

impl HostMeter for Unmeasured {
    fn now_ns(&self) -> u64 {
        0
    }

    fn peak_bytes(&self) -> u64 {
        0
    }
}

/// How far an experiment is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Runs finished, those of an earlier start included.
    pub finished: usize,
    /// Runs in all.
    pub total: usize,
    /// Share of all work that is done, 0 to 1; every run counts as much as any other.
    pub fraction: f64,
    /// Host time left at the pace so far; none before anything is known.
    pub left_ns: Option<u64>,
}
