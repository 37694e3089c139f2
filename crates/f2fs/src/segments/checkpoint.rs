//! What a checkpoint writes of the segments, and what its end frees (f2fs-writing.md,
//! "Checkpoint").

use std::ops::Range;

use nandkit_vfs::Result;

use super::{NO_BLOCK, Segments};
use crate::blocks::Blocks;
use crate::checkpoint_state::LogState;
use crate::ids::{Log, SegmentIndex};
use crate::layout::{BLOCKS_PER_SEGMENT, SitEntry, SummaryEntry};

impl Segments {
    /// Before a checkpoint is written: each log has a next block. Errors: those of
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

    /// Whose the blocks of a log's segment are.
    pub fn log_summary(&self, log: Log) -> &[SummaryEntry] {
        &self.logs[log.index()].entries
    }

    /// Summaries of other segments that a checkpoint has to write, ascending, and whether of nodes.
    pub fn dirty_summaries(&self) -> impl Iterator<Item = (SegmentIndex, &[SummaryEntry], bool)> {
        self.summaries.iter().map(|(segment, entries)| (segment, &**entries, self.sit.kind(segment).is_node()))
    }

    /// Summaries were written to the SSA.
    pub fn summaries_written(&mut self) {
        self.summaries.written();
    }

    /// Entries of the SIT that differ from the last checkpoint's, ascending.
    pub fn dirty_entries(&self) -> impl Iterator<Item = (SegmentIndex, SitEntry)> + '_ {
        self.sit.dirty().iter().map(|segment| (SegmentIndex(segment), self.sit.entry(SegmentIndex(segment))))
    }

    /// Free segments as the checkpoint that is being written counts them: what it frees included.
    pub fn free_segments_after(&self) -> u32 {
        self.free.segments() + self.dirty.prefree().count()
    }

    /// [`super::Space::checkpointed`].
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

/// Sorted, and joined where they touch or overlap. The last block of a volume of 2^32 blocks is
/// left out: its end has no number.
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
