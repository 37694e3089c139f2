//! Counts of PEBs by what they hold.

/// What the PEBs hold, and how often they were erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PebCounts {
    /// All PEBs.
    pub total: u32,
    /// PEBs marked bad.
    pub bad: u32,
    /// PEBs without a header: never used by UBI, or just erased.
    pub erased: u32,
    /// PEBs with an erase counter and nothing else.
    pub free: u32,
    /// PEBs with the current content of a LEB, also of the volume table.
    pub used: u32,
    /// PEBs with content that no longer counts: older copies, fastmaps, removed volumes.
    pub stale: u32,
    /// PEBs with a damaged header, or one that cannot be true.
    pub damaged: u32,
    /// The smallest erase counter, 0 if none is known.
    pub erases_min: u64,
    /// The largest erase counter.
    pub erases_max: u64,
    /// The sum of all known erase counters.
    pub erases_sum: u64,
    /// PEBs with a known erase counter.
    pub counted: u32,
    /// Whether a fastmap is there.
    pub has_fastmap: bool,
}
