//! The search of F2FS in Linux over dirty segments or sections, for the collector and for SSR,
//! which fills gaps (`fs/f2fs/gc.c`, `get_victim_by_default`; docs/formats/f2fs-writing.md,
//! "Allocation", "Collection").
//!
//! It looks at a limited number of candidates and continues where it stopped, so it is not a
//! [`crate::victim::VictimRule`], which compares all.

mod aged_gaps;
mod cost_benefit;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use aged_gaps::{AgedGaps, AgedSegment};
pub use cost_benefit::{AgedSections, CostBenefit, Times, benefit};

/// The name of this search in specs, beside those of victim policies.
pub const NAME: &str = "f2fs-search";

/// A one-line description.
pub const ABOUT: &str = "F2FS in Linux, for F2FS alone: greedy where an operation waits, cost-benefit in idle times";

/// The most candidates per search, except in the foreground collector (gc.h,
/// DEF_MAX_VICTIM_SEARCH).
pub const MOST_LOOKED_AT: u32 = 4096;

/// A set of numbers as a bitmap.
#[derive(Clone, Copy, Debug)]
pub struct Marked<'a> {
    /// The bitmap; the lowest number is the lowest bit of the first word.
    pub words: &'a [u64],
    /// The exclusive upper bound of the numbers.
    pub length: u32,
}

impl Marked<'_> {
    /// The bits of the numbers from `64 * index` on, lowest first.
    fn word(&self, index: u32) -> u64 {
        self.words.get(index as usize).copied().unwrap_or(0)
    }
}

/// Where a kind of search continues next time, as a segment. Greedy searches (SSR, foreground
/// collection) share one; cost-benefit has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u32);

/// A search.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The candidates: segments, or sections if `unit` is more than 1.
    pub candidates: Marked<'a>,
    /// Segments per candidate.
    pub unit: u32,
    /// The first segment to look at; the cursor's if `None`.
    pub start: Option<u32>,
    /// The most candidates to look at.
    pub most: u32,
    /// Candidates with this cost or more are not taken.
    pub limit: u64,
}

/// The costs of candidates.
pub trait Costs {
    /// The cost of one candidate.
    fn cost(&mut self, candidate: u32) -> u64;

    /// Whether a candidate may be taken; only asked if it would win.
    fn may(&self, candidate: u32) -> bool;

    /// A lower bound of the costs of these candidates, at most 64, cheaper than asking for each.
    fn least_of(&self, candidates: Range<u32>) -> u64 {
        let _ = candidates;
        0
    }
}

impl Search<'_> {
    /// The candidate with the least cost, the first among equals. One that may not be taken still
    /// counts as looked at.
    ///
    /// It searches from the start to the end and, if that is not enough, from 0 to the cursor's old
    /// position. The cursor then stands one unit past the last candidate looked at, or past its old
    /// position if the second leg ended before that. A search that runs out of candidates leaves it
    /// at 0. Cost: the candidates looked at, and one word per 64 units between.
    pub fn run(&self, cursor: &mut Cursor, costs: &mut impl Costs) -> Option<u32> {
        if self.most == 0 || self.unit == 0 {
            return None;
        }
        let stood = cursor.0;
        let mut run = Run { best: None, least: self.limit, left: self.most, last: 0 };
        let legs = [self.start.unwrap_or(stood) / self.unit..self.candidates.length, 0..stood / self.unit];
        for (leg, units) in legs.into_iter().enumerate() {
            if leg == 1 {
                if stood == 0 {
                    break;
                }
                cursor.0 = 0;
            }
            run.leg(self.candidates, units, costs);
            if run.left == 0 {
                self.remember(cursor, stood, run.last * self.unit);
                break;
            }
        }
        run.best
    }

    fn remember(&self, cursor: &mut Cursor, stood: u32, last: u32) {
        let segments = u64::from(self.candidates.length) * u64::from(self.unit);
        let behind = if cursor.0 == 0 && last <= stood { stood } else { last };
        cursor.0 = ((u64::from(behind) + u64::from(self.unit)) % segments.max(1)) as u32;
    }
}

struct Run {
    best: Option<u32>,
    least: u64,
    left: u32,
    last: u32,
}

impl Run {
    fn leg(&mut self, candidates: Marked<'_>, units: Range<u32>, costs: &mut impl Costs) {
        let mut first = units.start / 64 * 64;
        while first < units.end && self.left > 0 {
            let here = first..(first + 64).min(units.end);
            let mut word = candidates.word(first / 64);
            word &= u64::MAX << units.start.saturating_sub(first).min(63);
            word &= u64::MAX >> (64 - (here.end - first));
            let count = word.count_ones();
            // The position of the last one looked at is needed, so its word is searched bit by bit.
            if count < self.left && (count == 0 || costs.least_of(here) >= self.least) {
                self.left -= count;
            } else {
                self.word(first, word, costs);
            }
            first += 64;
        }
    }

    fn word(&mut self, first: u32, mut word: u64, costs: &mut impl Costs) {
        while word != 0 && self.left > 0 {
            let candidate = first + word.trailing_zeros();
            word &= word - 1;
            let cost = costs.cost(candidate);
            if cost < self.least && costs.may(candidate) {
                (self.least, self.best) = (cost, Some(candidate));
            }
            self.left -= 1;
            self.last = candidate;
        }
    }
}
