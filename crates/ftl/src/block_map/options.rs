//! What can be chosen.

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::log_victim::VictimRule;
use nandkit_cleaning::recycling::{Costs, RecyclingPolicy};

use crate::shape::LogicalCapacity;

/// Options of [`super::BlockMapFtl`].
#[derive(Clone, Debug, PartialEq)]
pub struct BlockMapOptions {
    /// How much of the chip the host sees.
    pub capacity: LogicalCapacity,
    /// Bytes of a sector, 512 to the page size; 0 stands for the page size. Writes of a part of a
    /// page read the rest first. On a chip that keeps no bytes (a shadow store) the same operations
    /// take place, and nothing can be read back, whatever the sector size.
    pub sector_size: u32,
    /// Log blocks, at least 1. P4 has 8.
    pub log_blocks: u32,
    /// Merge or migrate.
    pub policy: RecyclingPolicy,
    /// What the policy reckons with; `None` measures erases and copies on line (P4's ratio until
    /// then).
    pub costs: Option<Costs>,
    /// Whether a log block that holds the beginning of its data block in order may be filled up and
    /// become the data block. P4 does without.
    pub partial_merge: bool,
    /// Map pages written by each recycling. P4 has 1.
    pub map_pages_per_recycling: u32,
    /// Which log block goes when another logical block needs one.
    pub victim: VictimRule,
    /// Which free block is used next.
    pub allocation: AllocationRule,
    /// Whether pages are copied inside the chip where it can.
    pub copyback: bool,
    /// Static wear levelling: when a data block has been erased so many times less than the most
    /// erased block, a merge moves its content to a worn block. `None`: never (P4).
    pub wear_threshold: Option<u32>,
    /// How many recyclings the event log keeps; 0 for none. Later ones are dropped.
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
    /// Blocks needed beside those of data: the logs, a target, the map's block and its next one,
    /// and one that a recovery cut off before has left unfinished (rule 20).
    ///
    /// And the pages that the map can be made for: a bit each, 512 MiB.
    pub(crate) fn needs(&self) -> (u32, u32) {
        (self.log_blocks.saturating_add(4), u32::MAX)
    }
}
