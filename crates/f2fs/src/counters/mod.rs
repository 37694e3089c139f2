//! Counters of writes, moves and checkpoints, for records.

mod definitions;

use std::sync::{Arc, Mutex, PoisonError};

use nandkit_units::{Nanos, StatisticDefinition, StatisticValue, Statistics};

use crate::clean::Collection;
use crate::clean::collect::CollectedSection;
use crate::clean::review::Reuse;
use crate::ids::Log;
use crate::over_time::{OverTime, Sample};
use crate::segments::{Segments, Usage, Way};

/// Histogram classes of valid blocks per segment.
const CLASSES: usize = 16;

/// Why a checkpoint is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Changes are to become durable; without changes no checkpoint is made.
    Sync,
    /// Segments are to become free, or a recovery has ended.
    Forced,
    /// The volume is unmounted.
    Unmount,
}

/// The results of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Nameless inodes that were freed.
    pub orphans: u64,
    /// Files recovered.
    pub files: u64,
    /// Files of these that were created anew.
    pub created: u64,
    /// Nodes in the chain.
    pub nodes: u64,
}

/// Counters of one kind of collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collections {
    /// Sections collected.
    pub sections: u64,
    /// Sections of these that were empty afterwards.
    pub emptied: u64,
    /// Data blocks moved.
    pub data: u64,
    /// Nodes moved.
    pub nodes: u64,
}

/// Blocks written outside the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataBlocks {
    /// SIT, NAT and SSA blocks.
    pub tables: [u64; 3],
    /// Blocks of checkpoint packs.
    pub packs: u64,
}

/// Counters since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Checkpoints made on request, and the one at unmount.
    pub checkpoints_asked: u64,
    /// Checkpoints made for free segments, or at the end of a recovery.
    pub checkpoints_forced: u64,
    /// Collections that an operation waited for.
    pub foreground: Collections,
    /// Collections in idle time.
    pub background: Collections,
    /// Blocks outside the main area.
    pub metadata: MetadataBlocks,
    /// Segments treated before their gaps were filled.
    pub treated_segments: u64,
    /// Blocks that treatments moved to the cold log, and within their segment.
    pub treated_blocks: [u64; 2],
    /// Data blocks that the device remapped for collections and treatments.
    pub remapped: u64,
    /// Windows of files that were gathered, and their blocks: remapped and copied.
    pub gathered: [u64; 3],
}

impl Counters {
    pub(crate) fn checkpoint(&mut self, reason: Reason) {
        match reason {
            Reason::Sync | Reason::Unmount => self.checkpoints_asked += 1,
            Reason::Forced => self.checkpoints_forced += 1,
        }
    }

    pub(crate) fn collected(&mut self, why: Collection, outcome: &CollectedSection) {
        let of = match why {
            Collection::Foreground => &mut self.foreground,
            Collection::Background => &mut self.background,
        };
        of.sections += 1;
        of.emptied += u64::from(outcome.emptied);
        of.data += u64::from(outcome.data);
        of.nodes += u64::from(outcome.nodes);
        self.remapped += outcome.mapped.len() as u64;
    }

    pub(crate) fn treated(&mut self, reuse: &Reuse) {
        self.treated_segments += u64::from(reuse.treated.is_some());
        self.treated_blocks[0] += u64::from(reuse.inter);
        self.treated_blocks[1] += u64::from(reuse.intra);
        self.remapped += reuse.mapped.len() as u64;
    }

    /// Adds gathered windows, remapped pages and copied pages.
    pub(crate) fn gathered(&mut self, counts: [u32; 3]) {
        for (count, more) in self.gathered.iter_mut().zip(counts) {
            *count += u64::from(more);
        }
    }

    /// Data blocks that collections and treatments moved by reading and writing them.
    pub fn copied(&self) -> u64 {
        let moved = self.foreground.data + self.background.data + self.treated_blocks.iter().sum::<u64>();
        moved.saturating_sub(self.remapped)
    }
}

#[derive(Debug, Default)]
struct Shown {
    counters: Counters,
    usage: Usage,
    present: Sample,
    histogram: Vec<u32>,
    over_time: OverTime,
}

/// The counters as of the last write-back, checkpoint or collection, for concurrent readers.
#[derive(Clone, Debug, Default)]
pub struct Published(Arc<Mutex<Shown>>);

impl Published {
    /// Publishes the current state. Cost: a lock and a copy of a few hundred bytes.
    pub fn show(&self, now: Nanos, counters: &Counters, segments: &Segments) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (shown.counters, shown.usage) = (*counters, *segments.usage());
        shown.present = Sample { at: now, states: segments.states(), valid_blocks: segments.space.valid_blocks };
    }

    /// Publishes the state after a checkpoint and takes a sample over time. Cost: also a pass over
    /// the segments.
    pub fn show_checkpoint(&self, now: Nanos, counters: &Counters, segments: &Segments) {
        self.show(now, counters, segments);
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.histogram = segments.histogram(CLASSES);
        let present = shown.present;
        shown.over_time.add(present);
    }
}

/// Names of the blocks of each log by way, in the order of [`Log::ALL`] and [`Way::ALL`].
const BY_LOG: [[&str; Way::COUNT]; Log::COUNT] = [
    ["hot_data_lfs_blocks", "hot_data_ssr_blocks", "hot_data_claimed_blocks", "hot_data_in_place_blocks"],
    ["warm_data_lfs_blocks", "warm_data_ssr_blocks", "warm_data_claimed_blocks", "warm_data_in_place_blocks"],
    ["cold_data_lfs_blocks", "cold_data_ssr_blocks", "cold_data_claimed_blocks", "cold_data_in_place_blocks"],
    ["hot_node_lfs_blocks", "hot_node_ssr_blocks", "hot_node_claimed_blocks", "hot_node_in_place_blocks"],
    ["warm_node_lfs_blocks", "warm_node_ssr_blocks", "warm_node_claimed_blocks", "warm_node_in_place_blocks"],
    ["cold_node_lfs_blocks", "cold_node_ssr_blocks", "cold_node_claimed_blocks", "cold_node_in_place_blocks"],
];

impl Statistics for Published {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &shown.counters;
        let (foreground, background) = (&all.foreground, &all.background);
        let taken = |of: fn(&Usage, Log) -> u64| Log::ALL.iter().map(|&log| of(&shown.usage, log)).sum::<u64>();
        let counts = [
            ("checkpoints_asked", all.checkpoints_asked),
            ("checkpoints_forced", all.checkpoints_forced),
            ("foreground_sections", foreground.sections),
            ("foreground_emptied_sections", foreground.emptied),
            ("foreground_moved_data_blocks", foreground.data),
            ("foreground_moved_node_blocks", foreground.nodes),
            ("background_sections", background.sections),
            ("background_emptied_sections", background.emptied),
            ("background_moved_data_blocks", background.data),
            ("background_moved_node_blocks", background.nodes),
            ("treated_segments", all.treated_segments),
            ("treated_blocks_to_cold_log", all.treated_blocks[0]),
            ("treated_blocks_within_segment", all.treated_blocks[1]),
            ("moved_by_remap_blocks", all.remapped),
            ("moved_by_copy_blocks", all.copied()),
            ("gathered_windows", all.gathered[0]),
            ("gathered_by_remap_blocks", all.gathered[1]),
            ("gathered_by_copy_blocks", all.gathered[2]),
            ("sit_blocks", all.metadata.tables[0]),
            ("nat_blocks", all.metadata.tables[1]),
            ("ssa_blocks", all.metadata.tables[2]),
            ("pack_blocks", all.metadata.packs),
            ("metadata_area_blocks", all.metadata.tables.iter().sum::<u64>() + all.metadata.packs),
            ("main_area_blocks", written_blocks(&shown.usage)),
            ("empty_segments_taken", taken(Usage::free_segments_taken)),
            ("used_segments_taken", taken(Usage::used_segments_taken)),
        ];
        for (name, count) in counts {
            sink(name, StatisticValue::Count(count));
        }
        for (log, names) in Log::ALL.iter().zip(BY_LOG) {
            for (way, name) in Way::ALL.iter().zip(names) {
                sink(name, StatisticValue::Count(shown.usage.blocks(*log, *way)));
            }
        }
        collect_levels(&shown, sink);
    }

    fn definitions() -> Vec<StatisticDefinition> {
        definitions::definitions()
    }
}

/// Blocks of the main area that received content, by writes or remaps. The blocks of a draft count
/// again when its commit moves them.
fn written_blocks(usage: &Usage) -> u64 {
    Log::ALL.iter().flat_map(|&log| Way::ALL.map(|way| usage.blocks(log, way))).sum()
}

/// A function of a sample.
type OfSample = fn(&Sample) -> f64;

/// Values over time: name, and the function that takes it from a sample.
const OVER_TIME: [(&str, OfSample); 6] = [
    ("over_time_ns", |sample| sample.at.0 as f64),
    ("free_segments_over_time", |sample| f64::from(sample.states.free)),
    ("prefree_segments_over_time", |sample| f64::from(sample.states.prefree)),
    ("dirty_segments_over_time", |sample| f64::from(sample.states.dirty.iter().sum::<u32>())),
    ("full_segments_over_time", |sample| f64::from(sample.states.full)),
    ("valid_blocks_over_time", |sample| sample.valid_blocks as f64),
];

fn collect_levels(shown: &Shown, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
    let states = &shown.present.states;
    let levels = [
        ("free_segments", states.free),
        ("prefree_segments", states.prefree),
        ("dirty_segments", states.dirty.iter().sum()),
        ("full_segments", states.full),
        ("log_segments", states.current),
        ("prepared_segments", states.prepared),
    ];
    for (name, level) in levels {
        sink(name, StatisticValue::Level(f64::from(level)));
    }
    sink("valid_blocks", StatisticValue::Level(shown.present.valid_blocks as f64));
    for (class, name) in HISTOGRAM.iter().enumerate() {
        sink(name, StatisticValue::Level(f64::from(shown.histogram.get(class).copied().unwrap_or(0))));
    }
    for (name, of) in OVER_TIME {
        sink(name, StatisticValue::Events(shown.over_time.values(shown.present, of)));
    }
}

/// Names of the classes of segments by valid blocks: from 1 block on, in steps of 32.
const HISTOGRAM: [&str; CLASSES] = [
    "segments_of_1_to_31_blocks",
    "segments_of_32_to_63_blocks",
    "segments_of_64_to_95_blocks",
    "segments_of_96_to_127_blocks",
    "segments_of_128_to_159_blocks",
    "segments_of_160_to_191_blocks",
    "segments_of_192_to_223_blocks",
    "segments_of_224_to_255_blocks",
    "segments_of_256_to_287_blocks",
    "segments_of_288_to_319_blocks",
    "segments_of_320_to_351_blocks",
    "segments_of_352_to_383_blocks",
    "segments_of_384_to_415_blocks",
    "segments_of_416_to_447_blocks",
    "segments_of_448_to_479_blocks",
    "segments_of_480_to_512_blocks",
];
