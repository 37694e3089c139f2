//! Options, attaching and closing.

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

/// The number of this layer in the block field of opening and closing records.
pub(super) const LAYER: u32 = 2;

/// Options of [`FastFtl`]. Options shared with the block-mapped layer have the same meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct FastOptions {
    /// The part of the chip that the host sees.
    pub capacity: LogicalCapacity,
    /// Sector size in bytes, from 512 to the page size; 0 means the page size.
    pub sector_size: u32,
    /// The number of random log blocks (RW), at least 1; the sequential one is additional.
    pub log_blocks: u32,
    /// Map pages written by each merge of a logical block.
    pub map_pages_per_recycling: u32,
    /// Which free block is used next.
    pub allocation: AllocationRule,
    /// Whether to copy pages with the chip's copyback where possible.
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
    /// Blocks needed in addition to data blocks: the log blocks of both kinds, and the others that
    /// rule 20 counts. The map has an entry of 8 bytes per page: 2 GiB of address space.
    pub(super) fn needs(&self) -> (u32, u32) {
        (self.log_blocks.saturating_add(5), 1 << 28)
    }
}

impl<F: Flash> FastFtl<F> {
    /// Attaches as part of `chain`, whose cause applies to all operations. Merges whatever the logs
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
