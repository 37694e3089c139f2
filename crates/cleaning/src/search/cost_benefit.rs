//! The cost of sections in idle time: benefit against age (`fs/f2fs/gc.c`, `get_cb_cost`).

use std::ops::RangeInclusive;

use super::Costs;

/// The range of the mean times of all sections compared so far, in the caller's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The earliest.
    pub oldest: u64,
    /// The latest.
    pub newest: u64,
}

/// What the search needs to know of sections.
pub trait AgedSections {
    /// Blocks in use in a section, per segment.
    fn valid(&self, section: u32) -> u64;

    /// The mean time of its changes.
    fn modified(&self, section: u32) -> u64;

    /// Whether the section may be taken.
    fn may(&self, section: u32) -> bool;
}

/// The costs of sections; a greater [`benefit`] is a lower cost.
#[derive(Debug)]
pub struct CostBenefit<'a, S> {
    /// The sections.
    pub sections: &'a S,
    /// Blocks per segment.
    pub capacity: u64,
    /// The range of times, which grows with each comparison.
    pub times: &'a mut Times,
}

impl<S> CostBenefit<'_, S> {
    /// All costs are below this.
    pub const END: u64 = 0xFFFF_FFFF;
}

impl<S: AgedSections> Costs for CostBenefit<'_, S> {
    /// Also widens the range of times, as Linux does while it compares; only called for sections
    /// that may be taken.
    fn cost(&mut self, section: u32) -> u64 {
        if !self.may(section) {
            return Self::END;
        }
        let (valid, modified) = (self.sections.valid(section), self.sections.modified(section));
        let times = &mut *self.times;
        times.oldest = times.oldest.min(modified);
        times.newest = times.newest.max(modified);
        Self::END - benefit(valid, self.capacity, modified, times.oldest..=times.newest)
    }

    fn may(&self, section: u32) -> bool {
        self.sections.may(section)
    }
}

/// The benefit of cleaning a block, 0 to 10 000, in integer arithmetic: `100 * (100 - u) * a /
/// (100 + u)`, where `u` is the share of `capacity` that is `valid`, in per cent, and `a` goes from
/// 0 to 100 as `modified`, the mean time of the last writes, goes from the newest to the oldest of
/// `times`, the range over all blocks. The unit of times cancels out.
pub fn benefit(valid: u64, capacity: u64, modified: u64, times: RangeInclusive<u64>) -> u64 {
    let (oldest, newest) = times.into_inner();
    let used = percent(valid, capacity);
    let age = match newest.saturating_sub(oldest) {
        0 => 0,
        span => 100 - percent(modified.saturating_sub(oldest), span),
    };
    100 * (100 - used) * age / (100 + used)
}

/// `100 * part / whole` rounded down, at most 100; 0 if `whole` is 0.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0).min(100) as u64
}
