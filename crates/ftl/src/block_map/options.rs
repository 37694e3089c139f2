//! Options of the block-mapped layer.

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::log_victim::VictimRule;
use nandkit_cleaning::recycling::{Costs, RecyclingPolicy};

use crate::shape::LogicalCapacity;

/// Options of [`super::BlockMapFtl`].
#[derive(Clone, Debug, PartialEq)]
pub struct BlockMapOptions {
    /// The part of the chip that the host sees.
    pub capacity: LogicalCapacity,
    /// Sector size in bytes, from 512 to the page size; 0 means the page size. Writing a part of a
    /// page reads the rest first. A chip that stores no bytes (a shadow store) performs the same
    /// operations, but nothing can be read back, whatever the sector size.
    pub sector_size: u32,
    /// The number of log blocks, at least 1. P4 uses 8.
    pub log_blocks: u32,
    /// When to merge and when to migrate.
    pub policy: RecyclingPolicy,
    /// The costs that the policy assumes; `None` measures erases and copies at run time (and uses
    /// P4's ratio until then).
    pub costs: Option<Costs>,
    /// Whether a log block that holds the beginning of its data block in order may be filled up to
    /// become the data block. P4 does not do this.
    pub partial_merge: bool,
    /// Map pages written by each recycling. P4 writes 1.
    pub map_pages_per_recycling: u32,
    /// Which log block is recycled when another logical block needs one.
    pub victim: VictimRule,
    /// Which free block is used next.
    pub allocation: AllocationRule,
    /// Whether to copy pages with the chip's copyback where possible.
    pub copyback: bool,
    /// Threshold of static wear levelling: if a data block has been erased this many times less
    /// often than the most-erased block, a merge moves its content to a worn block. `None` disables
    /// it (as in P4).
    pub wear_threshold: Option<u32>,
    /// Most recyclings in the event log; 0 disables it. Later recyclings are dropped.
    pub events: usize,
}

impl Default for BlockMapOptions {
    fn default() -> Self {
        Self {
            capacity: LogicalCapacity::default(),
            sector_size: 0,
            log_blocks: 8,
            policy: RecyclingPolicy::default(),
            costs: None,
            partial_merge: false,
            map_pages_per_recycling: 1,
            victim: VictimRule::default(),
            allocation: AllocationRule::default(),
            copyback: true,
            wear_threshold: None,
            events: 0,
        }
    }
}

impl BlockMapOptions {
    /// Blocks needed in addition to data blocks: the log blocks, a target, the map block and its
    /// successor, and one that an interrupted recovery left unfinished (rule 20).
    ///
    /// Also returns the most pages that the map supports: one bit each, 512 MiB.
    pub(crate) fn needs(&self) -> (u32, u32) {
        (self.log_blocks.saturating_add(4), u32::MAX)
    }
}
