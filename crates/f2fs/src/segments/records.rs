//! Counters of segments and blocks.

use super::Segments;
use super::sit::BLOCKS;
use crate::ids::Log;

/// How a block got its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Way {
    /// Appended to an empty segment (LFS).
    Append,
    /// In a gap of a used segment (SSR).
    Gaps,
    /// At a requested address.
    Claim,
    /// Overwritten in place.
    InPlace,
}

impl Way {
    /// The number of ways.
    pub const COUNT: usize = 4;
    /// All ways.
    pub const ALL: [Self; Self::COUNT] = [Self::Append, Self::Gaps, Self::Claim, Self::InPlace];

    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Append => "lfs",
            Self::Gaps => "ssr",
            Self::Claim => "claimed",
            Self::InPlace => "in_place",
        }
    }
}

/// Blocks by log and way, and segments taken by logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    blocks: [[u64; Way::COUNT]; Log::COUNT],
    segments: [[u64; 2]; Log::COUNT],
}

impl Usage {
    /// The blocks that a log received in a way.
    pub const fn blocks(&self, log: Log, way: Way) -> u64 {
        self.blocks[log.index()][way as usize]
    }

    /// The number of empty segments that a log took.
    pub const fn free_segments_taken(&self, log: Log) -> u64 {
        self.segments[log.index()][0]
    }

    /// The number of used segments that a log took for their gaps.
    pub const fn used_segments_taken(&self, log: Log) -> u64 {
        self.segments[log.index()][1]
    }

    /// The number of segments that all logs took.
    pub fn segments_taken(&self) -> u64 {
        self.segments.iter().flatten().sum()
    }

    #[inline]
    pub(super) fn count(&mut self, log: Log, way: Way) {
        self.blocks[log.index()][way as usize] += 1;
    }

    pub(super) fn segment(&mut self, log: Log, used: bool) {
        self.segments[log.index()][usize::from(used)] += 1;
    }
}

/// Segments by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStates {
    /// Empty, and not used by a log.
    pub free: u32,
    /// Without valid blocks; free with the next checkpoint.
    pub prefree: u32,
    /// With valid and invalid blocks, by type.
    pub dirty: [u32; Log::COUNT],
    /// With valid blocks only.
    pub full: u32,
    /// Being written by logs.
    pub current: u32,
    /// Reserved for a log.
    pub prepared: u32,
}

impl Segments {
    /// Segments by state. Cost: constant.
    pub fn states(&self) -> SegmentStates {
        let (free, prefree, all) = (self.free.segments(), self.dirty.prefree().count(), self.sit.segments());
        let (current, prepared) = (Log::COUNT as u32, self.held.len() as u32);
        let elsewhere = free + prefree + current + prepared + self.dirty.all().count();
        SegmentStates {
            free,
            prefree,
            dirty: Log::ALL.map(|log| self.dirty.of(log).count()),
            full: all.saturating_sub(elsewhere),
            current,
            prepared,
        }
    }

    /// Counts a block that was overwritten in place.
    pub fn count_in_place(&mut self, at: crate::ids::BlockAddress) {
        if let Some((segment, _)) = self.geometry.main(at) {
            self.usage.count(self.sit.kind(segment), Way::InPlace);
        }
    }

    /// Segments by number of valid blocks, in `classes` classes of equal width; segments without
    /// any are not counted.
    pub fn histogram(&self, classes: usize) -> Vec<u32> {
        let mut counts = vec![0; classes.max(1)];
        let last = counts.len() - 1;
        for segment in 0..self.sit.segments() {
            let valid = usize::from(self.sit.valid(crate::ids::SegmentIndex(segment)));
            if valid > 0 {
                counts[(valid * (last + 1) / usize::from(BLOCKS)).min(last)] += 1;
            }
        }
        counts
    }
}
