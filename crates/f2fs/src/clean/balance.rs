//! Decides when an operation has to wait for a checkpoint or a collection (segment.h,
//! `has_not_enough_free_secs`; segment.c, `f2fs_balance_fs`; gc.c, `f2fs_gc`), and when idle time
//! is used (gc.h).

use crate::ids::Log;
use crate::segments::Segments;

/// What an operation that dirties pages must do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// Make a checkpoint, which frees segments.
    Checkpoint,
    /// Collect a section, then ask again.
    Collect,
}

/// Sections that all dirty pages in memory may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    low: u64,
    high: u64,
    nodes_rest: u64,
    dentries_rest: u64,
    data_rest: u64,
}

fn demand(segments: &Segments) -> Demand {
    let (pages, per) = (&segments.pages, u64::from(segments.section_blocks()));
    let nodes = pages.nodes + pages.dentries + pages.inodes;
    let data = if segments.options.lfs { pages.data } else { 0 };
    let low = nodes / per + pages.dentries / per + data / per;
    let (nodes_rest, dentries_rest, data_rest) = (nodes % per, pages.dentries % per, data % per);
    let rests = u64::from(nodes_rest > 0) + u64::from(dentries_rest > 0) + u64::from(data_rest > 0);
    Demand { low, high: low + rests, nodes_rest, dentries_rest, data_rest }
}

/// Whether the free sections, together with `freed` more that the next checkpoint frees, are too
/// few for the dirty pages and the reserve.
pub fn is_short(segments: &Segments, freed: u32) -> bool {
    let demand = demand(segments);
    let free = u64::from(segments.free_map().sections()) + u64::from(freed);
    let reserve = u64::from(segments.options.reserved_sections);
    if free > demand.high + reserve {
        return false;
    }
    free <= demand.low + reserve || !fits_in_logs(segments, &demand)
}

/// An upper bound of the free sections ever needed: all dirty pages plus the reserve.
pub fn most_needed(segments: &Segments) -> u64 {
    demand(segments).high + u64::from(segments.options.reserved_sections)
}

/// Whether partly filled sections fit into the sections that the logs are writing.
fn fits_in_logs(segments: &Segments, demand: &Demand) -> bool {
    let room = |log| u64::from(segments.room_of_log(log));
    let nodes = [Log::HotNode, Log::WarmNode, Log::ColdNode].into_iter().all(|log| demand.nodes_rest <= room(log));
    let data = [Log::HotData, Log::WarmData, Log::ColdData].into_iter().all(|log| demand.data_rest <= room(log));
    nodes && data && demand.dentries_rest <= room(Log::HotData)
}

/// The progress of one foreground collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreground {
    /// Emptied sections that wait for the checkpoint.
    freed: u32,
    began: bool,
}

impl Foreground {
    /// The next step. First a checkpoint, if it frees segments; then sections, until the free and
    /// the emptied ones are enough, with a checkpoint whenever free sections run out; finally the
    /// checkpoint that frees the emptied ones.
    pub fn need(&mut self, segments: &Segments) -> Need {
        let prefree = segments.dirty().prefree().count();
        if !is_short(segments, self.freed) {
            return if self.freed > 0 && is_short(segments, 0) { Need::Checkpoint } else { Need::Nothing };
        }
        let first = !std::mem::replace(&mut self.began, true);
        let scarce = u64::from(segments.free_map().sections()) <= demand(segments).high + 3;
        if prefree > 0 && (first || (scarce && self.freed > 0)) {
            return Need::Checkpoint;
        }
        Need::Collect
    }

    /// Notes that a section was collected; `emptied`: it has no valid block left.
    pub fn collected(&mut self, emptied: bool) {
        self.freed += u32::from(emptied);
    }

    /// Notes that a checkpoint completed: emptied sections now count as free.
    pub fn checkpointed(&mut self) {
        self.freed = 0;
    }
}

/// The sleep times of the background collector, in milliseconds (gc.h, DEF_GC_THREAD_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    sleep_ms: u64,
}

impl Background {
    const LEAST_MS: u64 = 30_000;
    const MOST_MS: u64 = 60_000;
    const NO_VICTIM_MS: u64 = 300_000;
    /// The idle time before it works.
    pub const IDLE_MS: u64 = 5_000;

    /// The state right after a mount.
    pub const fn new() -> Self {
        Self { sleep_ms: Self::LEAST_MS }
    }

    /// The current sleep time.
    pub const fn sleep_ms(&self) -> u64 {
        self.sleep_ms
    }

    /// Sleeps longer because the volume was busy (gc.h, `increase_sleep_time`).
    pub fn was_busy(&mut self) {
        if self.sleep_ms == Self::NO_VICTIM_MS {
            return;
        }
        self.sleep_ms =
            if self.sleep_ms + Self::LEAST_MS > Self::MOST_MS { Self::MOST_MS } else { self.sleep_ms + Self::LEAST_MS };
    }

    /// Adjusts the sleep before work: shorter if much is invalid and little of that is free, else
    /// longer.
    pub fn will_work(&mut self, segments: &Segments) {
        if !Self::is_worth_it(segments) {
            return self.was_busy();
        }
        if self.sleep_ms == Self::NO_VICTIM_MS {
            self.sleep_ms = Self::MOST_MS;
        }
        self.sleep_ms = self.sleep_ms.saturating_sub(Self::LEAST_MS).max(Self::LEAST_MS);
    }

    /// Notes that there was nothing to collect.
    pub fn found_nothing(&mut self) {
        self.sleep_ms = Self::NO_VICTIM_MS;
    }

    /// Whether invalid blocks exceed 40 % of the users', and free blocks beyond over-provisioning
    /// are under 40 % of the invalid ones (gc.h, `has_enough_invalid_blocks`).
    fn is_worth_it(segments: &Segments) -> bool {
        let users = segments.space.user_blocks;
        let valid = segments.sit().total_valid();
        let invalid = users.saturating_sub(valid);
        let all_free = u64::from(segments.free_map().segments()) * u64::from(crate::layout::BLOCKS_PER_SEGMENT);
        let spare =
            (u64::from(segments.sit().segments()) * u64::from(crate::layout::BLOCKS_PER_SEGMENT)).saturating_sub(users);
        let free = all_free.saturating_sub(spare);
        invalid > users / 100 * 40 && free < invalid / 100 * 40
    }
}

impl Default for Background {
    fn default() -> Self {
        Self::new()
    }
}
