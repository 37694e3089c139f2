//! What a checkpoint writes about the segments, and what it frees (f2fs-writing.md, "Checkpoint").

use std::ops::Range;

use nandkit_vfs::Result;

use super::{NO_BLOCK, Segments};
use crate::blocks::Blocks;
use crate::checkpoint_state::LogState;
use crate::ids::{Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, SitEntry, SummaryEntry};

impl Segments {
    /// Makes sure that each log has a next block before a checkpoint is written. Errors: those of
    /// [`super::Space::allocate`].
    pub fn settle_logs(&mut self, device: &dyn Blocks) -> Result<()> {
        for log in Log::ALL {
            if self.logs[log.index()].next >= NO_BLOCK {
                self.renew(device, log)?;
            }
        }
        Ok(())
    }

    /// Where a log writes next.
    pub fn log_state(&self, log: Log) -> LogState {
        let open = &self.logs[log.index()];
        LogState { segment: open.segment, next: open.next, ssr: open.ssr }
    }

    /// The owners of the blocks in a log's segment.
    pub fn log_summary(&self, log: Log) -> &[SummaryEntry] {
        &self.logs[log.index()].entries
    }

    /// Summaries of other segments that a checkpoint must write, ascending, with whether they are
    /// of nodes.
    pub fn dirty_summaries(&self) -> impl Iterator<Item = (SegmentIndex, &[SummaryEntry], bool)> {
        self.summaries.iter().map(|(segment, entries)| (segment, &**entries, self.sit.kind(segment).is_node()))
    }

    /// Notes that the summaries were written to the SSA.
    pub fn summaries_written(&mut self) {
        self.summaries.written();
    }

    /// SIT entries that differ from the last checkpoint's, ascending.
    pub fn dirty_entries(&self) -> impl Iterator<Item = (SegmentIndex, SitEntry)> + '_ {
        self.sit.dirty().iter().map(|segment| (SegmentIndex(segment), self.sit.entry(SegmentIndex(segment))))
    }

    /// Free segments as counted by the checkpoint being written, including those that it frees.
    pub fn free_segments_after(&self) -> u32 {
        self.free.segments() + self.dirty.prefree().count()
    }

    /// Implements [`super::Space::checkpointed`].
    pub fn checkpointed(&mut self) -> Vec<Range<u32>> {
        let mut freed: Vec<(u64, u64)> = Vec::new();
        let start_of = |geometry: &crate::layout::Geometry, segment| u64::from(geometry.segment_start(segment).0);
        for segment in self.dirty.take_prefree().iter() {
            let segment = SegmentIndex(segment);
            let current = self.has_log(self.free.section(segment));
            self.free.give(segment, current);
            let start = start_of(&self.geometry, segment);
            freed.push((start, start + u64::from(BLOCKS_PER_SEGMENT)));
        }
        let geometry = &self.geometry;
        self.sit.checkpointed(|segment, first, count| {
            let start = start_of(geometry, segment) + u64::from(first);
            freed.push((start, start + u64::from(count)));
        });
        self.space.checkpointed();
        self.preparations_checkpointed();
        self.options.crc_recovery = true;
        joined(freed)
    }
}

/// Sorts ranges and merges adjacent and overlapping ones. Leaves out the last block of a volume of
/// 2^32 blocks, since its end does not fit in 32 bits.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<Range<u32>> {
    ranges.sort_unstable();
    let mut all: Vec<Range<u32>> = Vec::new();
    for (start, end) in ranges {
        let end = end.min(u64::from(u32::MAX)) as u32;
        match all.last_mut() {
            Some(last) if start <= u64::from(last.end) => last.end = last.end.max(end),
            _ => all.push(start as u32..end),
        }
    }
    all
}
