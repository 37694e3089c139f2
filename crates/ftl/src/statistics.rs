//! Counters of the translation layers.

use nandkit_units::{Nanos, StatisticValue};

/// Counters of the common base of both layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BaseCounters {
    pub copies: u64,
    pub map_pages: u64,
    pub erases: u64,
    pub program_failures: u64,
    pub erase_failures: u64,
    pub retired_blocks: u64,
    pub poisoned_pages: u64,
    copy_busy: Measured,
    erase_busy: Measured,
}

/// A running mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Measured {
    count: u64,
    sum_ns: u64,
}

impl Measured {
    #[inline]
    fn add(&mut self, samples: u64, busy: Nanos) {
        self.count += samples;
        self.sum_ns = self.sum_ns.saturating_add(busy.0);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

impl BaseCounters {
    #[inline]
    pub fn count_copy(&mut self, busy: Nanos) {
        self.copy_busy.add(1, busy);
    }

    #[inline]
    pub fn count_copies(&mut self, copies: u64, busy: Nanos) {
        self.copy_busy.add(copies, busy);
    }

    #[inline]
    pub fn count_erase(&mut self, busy: Nanos) {
        self.erases += 1;
        self.erase_busy.add(1, busy);
    }

    /// Mean times of a copy and of an erase so far, in nanoseconds.
    pub fn measured_costs(&self) -> Option<(f64, f64)> {
        Some((self.copy_busy.mean()?, self.erase_busy.mean()?))
    }
}

/// How a log block was recycled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecyclingKind {
    /// All pages were copied into a new data block.
    Merge,
    /// The log block held everything in order and became the data block.
    Swap,
    /// The log block held the beginning in order, was filled up, and became the data block.
    Partial,
    /// The valid pages of the log block were copied into a new log block.
    Migration,
}

/// One recycling, for the event log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecyclingEvent {
    /// The logical block.
    pub lbn: u32,
    /// How the block was recycled.
    pub kind: RecyclingKind,
    /// Pages that a migration copied or would have copied.
    pub p: u32,
    /// Number of migrations in a row, including this recycling if it is one.
    pub migrations: u64,
    /// `P_n / n` of the period so far, including this recycling.
    pub alpha: f64,
    /// Whether another logical block needed the log block.
    pub forced: bool,
}

/// Counts of recyclings and host requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FtlCounters {
    /// Pages (whole or in part) that the host wrote.
    pub host_page_writes: u64,
    /// Written pages that had to be read first because the request covered only a part.
    pub read_modify_writes: u64,
    /// Bytes that the host wrote.
    pub host_bytes_written: u64,
    /// Number of trim requests.
    pub trims: u64,
    /// Merges of all pages into a new block.
    pub full_merges: u64,
    /// Log blocks that became the data block unchanged.
    pub swap_merges: u64,
    /// Log blocks that were filled up to become the data block.
    pub partial_merges: u64,
    /// Log blocks that were migrated to a new log block.
    pub migrations: u64,
    /// Merges forced because another logical block needed a log block.
    pub forced_merges: u64,
    /// Pages copied by merges and migrations.
    pub pages_copied: u64,
    /// Map pages written by recyclings.
    pub map_pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Blocks marked bad.
    pub retired_blocks: u64,
    /// Pages whose content was lost before they were moved.
    pub poisoned_pages: u64,
    /// Data blocks that were moved to even out wear.
    pub wear_moves: u64,
}

impl FtlCounters {
    pub(crate) fn with_base(mut self, base: &BaseCounters) -> Self {
        self.pages_copied = base.copies;
        self.map_pages = base.map_pages;
        self.erases = base.erases;
        self.program_failures = base.program_failures;
        self.erase_failures = base.erase_failures;
        self.retired_blocks = base.retired_blocks;
        self.poisoned_pages = base.poisoned_pages;
        self
    }

    /// Passes each count with its name to `sink`.
    pub fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        for (name, value) in [
            ("ftl_host_page_writes", self.host_page_writes),
            ("ftl_read_modify_writes", self.read_modify_writes),
            ("ftl_host_bytes_written", self.host_bytes_written),
            ("ftl_trims", self.trims),
            ("ftl_full_merges", self.full_merges),
            ("ftl_swap_merges", self.swap_merges),
            ("ftl_partial_merges", self.partial_merges),
            ("ftl_migrations", self.migrations),
            ("ftl_forced_merges", self.forced_merges),
            ("ftl_pages_copied", self.pages_copied),
            ("ftl_map_pages", self.map_pages),
            ("ftl_erases", self.erases),
            ("ftl_program_failures", self.program_failures),
            ("ftl_erase_failures", self.erase_failures),
            ("ftl_retired_blocks", self.retired_blocks),
            ("ftl_poisoned_pages", self.poisoned_pages),
            ("ftl_wear_moves", self.wear_moves),
        ] {
            sink(name, StatisticValue::Count(value));
        }
    }
}

/// What attaching found and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttachReport {
    /// The device was closed properly, or is empty.
    pub clean: bool,
    /// The chip holds nothing of a translation layer.
    pub empty: bool,
    /// Unfinished blocks of a power cut that were erased.
    pub erased_blocks: u64,
    /// Log blocks that were rewritten.
    pub rewritten_logs: u64,
    /// Torn pages at the ends of logs.
    pub torn_pages: u64,
    /// Unreadable pages inside logs: each means that an update of an unknown page is lost.
    pub lost_updates: u64,
    /// The simulated time that attaching took.
    pub done: nandkit_units::Done,
}
