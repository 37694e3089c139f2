//! What a checkpoint says: decoded at a mount, encoded by mkfs, by each checkpoint and by repairs.

use crate::ids::{Log, NodeId, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, CheckpointHead, NatEntry, SitEntry, SummaryEntry};

/// A checkpoint with everything that its pack holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointState {
    /// Counters, logs and flags as they stand in the pack. Where a field and another part of this
    /// structure say the same (logs, counts of blocks, offset of the checksum), the other part
    /// counts when a pack is encoded.
    pub head: CheckpointHead,
    /// Which copy of each NAT block counts, MSB first.
    pub nat_map: Vec<u8>,
    /// Which copy of each SIT block counts, MSB first.
    pub sit_map: Vec<u8>,
    /// Inodes without a name that were open.
    pub orphans: Vec<NodeId>,
    /// The logs, by [`Log::index`].
    pub logs: [LogState; Log::COUNT],
    /// The summaries of the logs' segments, by [`Log::index`]. Those of node logs are empty (no
    /// entries) where the pack does not hold them.
    pub summaries: [SummaryBlock; Log::COUNT],
    /// Entries that count instead of those in the NAT.
    pub nat_journal: Vec<(NodeId, NatEntry)>,
    /// Entries that count instead of those in the SIT.
    pub sit_journal: Vec<(SegmentIndex, SitEntry)>,
    /// KiB written over the volume's life.
    pub lifetime_kib: u64,
    /// Which NAT blocks are full and which empty, where the pack holds it and it is this
    /// checkpoint's.
    pub nat_bits: Option<NatBits>,
}

/// Where a log writes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Its segment.
    pub segment: SegmentIndex,
    /// Its next block there; 512 does not occur, since a log that is full gets its next segment at
    /// once.
    pub next: u16,
    /// Whether it fills gaps of a used segment (SSR) instead of an empty one (LFS).
    pub ssr: bool,
}

/// Whose the blocks of one segment are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryBlock {
    /// One entry a block, 512 of them; or none where they are not known.
    pub entries: Vec<SummaryEntry>,
}

impl SummaryBlock {
    /// All entries zero.
    pub fn blank() -> Self {
        Self { entries: vec![SummaryEntry::default(); BLOCKS_PER_SEGMENT as usize] }
    }
}

/// nat_bits: one bit for each block of the NAT, LSB first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatBits {
    /// No entry of the block is free; entry 0 counts as used.
    pub full: Vec<u8>,
    /// All are.
    pub empty: Vec<u8>,
}
