//! Statistics for records.

use nandkit_flash::Flash;
use nandkit_units::{StatisticValue, Statistics};

use super::PageMapFtl;

impl<F: Flash> PageMapFtl<F> {
    /// Flash pages that are never available to the host, by purpose.
    pub fn reserved_pages(&self) -> ReservedPages {
        let superblock = u64::from(self.superblocks.slots());
        let block = superblock / u64::from(self.superblocks.stripe().max(1));
        let open = u64::from(self.options.separation.regions())
            + u64::from(self.journal.is_some())
            + u64::from(self.leveling.is_some());
        ReservedPages {
            open: open * superblock,
            cleaning: self.free_min as u64 * superblock,
            map: self.map.len() as u64 - self.block.sectors,
            journal: self.journal.as_ref().map_or(0, |journal| journal.good_blocks(&self.flash) * block),
        }
    }
}

/// Physical pages that are neither the host's nor spare, by purpose. Open superblocks also hold
/// pages of the host and the map while they are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservedPages {
    /// Open superblocks: one per region, one for map pages if there is a journal, one for cold data
    /// if wear is levelled.
    pub open: u64,
    /// Superblocks kept free for cleaning.
    pub cleaning: u64,
    /// Map pages on flash.
    pub map: u64,
    /// Journal blocks.
    pub journal: u64,
}

impl ReservedPages {
    /// The total of all purposes.
    pub const fn sum(&self) -> u64 {
        self.open + self.cleaning + self.map + self.journal
    }
}

impl<F> PageMapFtl<F> {
    /// Records the host's waits, and the work done in idle time.
    fn collect_waits(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let stalls = self.stalls();
        for (name, value) in [
            ("ftl_checkpoints", self.counters.checkpoints),
            ("ftl_buffer_wait_ns", self.counters.buffer_wait.0),
            ("ftl_stalls_by_erases", stalls.erases.count),
            ("ftl_stalls_by_erases_ns", stalls.erases.total.0),
            ("ftl_stalls_by_cleaning", stalls.cleaning.count),
            ("ftl_stalls_by_cleaning_ns", stalls.cleaning.total.0),
            ("ftl_stalled_ns", stalls.stalled.0),
            ("ftl_checkpoint_stalls", stalls.checkpoints.count),
            ("ftl_checkpoint_stalls_ns", stalls.checkpoints.total.0),
        ] {
            sink(name, StatisticValue::Count(value));
        }
        let by_length = stalls.by_length.iter().map(|count| *count as f64).collect();
        sink("ftl_stalls_by_log2_us", StatisticValue::Series(by_length));
        // The longest over all phases, because maxima cannot be subtracted.
        for (name, longest) in [
            ("ftl_stall_by_erases_longest_since_format_ns", stalls.erases.longest),
            ("ftl_stall_by_cleaning_longest_since_format_ns", stalls.cleaning.longest),
            ("ftl_checkpoint_stall_longest_since_format_ns", stalls.checkpoints.longest),
        ] {
            sink(name, StatisticValue::Level(longest.0 as f64));
        }
        let Some(idle) = self.idle_counters() else { return };
        for (name, value) in [
            ("ftl_idle_cleanings", idle.cleanings),
            ("ftl_idle_moves", idle.moves),
            ("ftl_idle_checkpoints", idle.checkpoints),
            ("ftl_idle_work_ns", idle.worked.0),
            ("ftl_idle_overruns", idle.overruns.count),
            ("ftl_idle_overruns_ns", idle.overruns.total.0),
        ] {
            sink(name, StatisticValue::Count(value));
        }
        let longest = idle.overruns.longest.0 as f64;
        sink("ftl_idle_overrun_longest_since_format_ns", StatisticValue::Level(longest));
    }
}

impl<F: Flash> Statistics for PageMapFtl<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let counters = &self.counters;
        for (name, value) in [
            ("ftl_host_page_writes", counters.host_page_writes),
            ("ftl_pages_copied", counters.copied_pages),
            ("ftl_pages_filled", counters.filled_pages),
            ("ftl_cleanings", counters.cleanings),
            ("ftl_erases", counters.erases),
            ("ftl_trimmed_pages", counters.trimmed_pages),
            ("ftl_program_failures", counters.program_failures),
            ("ftl_erase_failures", counters.erase_failures),
            ("ftl_retired_blocks", counters.retired_blocks),
            ("ftl_lost_pages", counters.lost_pages),
            ("ftl_refreshed_by_reads", self.refreshed.by_reads),
            ("ftl_refreshed_by_age", self.refreshed.by_age),
            ("ftl_leveled_superblocks", self.leveled_superblocks()),
            ("ftl_absorbed_pages", counters.absorbed_pages),
            ("ftl_map_pages_written", counters.map_pages),
            ("ftl_journal_pages_written", counters.journal_pages),
            ("ftl_journal_snapshots", counters.snapshots),
            ("ftl_remaps", counters.remaps),
            ("ftl_remapped_pages", counters.remapped_pages),
            ("ftl_remap_ns", counters.remap_time.0),
            ("ftl_remap_fold_ns", counters.remap_fold_time.0),
        ] {
            sink(name, StatisticValue::Count(value));
        }
        self.collect_waits(sink);
        if let Some(mapping) = self.mapping_counters() {
            for (name, value) in [
                ("ftl_mapping_hits", mapping.hits),
                ("ftl_mapping_misses", mapping.misses),
                ("ftl_mapping_evictions_clean", mapping.evictions_clean),
                ("ftl_mapping_evictions_dirty", mapping.evictions_dirty),
                ("ftl_mapping_pages_read", mapping.pages_read),
                ("ftl_mapping_pages_read_for_cleaning", mapping.pages_read_for_cleaning),
                ("ftl_mapping_pages_written", mapping.pages_written),
                ("ftl_mapping_unreadable", mapping.unreadable),
            ] {
                sink(name, StatisticValue::Count(value));
            }
        }
        if let Some(mapping) = &self.mapping {
            sink("ftl_mapping_cached_pages_max", StatisticValue::Level(mapping.lock().frames() as f64));
        }
        if let Some(journal) = &self.journal {
            sink("ftl_remap_aliases", StatisticValue::Level(self.aliases.len() as f64));
            sink("ftl_remap_aliases_max", StatisticValue::Level(f64::from(journal.aliases_max)));
        }
        let recovery = self.recovery();
        if recovery.pages_read > 0 {
            for (name, value) in [
                ("ftl_recovery_ns", recovery.took.0),
                ("ftl_recovery_pages_read", recovery.pages_read),
                ("ftl_recovery_replayed", recovery.replayed),
            ] {
                sink(name, StatisticValue::Level(value as f64));
            }
        }
        let (physical, user) = self.physical_and_user_pages();
        let reserved = self.reserved_pages();
        let superblock = self.superblocks.slots();
        for (name, value) in [
            ("ftl_physical_pages", physical as f64),
            ("ftl_user_pages", user as f64),
            ("ftl_spare", (physical as f64 - user as f64) / user as f64),
            ("ftl_superblock_pages", f64::from(superblock)),
            ("ftl_reserved_pages", reserved.sum() as f64),
            ("ftl_reserved_for_open", reserved.open as f64),
            ("ftl_reserved_for_cleaning", reserved.cleaning as f64),
            ("ftl_reserved_for_map", reserved.map as f64),
            ("ftl_reserved_for_journal", reserved.journal as f64),
            // A value that does not exist before the first write is NaN, and left out of the
            // record.
            ("ftl_waf_since_format", counters.waf().unwrap_or(f64::NAN)),
        ] {
            sink(name, StatisticValue::Level(value));
        }
    }
}
