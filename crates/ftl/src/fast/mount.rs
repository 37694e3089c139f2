//! Options, opening and closing.

use std::sync::atomic::AtomicU64;

use nandkit_block::{BlockError, Operation};
use nandkit_cleaning::allocation::AllocationRule;
use nandkit_flash::Flash;
use nandkit_units::{Cause, Content, Context, Done, Lba};

use super::FastFtl;
use super::state::State;
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::{Failure, Outcome};
use crate::host::flush_chain;
use crate::shape::{LogicalCapacity, Shape};
use crate::statistics::{AttachReport, FtlCounters};
use crate::tag::Role;

/// What the block field of opening and closing records says: this layer wrote the chip.
pub(super) const LAYER: u32 = 2;

/// Options of [`FastFtl`]. Those that it shares with the block-mapped layer mean the same.
#[derive(Clone, Debug, PartialEq)]
pub struct FastOptions {
    /// How much of the chip the host sees.
    pub capacity: LogicalCapacity,
    /// Bytes of a sector, 512 to the page size; 0 stands for the page size.
    pub sector_size: u32,
    /// Random log blocks (RW), at least 1; the sequential one comes on top.
    pub log_blocks: u32,
    /// Map pages written by each merge of a logical block.
    pub map_pages_per_recycling: u32,
    /// Which free block is used next.
    pub allocation: AllocationRule,
    /// Whether pages are copied inside the chip where it can.
    pub copyback: bool,
}

impl Default for FastOptions {
    fn default() -> Self {
        Self {
            capacity: LogicalCapacity::default(),
            sector_size: 0,
            log_blocks: 7,
            map_pages_per_recycling: 1,
            allocation: AllocationRule::default(),
            copyback: true,
        }
    }
}

impl FastOptions {
    /// Blocks needed beside those of data: the logs of both kinds, and what rule 20 counts beside them.
    fn working_blocks(&self) -> u32 {
        self.log_blocks.saturating_add(5)
    }
}

impl<F: Flash> FastFtl<F> {
    /// Opens what is on the chip; an empty chip is an empty device. Merges whatever the logs hold. Errors: as for
    /// [`crate::BlockMapFtl::attach`].
    pub fn attach(flash: F, options: FastOptions) -> Result<Self, BlockError> {
        Self::attach_at(flash, options, &Context::default())
    }

    /// The same at an instant. All operations count under the cause `Recovery`.
    pub fn attach_at(flash: F, options: FastOptions, context: &Context) -> Result<Self, BlockError> {
        Self::open(flash, options, &mut Chain::all_for(context, Cause::Recovery))
            .map_err(|failure| failure.at(Operation::Open, Lba(0)))
    }

    /// Erases everything that the chip holds and opens it as an empty device. The erases count under the cause `Format`.
    pub fn format_at(mut flash: F, options: FastOptions, context: &Context) -> Result<Self, BlockError> {
        let mut chain = Chain::all_for(context, Cause::Format);
        Shape::new(&flash, options.capacity, options.sector_size, options.working_blocks())
            .and_then(|_| crate::base::erase_all(&mut flash, &mut chain))
            .and_then(|()| Self::open(flash, options, &mut chain))
            .map_err(|failure| failure.at(Operation::Open, Lba(0)))
    }

    fn open(flash: F, options: FastOptions, chain: &mut Chain) -> Outcome<Self> {
        if options.log_blocks == 0 {
            return Err(Failure::Unfit("0 random log blocks: expected at least 1".into()));
        }
        let shape = Shape::new(&flash, options.capacity, options.sector_size, options.working_blocks())?;
        if u64::from(shape.lbns) * u64::from(shape.np) > u64::from(u32::MAX) {
            return Err(Failure::Unfit("FAST maps at most 2^32 - 1 pages: expected a smaller capacity".into()));
        }
        let mut ftl = Self {
            base: Base::new(flash, shape, options.allocation, options.copyback),
            state: State::new(shape.lbns, shape.np),
            unsaved: Default::default(),
            counters: FtlCounters::default(),
            host_reads: AtomicU64::new(0),
            report: AttachReport::default(),
            read_modify: Content::new(),
            options,
        };
        ftl.recover(chain)?;
        ftl.base.counters = Default::default();
        ftl.counters = FtlCounters::default();
        ftl.base.end(chain);
        ftl.report.done = chain.done();
        Ok(ftl)
    }

    /// Writes the record of an orderly end and gives the flash back.
    pub fn close(mut self, context: &Context) -> Result<(F, Done), BlockError> {
        let mut chain = self.base.begin(context);
        flush_chain(&mut self, &mut chain)
            .and_then(|()| self.base.append_record(&mut chain, Cause::Mapping, Role::Close, LAYER))
            .map_err(|failure| failure.at(Operation::Flush, Lba(0)))?;
        Ok((self.base.flash, chain.done()))
    }
}
