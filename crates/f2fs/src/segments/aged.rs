//! Age-threshold SSR: blocks moved by the collector fill gaps in a segment of about the same age as
//! their old one (segment.c, `get_atssr_segment`; [`nandkit_cleaning::search::AgedGaps`] chooses).
//!
//! Linux has a seventh log for it, which is not on the volume: a checkpoint writes its segment as a
//! used one. Here it is a used segment whose gaps are filled one by one.

use nandkit_cleaning::search::{AgedGaps, AgedSegment};
use nandkit_vfs::Result;

use super::sit::Sit;
use super::{BLOCKS, Segments, Summary};
use crate::blocks::Blocks;
use crate::ids::{BlockAddress, Log, SegmentIndex};

impl Segments {
    /// Implements [`super::Space::allocate_moved`].
    pub fn allocate_moved(
        &mut self,
        device: &dyn Blocks,
        from: BlockAddress,
        owner: Summary,
        now: u64,
    ) -> Result<BlockAddress> {
        let (source, _) = Sit::door(&self.geometry, from)?;
        let Some((segment, block)) = self.aged_gap(source) else {
            return self.allocate(device, Log::ColdData, owner, now).map(|placed| placed.at);
        };
        let at = self.address(segment, block);
        // A moved block keeps its age.
        self.claim(device, at, owner, self.sit.modified(source)).map(|()| at)
    }

    /// The next gap for a block of this segment: in the segment filled last, as long as it has gaps
    /// and nothing else took it.
    fn aged_gap(&mut self, source: SegmentIndex) -> Option<(SegmentIndex, u16)> {
        let rule = self.options.aged_gaps.filter(|_| !self.options.lfs && !self.options.urgent)?;
        let gap = |segments: &Self, segment| segments.sit.next_usable(segment, 0).map(|block| (segment, block));
        let last = self.aged_target.filter(|target| self.dirty.all().has(target.0) && self.may_be_filled(*target));
        if let Some(found) = last.and_then(|target| gap(self, target)) {
            return Some(found);
        }
        self.aged_target = self.aged_segment(rule, source);
        self.aged_target.and_then(|target| gap(self, target))
    }

    fn may_be_filled(&self, segment: SegmentIndex) -> bool {
        let section = self.free.section(segment);
        !self.is_busy(section) && !self.dirty.chosen().has(section)
    }

    /// A segment of the source's type, else of another data type, colder ones first.
    fn aged_segment(&self, rule: AgedGaps, source: SegmentIndex) -> Option<SegmentIndex> {
        let own = self.sit.kind(source);
        let others = [Log::ColdData, Log::WarmData, Log::HotData].into_iter().filter(|other| *other != own);
        std::iter::once(own).chain(others).filter(|kind| !kind.is_node()).find_map(|kind| {
            let segments = self.dirty.of(kind).iter().map(SegmentIndex);
            let candidates: Vec<AgedSegment> = segments
                .filter(|&segment| self.may_be_filled(segment) && self.sit.next_usable(segment, 0).is_some())
                .map(|segment| AgedSegment {
                    segment: segment.0,
                    modified: self.sit.modified(segment),
                    valid: self.sit.valid_at_checkpoint(segment).into(),
                })
                .collect();
            rule.choose(&candidates, BLOCKS.into(), self.sit.modified(source)).map(SegmentIndex)
        })
    }
}
