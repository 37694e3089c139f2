//! The search of Linux: greedy in the foreground, cost-benefit in the background (gc.c, `select_policy`, `get_victim_by_default`, `get_cb_cost`; f2fs-writing.md, "Collection").

use std::cell::Cell;

use nandkit_cleaning::victim::rules::f2fs_cost_benefit::f2fs_benefit;
use nandkit_units::Nanos;

use super::{Collection, VictimSearch};
use crate::layout::BLOCKS_PER_SEGMENT;
use crate::segments::Segments;
use crate::segments::search::{Costs, Cursor, Search};

/// Linux's own search, with what it remembers. Times are in seconds.
#[derive(Clone, Debug)]
pub struct LinuxSearch {
    cost_benefit: Cursor,
    /// The least and the greatest mean time of a section that was ever seen.
    oldest: Cell<u64>,
    newest: Cell<u64>,
}

impl LinuxSearch {
    /// As after a mount: the range of times is that of all sections, up to `now` (segment.c, `init_min_max_mtime`).
    pub fn new(segments: &Segments, now: u64) -> Self {
        let sit = segments.sit();
        let oldest = (0..sit.sections()).map(|section| sit.section_modified(section)).min().unwrap_or(0);
        Self { cost_benefit: Cursor::default(), oldest: Cell::new(oldest), newest: Cell::new(now.max(oldest)) }
    }

    /// Of sections that background collection chose and that are not empty yet, the first that is not busy.
    fn chosen_before(segments: &Segments) -> Option<u32> {
        segments.dirty().chosen().iter().find(|&section| !segments.is_busy(section))
    }
}

/// Fewest valid blocks.
struct Greedy<'a>(&'a Segments);

impl Costs for Greedy<'_> {
    fn cost(&self, section: u32) -> u64 {
        u64::from(self.0.sit().section_valid(section))
    }

    fn may(&self, section: u32) -> bool {
        !self.0.is_busy(section)
    }
}

struct CostBenefit<'a> {
    segments: &'a Segments,
    search: &'a LinuxSearch,
}

/// Costs are below this; the best is the lowest.
const COST_END: u64 = 0xFFFF_FFFF;

impl Costs for CostBenefit<'_> {
    /// Also widens the range of times, as Linux does while it compares; only for sections that may be taken.
    fn cost(&self, section: u32) -> u64 {
        if !self.may(section) {
            return COST_END;
        }
        let sit = self.segments.sit();
        let time = sit.section_modified(section);
        let valid = u64::from(sit.section_valid(section)) / u64::from(sit.per_section());
        self.search.oldest.set(self.search.oldest.get().min(time));
        self.search.newest.set(self.search.newest.get().max(time));
        let (oldest, newest) = (self.search.oldest.get(), self.search.newest.get());
        COST_END - f2fs_benefit(valid, u64::from(BLOCKS_PER_SEGMENT), time, oldest..=newest)
    }

    fn may(&self, section: u32) -> bool {
        !self.segments.is_busy(section) && !self.segments.dirty().chosen().has(section)
    }
}

impl VictimSearch for LinuxSearch {
    fn choose(&mut self, segments: &mut Segments, why: Collection, _now: Nanos) -> Option<u32> {
        let unit = segments.sit().per_section();
        let all = segments.dirty().units().count();
        if why == Collection::Foreground {
            if let Some(section) = Self::chosen_before(segments) {
                segments.forget_choice(section);
                return Some(section);
            }
            let limit = 2 * u64::from(BLOCKS_PER_SEGMENT) * u64::from(unit);
            let mut cursor = segments.greedy_cursor();
            let search = Search { candidates: segments.dirty().units(), unit, start: None, most: all, limit };
            let found = search.run(&mut cursor, &Greedy(segments));
            segments.set_greedy_cursor(cursor);
            return found;
        }
        // Each block that comes or goes moves the end of the range (segment.c, `update_segment_mtime`).
        self.newest.set(self.newest.get().max(segments.sit().newest()));
        let most = all.min(segments.options.max_search);
        let search = Search { candidates: segments.dirty().units(), unit, start: None, most, limit: COST_END };
        let mut cursor = self.cost_benefit;
        let found = search.run(&mut cursor, &CostBenefit { segments, search: self });
        self.cost_benefit = cursor;
        if let Some(section) = found {
            segments.choose_in_background(section);
        }
        found
    }
}
