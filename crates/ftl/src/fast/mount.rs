//! Options, opening and closing.

use std::sync::atomic::AtomicU64;

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_flash::Flash;

use super::FastFtl;
use super::state::State;
use crate::base::Base;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::shape::{LogicalCapacity, Shape};
use crate::statistics::{AttachReport, FtlCounters};

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
    /// Blocks needed beside those of data: the logs of both kinds, and what rule 20 counts beside
    /// them. The map has an entry of 8 bytes for each page: 2 GiB of address space.
    pub(super) fn needs(&self) -> (u32, u32) {
        (self.log_blocks.saturating_add(5), 1 << 28)
    }
}

impl<F: Flash> FastFtl<F> {
    /// Attaches along `chain`, whose cause all operations count under. Merges whatever the logs
    /// hold.
    pub(super) fn open(flash: F, options: FastOptions, chain: &mut Chain) -> LayerResult<Self> {
        if options.log_blocks == 0 {
            return Err(Failure::unfit("0 random log blocks: expected at least 1"));
        }
        let shape = Shape::new(&flash, options.capacity, options.sector_size, options.needs())?;
        let mut ftl = Self {
            base: Base::new(flash, shape, options.allocation, options.copyback),
            state: State::new(shape.lbns, shape.np),
            unsaved: Default::default(),
            counters: FtlCounters::default(),
            host_reads: AtomicU64::new(0),
            report: AttachReport::default(),
            options,
        };
        ftl.recover(chain)?;
        ftl.base.counters = Default::default();
        ftl.counters = FtlCounters::default();
        ftl.base.end(chain);
        ftl.report.done = chain.done();
        Ok(ftl)
    }
}
