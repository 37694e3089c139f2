//! Counters of a card, for records.

use nandkit_units::{Nanos, StatisticValue};

use super::open_units::UnitChanges;
use super::spec::Pattern;

/// Requests of one kind and access pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternCounters {
    /// Requests of this pattern.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// The time they took, without merges and waiting.
    pub time: Nanos,
}

impl PatternCounters {
    fn count(&mut self, bytes: u64, time: Nanos) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time += time;
    }
}

/// The activity of a card since it was made. Failed and empty requests do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Reads that continued where the last one ended.
    pub reads_sequential: PatternCounters,
    /// Other reads.
    pub reads_random: PatternCounters,
    /// Writes that continued in a unit, or started one.
    pub writes_sequential: PatternCounters,
    /// Other writes.
    pub writes_random: PatternCounters,
    /// Trims.
    pub trims: PatternCounters,
    /// Remaps, where the device below offers them.
    pub remaps: PatternCounters,
    /// Flushes. They take no time: a card's write ends only when its bytes are safe.
    pub flushes: u64,
    /// Units opened by a write.
    pub units_opened: u64,
    /// Units closed without cost: written completely and in order.
    pub units_closed_whole: u64,
    /// Units closed by copying the part that had not been written.
    pub units_merged_in_part: u64,
    /// Units closed by copying the whole unit.
    pub units_merged_whole: u64,
    /// Total time of all merges.
    pub merge_time: Nanos,
    /// Total time that requests waited for earlier ones.
    pub waiting_time: Nanos,
}

impl CardCounters {
    pub(super) fn count_read(&mut self, pattern: Pattern, bytes: u64, time: Nanos) {
        match pattern {
            Pattern::Sequential => self.reads_sequential.count(bytes, time),
            Pattern::Random => self.reads_random.count(bytes, time),
        }
    }

    pub(super) fn count_write(&mut self, changes: &UnitChanges, bytes: u64, time: Nanos) {
        match changes.pattern {
            Pattern::Sequential => self.writes_sequential.count(bytes, time),
            Pattern::Random => self.writes_random.count(bytes, time),
        }
        self.units_opened += changes.opened;
        self.units_closed_whole += changes.closed_whole;
        self.units_merged_in_part += changes.merged_in_part;
        self.units_merged_whole += changes.merged_whole;
        self.merge_time += changes.merge_time;
    }

    pub(super) fn count_trim(&mut self, bytes: u64, time: Nanos) {
        self.trims.count(bytes, time);
    }

    pub(super) fn count_remap(&mut self, bytes: u64, time: Nanos) {
        self.remaps.count(bytes, time);
    }

    pub(super) fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        for (names, kind) in [
            (["card_reads_sequential", "card_read_sequential_bytes", "card_read_sequential_ns"], self.reads_sequential),
            (["card_reads_random", "card_read_random_bytes", "card_read_random_ns"], self.reads_random),
            (
                ["card_writes_sequential", "card_written_sequential_bytes", "card_write_sequential_ns"],
                self.writes_sequential,
            ),
            (["card_writes_random", "card_written_random_bytes", "card_write_random_ns"], self.writes_random),
            (["card_trims", "card_trimmed_bytes", "card_trim_ns"], self.trims),
            (["card_remaps", "card_remapped_bytes", "card_remap_ns"], self.remaps),
        ] {
            for (name, value) in names.into_iter().zip([kind.requests, kind.bytes, kind.time.0]) {
                sink(name, StatisticValue::Count(value));
            }
        }
        for (name, value) in [
            ("card_flushes", self.flushes),
            ("card_units_opened", self.units_opened),
            ("card_units_closed_whole", self.units_closed_whole),
            ("card_units_merged_in_part", self.units_merged_in_part),
            ("card_units_merged_whole", self.units_merged_whole),
            ("card_merge_ns", self.merge_time.0),
            ("card_waiting_ns", self.waiting_time.0),
        ] {
            sink(name, StatisticValue::Count(value));
        }
    }
}
