//! FAST: log blocks that all data blocks share (Lee, Park, Chung, Lee, Park, Song: "A log
//! buffer-based flash translation layer using fully-associative sector translation", ACM TECS 6(3),
//! 2007).
//!
//! One log block receives a sequential stream of one logical block (SW); the others (RW) receive
//! all other pages in order of arrival. When the ring of RW blocks is full, its oldest block is
//! reclaimed by merging every logical block with a current page in it.
//!
//! Decisions where the paper leaves room:
//!
//! * A page whose position in the data block is the next free one is written in place.
//! * A write that breaks the sequential stream first fills up the SW block (partial merge), and
//!   then goes to the RW log.
//! * A full SW block becomes the data block at once.
//! * Every attach merges whatever the logs hold, and does not resume writing in place in any block.

mod device;
mod mount;
mod recover;
mod state;
mod write;

pub use mount::FastOptions;

use std::sync::atomic::AtomicU64;

use nandkit_flash::Flash;
use nandkit_units::{StatisticValue, Statistics};

use crate::base::Base;
use crate::host::UnsavedTrims;
use crate::statistics::{AttachReport, FtlCounters};
use state::State;

/// The FAST translation layer over `F`. See the [module](self) for its operation.
///
/// Durability and trims are as in [`crate::BlockMapFtl`].
pub struct FastFtl<F> {
    base: Base<F>,
    options: FastOptions,
    state: State,
    unsaved: UnsavedTrims,
    counters: FtlCounters,
    host_reads: AtomicU64,
    report: AttachReport,
}

impl<F: Flash> Statistics for FastFtl<F> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counters().collect(sink);
        sink("ftl_host_page_reads", StatisticValue::Count(self.host_page_reads()));
        sink("ftl_free_blocks", StatisticValue::Level(self.base.pool.len() as f64));
    }
}
