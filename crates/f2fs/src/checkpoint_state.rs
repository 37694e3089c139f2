//! The state in a checkpoint: decoded at mount; encoded by mkfs, checkpoints and repairs.

use crate::ids::{Log, NodeId, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, NatEntry, SitEntry, SummaryEntry};

/// A checkpoint with everything in its pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointState {
    /// Counters, logs and flags as stored in the pack. Where a field repeats another part of this
    /// structure (logs, block counts, offset of the checksum), encoding uses the other part.
    pub head: CheckpointHead,
    /// Which copy of each NAT block is current, MSB first.
    pub nat_map: Vec<u8>,
    /// Which copy of each SIT block is current, MSB first.
    pub sit_map: Vec<u8>,
    /// Inodes that had no name but were still open.
    pub orphans: Vec<NodeId>,
    /// The logs, by [`Log::index`].
    pub logs: [LogState; Log::COUNT],
    /// The summaries of the logs' segments, by [`Log::index`]. Those of node logs have no entries
    /// if the pack does not hold them.
    pub summaries: [SummaryBlock; Log::COUNT],
    /// Entries that override those in the NAT.
    pub nat_journal: Vec<(NodeId, NatEntry)>,
    /// Entries that override those in the SIT.
    pub sit_journal: Vec<(SegmentIndex, SitEntry)>,
    /// KiB written over the volume's lifetime.
    pub lifetime_kib: u64,
    /// Which NAT blocks are full and which are empty, if the pack holds a map for this checkpoint.
    pub nat_bits: Option<NatBits>,
}

/// A log's write position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The log's segment.
    pub segment: SegmentIndex,
    /// The next block in the segment, 0 to 511: a full log moves to its next segment at once.
    pub next: u16,
    /// Whether the log fills gaps of a used segment (SSR) rather than an empty segment (LFS).
    pub ssr: bool,
}

/// The owners of the blocks of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryBlock {
    /// One entry per block, 512 in all; empty if the owners are unknown.
    pub entries: Vec<SummaryEntry>,
}

impl SummaryBlock {
    /// A summary whose entries are all zero.
    pub fn blank() -> Self {
        Self { entries: vec![SummaryEntry::default(); BLOCKS_PER_SEGMENT as usize] }
    }
}

/// nat_bits: one bit per NAT block, LSB first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatBits {
    /// Blocks without a free entry; entry 0 counts as used.
    pub full: Vec<u8>,
    /// Blocks whose entries are all free.
    pub empty: Vec<u8>,
}
