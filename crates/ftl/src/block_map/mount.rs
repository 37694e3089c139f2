//! Attaching and closing.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use nandkit_flash::Flash;
use nandkit_units::BlockIndex;

use super::map::Map;
use super::{BlockMapFtl, BlockMapOptions};
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::shape::Shape;
use crate::statistics::{AttachReport, FtlCounters};

/// The number of this layer in the block field of opening and closing records.
pub(super) const LAYER: u32 = 1;

impl<F: Flash> BlockMapFtl<F> {
    /// Attaches as part of `chain`, whose cause applies to all operations.
    pub(super) fn open(flash: F, options: BlockMapOptions, chain: &mut Chain) -> LayerResult<Self> {
        if options.log_blocks == 0 || options.log_blocks > u32::from(u16::MAX) - 1 {
            return Err(Failure::unfit(format!("{} log blocks: expected 1 to 65534", options.log_blocks)));
        }
        let shape = Shape::new(&flash, options.capacity, options.sector_size, options.needs())?;
        // Each page of a log block has an entry of two bytes: at most 512 MiB.
        if u64::from(options.log_blocks) * u64::from(shape.np) > 1 << 28 {
            let detail =
                format!("{} log blocks of {} pages: expected at most 2^28 pages", options.log_blocks, shape.np);
            return Err(Failure::unfit(detail));
        }
        let good = (0..shape.blocks).filter(|block| !flash.is_bad(BlockIndex(*block))).count() as u32;
        // With too few good blocks, the device continues with fewer log blocks; with none, it is
        // read-only.
        let log_limit = options.log_blocks.min(good.saturating_sub(shape.lbns + 4));
        let mut ftl = Self {
            base: Base::new(flash, shape, options.allocation, options.copyback),
            map: Map::new(0, shape.np, 0),
            log_limit: log_limit as usize,
            poisoned: BTreeSet::new(),
            unsaved: Default::default(),
            counters: FtlCounters::default(),
            host_reads: AtomicU64::new(0),
            histogram: vec![0; shape.np as usize + 1],
            events: Vec::with_capacity(options.events.min(1 << 16)),
            stamp: 0,
            victim_cursor: 0,
            next_wear_check: 0,
            report: AttachReport::default(),
            new_table: vec![0; shape.np as usize],
            options,
        };
        ftl.recover(chain)?;
        ftl.base.counters = Default::default();
        ftl.counters = FtlCounters::default();
        ftl.histogram.fill(0);
        ftl.events.clear();
        ftl.base.end(chain);
        ftl.report.done = chain.done();
        Ok(ftl)
    }
}
