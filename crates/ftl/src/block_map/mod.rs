//! The block-mapped translation layer: one data block per logical block, and log blocks for
//! updates.
//!
//! A write goes to the next free page of its logical block's log block; a logical block without one
//! gets one. A log block that was filled in order becomes the data block at once (swap merge). Any
//! other full log block is recycled at the next write to its logical block: merged or migrated,
//! depending on the policy. If all log blocks are in use, one is merged early to make room.

mod device;
mod map;
mod mount;
mod options;
mod recover;
mod recycle;
mod relocate;
mod write;

pub use options::BlockMapOptions;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use nandkit_cleaning::recycling::{AlphaEstimator, Costs};
use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, StatisticValue, Statistics};

use crate::base::Base;
use crate::host::UnsavedTrims;
use crate::statistics::{AttachReport, FtlCounters, RecyclingEvent};
use map::Map;

/// A block-mapped translation layer over `F`. See the [module](self) for its operation.
///
/// All changes of one request are issued one after another. Every completed write is durable at
/// once. Trims stay in memory at no cost until a `flush` makes them durable; if power fails before
/// that, a trimmed page reads as zeroes or as its last content, never as an older one.
pub struct BlockMapFtl<F> {
    base: Base<F>,
    options: BlockMapOptions,
    map: Map,
    /// Most log blocks in use: fewer than configured if too many blocks have gone bad.
    log_limit: usize,
    /// Logical pages with lost content, as `lbn * Np + offset`.
    poisoned: BTreeSet<u64>,
    unsaved: UnsavedTrims,
    counters: FtlCounters,
    host_reads: AtomicU64,
    histogram: Vec<u64>,
    events: Vec<RecyclingEvent>,
    stamp: u64,
    victim_cursor: usize,
    next_wear_check: u64,
    report: AttachReport,
    new_table: Vec<u16>,
}

impl<F: Flash> BlockMapFtl<F> {
    /// The number of merges and migrations with `p` pages to migrate, for each `p` from 0 to `Np`.
    pub fn recycling_histogram(&self) -> &[u64] {
        &self.histogram
    }

    /// The first recyclings since attaching, up to the configured number.
    pub fn events(&self) -> &[RecyclingEvent] {
        &self.events
    }

    /// `alpha` of the logical block in its current period; `None` if it has no log block, or was
    /// not migrated since its last merge.
    pub fn alpha(&self, lbn: u32, estimator: AlphaEstimator) -> Option<f64> {
        self.map.log(self.map.slot_of(lbn)?)?.history.alpha(estimator)
    }

    /// The data block and the log block of a logical block.
    pub fn blocks_of(&self, lbn: u32) -> (Option<BlockIndex>, Option<BlockIndex>) {
        let log = self.map.slot_of(lbn).and_then(|slot| self.map.log(slot));
        (self.map.data(lbn).map(BlockIndex), log.map(|log| BlockIndex(log.block)))
    }

    /// The costs that the policy currently assumes.
    pub fn costs(&self) -> Costs {
        let pages_per_block = self.base.shape.np;
        match (self.options.costs, self.base.counters.measured_costs()) {
            (Some(costs), _) => Costs { pages_per_block, ..costs },
            (None, Some((copy, erase))) => Costs { erase, copy, map: 0.0, pages_per_block },
            (None, None) => Costs { pages_per_block, ..Costs::P4 },
        }
    }

    #[inline]
    fn page_number(&self, lbn: u32, offset: u32) -> u64 {
        u64::from(lbn) * u64::from(self.base.shape.np) + u64::from(offset)
    }

    #[inline]
    fn is_poisoned(&self, lbn: u32, offset: u32) -> bool {
        !self.poisoned.is_empty() && self.poisoned.contains(&self.page_number(lbn, offset))
    }

    fn set_poisoned(&mut self, lbn: u32, offset: u32, poisoned: bool) {
        let page = self.page_number(lbn, offset);
        if poisoned {
            self.poisoned.insert(page);
        } else if !self.poisoned.is_empty() {
            self.poisoned.remove(&page);
        }
    }
}

impl<F: Flash> Statistics for BlockMapFtl<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counters().collect(sink);
        sink("ftl_host_page_reads", StatisticValue::Count(self.host_page_reads()));
        sink("ftl_free_blocks", StatisticValue::Level(self.base.pool.len() as f64));
        sink("ftl_log_blocks_in_use", StatisticValue::Level(self.map.open_logs() as f64));
        sink("ftl_recyclings_by_p", StatisticValue::Series(self.histogram.iter().map(|n| *n as f64).collect()));
    }
}
