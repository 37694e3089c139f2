//! What a page-mapped device is like.

use nandkit_cleaning::allocation::AllocationRule;
use nandkit_cleaning::victim::Rule;

/// How much flash there is beside what the host sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spare {
    /// (physical - user) / user, exactly: physical are all pages of all superblocks, open and reserved ones included. User pages are rounded down to whole ones.
    Ratio(f64),
    /// So many bytes for the host, rounded down to whole pages.
    Capacity(u64),
}

/// Where host writes and copies go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Frontiers {
    /// Copies are gathered in superblocks of their own: data that have survived a cleaning are colder than what the host writes. The default.
    #[default]
    Apart,
    /// Into one superblock, in the order in which they come: what closed forms without separation assume.
    Shared,
}

/// How a [`PageMapFtl`](super::PageMapFtl) is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageMapOptions {
    /// The over-provisioning. The default is 7 %: drives that sell a binary gigabyte as a decimal one.
    pub spare: Spare,
    /// Which superblock is cleaned next.
    pub victim: Rule,
    /// Where host writes and copies go.
    pub frontiers: Frontiers,
    /// Which free superblock is used next.
    pub allocation: AllocationRule,
    /// Blocks of a superblock, each on another die: a power of two up to the number of dies. 0: all dies, as far as they are a power of two.
    pub stripe: u32,
    /// Decides what the victim rule draws.
    pub seed: u64,
}

impl Default for PageMapOptions {
    fn default() -> Self {
        Self {
            spare: Spare::Ratio(0.07),
            victim: Rule::Greedy,
            frontiers: Frontiers::Apart,
            allocation: AllocationRule::LeastErased,
            stripe: 0,
            seed: 0,
        }
    }
}
