//! How many blocks of a stretch Inter-GC best frees, if the others move within the segment.
//!
//! A copy costs one read per run, whatever the choice, and a write time per block that is the same
//! for all blocks to the cold segment, and another for all blocks that stay (P1's `copy`). So the
//! copies of a stretch cost what they cost if all stay, plus the difference of the two times for
//! each freed block: it does not matter which runs are freed, only how many blocks. What remains is
//! the minimum of `difference * freed + fill(holes, freed)` over all sums of run lengths. Without
//! that restriction it depends only on the number of holes, and is cached for all stretches with as
//! many.

use super::cost::fill;
use super::{RequestTimes, ValidRun};

/// Runs that are moved, with the holes between and next to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    pub holes: u32,
    /// The number of blocks in its runs.
    blocks: usize,
    /// The time to copy all of them to the cold segment, and the time to move all within their own,
    /// in nanoseconds.
    all_inter: f64,
    all_intra: f64,
    sums: Sums,
}

impl Stretch {
    /// A stretch without runs, after a hole.
    pub fn behind(holes: u32) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Adds a moved run, given the cost of copying it by Inter-GC and by Intra-GC.
    pub fn grow(&mut self, run: &ValidRun, [inter, intra]: &[f64; 2]) {
        self.holes += u32::from(run.right);
        self.blocks += usize::from(run.length);
        self.all_inter += inter;
        self.all_intra += intra;
    }

    /// The least time to move its runs: copies take the least where all blocks go one way.
    #[inline]
    pub fn least_ns(&self) -> f64 {
        self.all_inter.min(self.all_intra)
    }
}

/// The sums of some of a stretch's run lengths, computed as far as needed.
#[derive(Clone, Debug, Default)]
struct Sums {
    bits: Vec<u64>,
    runs: usize,
}

impl Sums {
    fn follow(&mut self, moved: &[ValidRun]) {
        if self.bits.is_empty() {
            self.bits.push(1);
        }
        for run in moved.iter().skip(self.runs) {
            let (words, shift) = (usize::from(run.length / 64), u32::from(run.length % 64));
            // The highest sum is somewhere in the last word.
            let length = self.bits.len() + words + 1;
            self.bits.resize(length, 0);
            for word in (words..length).rev() {
                let low = self.bits[word - words] << shift;
                let carried = (word - words).checked_sub(1).and_then(|below| self.bits[below].checked_shr(64 - shift));
                self.bits[word] |= low | carried.unwrap_or(0);
            }
            while self.bits.last() == Some(&0) {
                self.bits.pop();
            }
        }
        self.runs = self.runs.max(moved.len());
    }

    fn has(&self, sum: usize) -> bool {
        self.bits.get(sum / 64).is_some_and(|word| word >> (sum % 64) & 1 != 0)
    }
}

/// For one number of holes: per number of blocks of which any may be freed, the smallest number of
/// freed blocks with the least time.
#[derive(Clone, Debug, Default)]
struct Row {
    least: Vec<u32>,
    /// Whether further blocks cannot improve the result.
    is_whole: bool,
}

/// Finds the best number of blocks to free.
pub(super) struct Freed {
    /// The time of a block in a request of each size, in nanoseconds.
    request_ns: Vec<f64>,
    /// The least of these up to each size.
    least_ns: Vec<f64>,
    /// What one more freed block costs, in nanoseconds; less than 0 where the cold segment's holes
    /// are the larger ones.
    block_ns: f64,
    /// All run lengths are multiples of this.
    step: usize,
    /// Up to this size, larger requests cost less per block.
    falls_to: usize,
    rows: Vec<Row>,
}

impl Freed {
    /// For runs that share their holes, where a freed block costs `block_ns` more than one that
    /// stays in its segment. Cost: one division per block.
    pub fn new(runs: &[ValidRun], times: &RequestTimes, block_ns: f64) -> Self {
        let step = runs.iter().map(|run| usize::from(run.length)).fold(0, common).max(1);
        let most = runs.first().map_or(0, |run| u32::from(run.left))
            + runs.iter().map(|run| u32::from(run.length) + u32::from(run.right)).sum::<u32>();
        let request_ns: Vec<f64> =
            (0..=most).map(|blocks| fill(times, 1.min(blocks), blocks.saturating_sub(1))).collect();
        let sizes = request_ns.get(1..).unwrap_or_default();
        let mut least = f64::INFINITY;
        let mut and_smaller = |time_ns: &f64| {
            least = least.min(*time_ns);
            least
        };
        // A request of nothing takes no time.
        let least_ns = std::iter::once(0.0).chain(sizes.iter().map(&mut and_smaller)).collect();
        // Where freed blocks cost nothing, equal requests are a tie, which the fewest blocks win.
        let falls = |pair: &&[f64]| pair[1] <= if block_ns < 0.0 { pair[0] } else { pair[0] * (1.0 - 1e-9) };
        let falls_to = 1 + sizes.windows(2).take_while(falls).count();
        Self { request_ns, least_ns, block_ns, step, falls_to, rows: Vec::new() }
    }

    /// Whether a stretch that begins at a time ends after a bound, whatever is freed in it: no
    /// request of the stretch is larger than its holes and its blocks together. Cost: a look-up.
    #[inline]
    pub fn ends_after(&self, stretch: &Stretch, begin_ns: f64, bound_ns: f64) -> bool {
        let block_ns = self.least_ns.get(stretch.holes as usize + stretch.blocks).copied().unwrap_or(0.0);
        // The exact time is a sum of other roundings.
        begin_ns + stretch.least_ns() + f64::from(stretch.holes) * block_ns >= bound_ns * (1.0 + 1e-12)
    }

    /// How many blocks of the runs that are moved are best freed, and the time of the copies then.
    /// `None` where copies and filling take as long as `bound` at the least.
    pub fn least(&mut self, stretch: &mut Stretch, moved: &[ValidRun], bound: f64) -> Option<(usize, f64)> {
        let (holes, blocks) = (stretch.holes as usize, stretch.blocks);
        let gains = self.block_ns < 0.0 || self.block_ns == 0.0 && holes > 0;
        if gains && holes + blocks <= self.falls_to {
            return Some((blocks, stretch.all_inter));
        }
        let (time_ns, freed) = self.up_to(holes, blocks);
        if freed == 0 {
            return Some((0, stretch.all_intra));
        }
        if freed == blocks {
            return Some((blocks, stretch.all_inter));
        }
        // This holds whether or not it is a sum of lengths: no number of blocks is better. The sums
        // have many rounding errors.
        if stretch.all_intra + time_ns >= bound * (1.0 + 1e-12) {
            return None;
        }
        stretch.sums.follow(moved);
        let freed = if stretch.sums.has(freed) { freed } else { self.of_sums(stretch) };
        let copied = match freed {
            0 => stretch.all_intra,
            _ if freed == blocks => stretch.all_inter,
            _ => stretch.all_intra + self.block_ns * freed as f64,
        };
        Some((freed, copied))
    }

    /// The minimum over up to a number of blocks, of which any may be freed.
    fn up_to(&mut self, holes: usize, blocks: usize) -> (f64, usize) {
        let last = blocks / self.step;
        let least_ns = self.least_ns.last().copied().unwrap_or(0.0);
        if self.rows.len() <= holes {
            self.rows.resize(holes + 1, Row::default());
        }
        let mut row = std::mem::take(&mut self.rows[holes]);
        let at = |freed: u32| (self.time_ns(holes, freed as usize), freed);
        let mut least = row.least.last().map_or((f64::INFINITY, 0), |&freed| at(freed));
        for number in row.least.len()..=last {
            let freed = number * self.step;
            // All that follow cost as much or more for their copies alone.
            row.is_whole |= self.block_ns >= 0.0 && self.time_by(holes, freed, least_ns) >= least.0;
            if row.is_whole {
                break;
            }
            let time_ns = self.time_ns(holes, freed);
            if time_ns < least.0 {
                least = (time_ns, freed as u32);
            }
            row.least.push(least.1);
        }
        let found = row.least.get(last).map_or(least, |&freed| at(freed));
        self.rows[holes] = row;
        (found.0, found.1 as usize)
    }

    /// The best sum of lengths, if the unrestricted minimum is not one.
    fn of_sums(&self, stretch: &Stretch) -> usize {
        let mut least = (f64::INFINITY, 0);
        for freed in (0..=stretch.blocks).step_by(self.step).filter(|&freed| stretch.sums.has(freed)) {
            let time_ns = self.time_ns(stretch.holes as usize, freed);
            if time_ns < least.0 {
                least = (time_ns, freed);
            }
        }
        least.1
    }

    /// The time of the holes in one request together with the freed blocks, plus the extra cost of
    /// freeing these.
    #[inline]
    fn time_ns(&self, holes: usize, freed: usize) -> f64 {
        self.time_by(holes, freed, self.request_ns.get(holes + freed).copied().unwrap_or(0.0))
    }

    #[inline]
    fn time_by(&self, holes: usize, freed: usize, request_ns: f64) -> f64 {
        // Without holes there is no request.
        let filled = if holes == 0 { 0.0 } else { holes as f64 * request_ns };
        self.block_ns * freed as f64 + filled
    }
}

/// The greatest common divisor.
fn common(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use super::*;

    #[test]
    fn sums_are_those_of_all_subsets() {
        let mut random = Random::new(1, "lengths");
        for _ in 0..200 {
            let lengths: Vec<u16> = (0..random.between(1, 9)).map(|_| 1 + random.below(150) as u16).collect();
            let runs: Vec<ValidRun> =
                lengths.iter().map(|&length| ValidRun { length, ..ValidRun::default() }).collect();
            let mut sums = Sums::default();
            (0..=runs.len()).step_by(2).for_each(|count| sums.follow(&runs[..count]));
            sums.follow(&runs);
            let of = |chosen: u32| lengths.iter().enumerate().filter(move |(at, _)| chosen >> at & 1 != 0);
            let all: Vec<usize> =
                (0..1 << runs.len()).map(|chosen| of(chosen).map(|(_, &length)| usize::from(length)).sum()).collect();
            (0..1500).for_each(|sum| assert_eq!(sums.has(sum), all.contains(&sum), "{lengths:?}: {sum}"));
        }
    }
}
