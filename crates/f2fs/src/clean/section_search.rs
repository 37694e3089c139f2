//! Linux's search, the default: greedy in the foreground, cost-benefit in the background (gc.c,
//! `select_policy`; f2fs-writing.md, "Collection"). `cleaning::search` has the search and its
//! formula; this file has the data it looks at and its state.

use nandkit_cleaning::search::{AgedSections, CostBenefit, Costs, Cursor, Search, Times};
use nandkit_units::Nanos;

use super::{Collection, VictimSearch};
use crate::layout::BLOCKS_PER_SEGMENT;
use crate::segments::Segments;

/// Linux's search and its state. Times are in seconds.
#[derive(Clone, Debug)]
pub struct SectionSearch {
    cost_benefit: Cursor,
    times: Times,
}

impl SectionSearch {
    /// The state right after a mount: the time range is that of all sections, up to `now`
    /// (segment.c, `init_min_max_mtime`).
    pub fn new(segments: &Segments, now: u64) -> Self {
        let sit = segments.sit();
        let oldest = (0..sit.sections()).map(|section| sit.section_modified(section)).min().unwrap_or(0);
        Self { cost_benefit: Cursor::default(), times: Times { oldest, newest: now.max(oldest) } }
    }

    /// The first section that background collection chose, that is not empty yet and not busy.
    fn chosen_before(segments: &Segments) -> Option<u32> {
        segments.dirty().chosen().iter().find(|&section| !segments.is_busy(section))
    }

    /// The section with the fewest valid blocks.
    fn in_foreground(segments: &mut Segments) -> Option<u32> {
        if let Some(section) = Self::chosen_before(segments) {
            segments.forget_choice(section);
            return Some(section);
        }
        let unit = segments.sit().per_section();
        let dirty = segments.dirty().units();
        let limit = 2 * u64::from(BLOCKS_PER_SEGMENT) * u64::from(unit);
        let search = Search { candidates: dirty.marked(), unit, start: None, most: dirty.count(), limit };
        let mut cursor = segments.greedy_cursor();
        let found = search.run(&mut cursor, &mut ValidBlocks(segments));
        segments.set_greedy_cursor(cursor);
        found
    }

    /// The section with the best cost-benefit value, which is noted as chosen.
    fn in_background(&mut self, segments: &mut Segments) -> Option<u32> {
        // Each change of a block extends the range (segment.c, `update_segment_mtime`).
        self.times.newest = self.times.newest.max(segments.sit().newest());
        let sections = &*segments;
        let mut costs = CostBenefit { sections, capacity: u64::from(BLOCKS_PER_SEGMENT), times: &mut self.times };
        let dirty = segments.dirty().units();
        let search = Search {
            candidates: dirty.marked(),
            unit: segments.sit().per_section(),
            start: None,
            most: dirty.count().min(segments.options.max_search),
            limit: CostBenefit::<Segments>::END,
        };
        let found = search.run(&mut self.cost_benefit, &mut costs)?;
        segments.choose_in_background(found);
        Some(found)
    }
}

/// The cost of a section in a foreground collection.
struct ValidBlocks<'a>(&'a Segments);

impl Costs for ValidBlocks<'_> {
    fn cost(&mut self, section: u32) -> u64 {
        u64::from(self.0.sit().section_valid(section))
    }

    fn may(&self, section: u32) -> bool {
        !self.0.is_busy(section)
    }
}

impl AgedSections for Segments {
    fn valid(&self, section: u32) -> u64 {
        u64::from(self.sit().section_valid(section)) / u64::from(self.sit().per_section())
    }

    fn modified(&self, section: u32) -> u64 {
        self.sit().section_modified(section)
    }

    fn may(&self, section: u32) -> bool {
        !self.is_busy(section) && !self.dirty().chosen().has(section)
    }
}

impl VictimSearch for SectionSearch {
    fn choose(&mut self, segments: &mut Segments, why: Collection, _now: Nanos) -> Option<u32> {
        match why {
            Collection::Foreground => Self::in_foreground(segments),
            Collection::Background => self.in_background(segments),
        }
    }
}
