//! Opening and closing.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use nandkit_block::{BlockError, Operation};
use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Content, Context, Done, Lba};

use super::map::Map;
use super::{BlockMapFtl, BlockMapOptions};
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::{Failure, Outcome};
use crate::host::flush_chain;
use crate::shape::Shape;
use crate::statistics::{AttachReport, FtlCounters};
use crate::tag::Role;

/// What the block field of opening and closing records says: this layer wrote the chip.
pub(super) const LAYER: u32 = 1;

impl<F: Flash> BlockMapFtl<F> {
    /// Opens what is on the chip; an empty chip is an empty device. After a power cut this recovers, which changes the flash.
    ///
    /// Errors: `Corrupt` (options or content do not fit the chip: the message says what would), `Full` (too few good blocks), `PowerLost`,
    /// `Io`. `flash` may be a `&mut`, to have it back after an error. The time that it took is in [`BlockMapFtl::attach_report`].
    pub fn attach(flash: F, options: BlockMapOptions) -> Result<Self, BlockError> {
        Self::attach_at(flash, options, &Context::default())
    }

    /// The same at an instant. All operations count under the cause `Recovery`.
    pub fn attach_at(flash: F, options: BlockMapOptions, context: &Context) -> Result<Self, BlockError> {
        Self::open(flash, options, &mut Chain::all_for(context, Cause::Recovery))
            .map_err(|failure| failure.at(Operation::Open, Lba(0)))
    }

    /// Erases everything that the chip holds and opens it as an empty device. The erases count under the cause `Format`.
    pub fn format_at(mut flash: F, options: BlockMapOptions, context: &Context) -> Result<Self, BlockError> {
        let mut chain = Chain::all_for(context, Cause::Format);
        Shape::new(&flash, options.capacity, options.sector_size, options.working_blocks())
            .and_then(|_| crate::base::erase_all(&mut flash, &mut chain))
            .and_then(|()| Self::open(flash, options, &mut chain))
            .map_err(|failure| failure.at(Operation::Open, Lba(0)))
    }

    fn open(flash: F, options: BlockMapOptions, chain: &mut Chain) -> Outcome<Self> {
        if options.log_blocks == 0 || options.log_blocks > u32::from(u16::MAX) - 1 {
            return Err(Failure::Unfit(format!("{} log blocks: expected 1 to 65534", options.log_blocks)));
        }
        let shape = Shape::new(&flash, options.capacity, options.sector_size, options.working_blocks())?;
        let good = (0..shape.blocks).filter(|block| !flash.is_bad(BlockIndex(*block))).count() as u32;
        // With too few good blocks left the device goes on with fewer logs, down to none, when it can only be read.
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
            read_modify: Content::new(),
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

    /// Writes the record of an orderly end, so that the next attach need not recover, and gives the flash back.
    pub fn close(mut self, context: &Context) -> Result<(F, Done), BlockError> {
        let mut chain = self.base.begin(context);
        flush_chain(&mut self, &mut chain)
            .and_then(|()| self.base.append_record(&mut chain, Cause::Mapping, Role::Close, LAYER))
            .map_err(|failure| failure.at(Operation::Flush, Lba(0)))?;
        Ok((self.base.flash, chain.done()))
    }
}
