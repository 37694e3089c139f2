//! How blocks compare.

use std::cmp::{Ordering, Reverse};
use std::ops::RangeInclusive;

use nandkit_units::{Nanos, random};

use super::{BlockView, Choice, Queue, Reason};

/// The end points of an age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Age {
    /// Since the block was last written. The default.
    #[default]
    Written,
    /// Since the block was first written after its erase.
    Created,
}

impl Age {
    /// The age in nanoseconds; 0 where the clock stands before it.
    fn of(self, view: &BlockView, now: Nanos) -> u64 {
        now.since(match self {
            Self::Written => view.written,
            Self::Created => view.first_written,
        })
        .get()
    }
}

/// What P2 leaves open in cost-age-times, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CatParameters {
    /// Added to the erase count. Without it (0) every block that was never erased since its count is known, thus every block after a mount
    /// of a format that stores none, is the best victim however much it holds. Default 1.
    pub erase_offset: u32,
    /// What the age counts from. P2: since the block "was created". Default [`Age::Created`].
    pub age: Age,
    /// The unit of the age and its least value, in nanoseconds (0 counts as 1): a younger block counts as one unit old, so that age 0 is no division by
    /// zero; ages are not rounded. The unit itself cancels out. Default 1 ms.
    pub age_unit: u64,
    /// Where clean blocks are open to victims, the least that a block counts as invalid, in thousandths of the block. Without it (0) a block without invalid
    /// data comes after all others whatever its age. Default 10.
    pub invalid_floor: u32,
}

impl CatParameters {
    /// The defaults that the fields name.
    pub const DEFAULT: Self = Self { erase_offset: 1, age: Age::Created, age_unit: 1_000_000, invalid_floor: 10 };
}

impl Default for CatParameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A rule that its user wrote: the block with the least cost. The guide page `docs/guide/victim-policy.md` shows one.
#[derive(Clone, Copy, Debug)]
pub struct OwnRule {
    /// Its name, for titles and records; two rules of one name count as the same.
    pub name: &'static str,
    /// The cost of cleaning a block at an instant. No number (NaN) comes after all others.
    pub cost: fn(&BlockView, Nanos) -> f64,
}

impl PartialEq for OwnRule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// How blocks compare. `u` is the valid share of the whole block (free bytes count as not valid). Shares and ages are divided as 64-bit floating point numbers,
/// whose basic operations give the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// What JFFS2 does in Linux 6.1 (`fs/jffs2/gc.c`): a block of `BadUsed` if there is one; else a draw `n` of `0..128` (the kernel takes its
    /// tick count modulo 128) picks the list: under 50 `Erasable`, under 110 `VeryDirty`, under 126 `Dirty`, each where it is not empty, else `Clean`. Where that
    /// too is empty: `Dirty`, `VeryDirty`, `Erasable`, in this order. The victim is the list's head.
    Linux,
    /// P2's account of JFFS2: the head of one list of all blocks with invalid data, in the order of [`BlockView::dirtied`].
    P2Baseline,
    /// The block first written longest ago.
    Fifo,
    /// The block with the most invalid and free bytes, the one first written longest ago among equals. The default.
    #[default]
    Greedy,
    /// The same, one by lot among equals: what mean-field theory takes for granted (Van Houdt, Performance Evaluation 70, 2013). The oldest of equal blocks is more often a cold one.
    GreedyByLot,
    /// The greatest `(1 - u) * age / (1 + u)`: the log-structured file system of Rosenblum and Ousterhout (ACM TOCS 10(1), 1992).
    CostBenefit {
        /// What the age counts from; there, the youngest datum of the segment.
        age: Age,
    },
    /// The greatest `age * (1 - u) / (2 * u)`; `u = 0` wins at once. P1's rule, first in Kawaguchi, Nishioka and Motoda (USENIX 1995). P1 takes the smallest age
    /// among the block's data from writing to invalidation, which nobody knows before they are invalid; here, the time since the last write.
    Kawaguchi {
        /// What the age counts from.
        age: Age,
    },
    /// F2FS's background cleaning in Linux 6.1 (`fs/f2fs/gc.c`), in whole numbers: the greatest `100 * (100 - u) * a / (100 + u)`, `u` in per cent,
    /// `a` from 0 (youngest) to 100 (oldest) of the range of last writes. The kernel's range is over every segment ever seen, here over the candidates.
    F2fs,
    /// P2's cost-age-times: the smallest `(valid / invalid) * (1 / age) * erases`.
    Cat(CatParameters),
    /// Cost-age-times as by its authors (Chiang and Chang, Journal of Systems and Software 48, 1999): the smallest `u / (1 - u) * (1 / age) * erases`,
    /// age since the segment was created. Free bytes count as won. Theirs is scaled by a table that keeps age from outweighing all else; here, where
    /// `log_age` is set, it is the whole binary logarithm of the age in units, plus 1: ours, not theirs.
    Chiang {
        /// What their text leaves open.
        parameters: CatParameters,
        /// Whether the logarithm of the age is taken.
        log_age: bool,
    },
    /// Greedy among `d` different candidates, drawn uniformly, by lot among equals (Van Houdt, SIGMETRICS 2013; the randomised greedy algorithm of Li, Lee and Lui, ibid.).
    DChoices {
        /// Candidates drawn, 1 to 64; more count as 64, 0 as 1.
        d: u32,
    },
    /// A candidate drawn uniformly.
    Random,
    /// Greedy among the `window` candidates first written longest ago (Hu et al., SYSTOR 2009).
    WindowedGreedy {
        /// The size of the window; 0 counts as 1.
        window: u32,
    },
    /// Age-threshold cleaning of F2FS (Linux since 5.10, `fs/f2fs/gc.c`): among the oldest `percent` of the candidates, at least `least` of them, whose last write
    /// lies at least `threshold` before the newest one, the greatest `weight * age% + (100 - weight) * (1 - u)`. Where none is that old, the threshold
    /// does not count, so that a full store always has a victim.
    AgeThreshold {
        /// The least age, counted from the newest last write. Linux: 7 days.
        threshold: Nanos,
        /// The share of the candidates. Linux: 20.
        percent: u32,
        /// Their least number. Linux: 10.
        least: u32,
        /// The weight of age, 0 to 100. Linux: 60.
        weight: u32,
    },
    /// Greedy that spares worn blocks: the smallest `(1 - l) * u + l * (erases - least) / (most - least)`, with `l = gap / (gap + balance)` and `gap` the difference of
    /// the greatest and the least erase count. After Kim and Lee's cleaning index (IEICE 2002); the form of `l` is ours.
    WearAware {
        /// The gap at which wear counts as much as space; 0: wear alone.
        balance: u32,
    },
    /// A rule from outside; it has no name that specs could give.
    Own(OwnRule),
}

impl Rule {
    /// Whether the rule's authors let it take blocks of the queue `Clean`: only `linux` does.
    pub const fn opens_clean(&self) -> bool {
        matches!(self, Self::Linux)
    }

    /// Whether the rule takes the block with the fewest valid data: no other candidate then wins
    /// more than its victim does.
    pub const fn looks_at_counts_only(&self) -> bool {
        matches!(self, Self::Greedy | Self::GreedyByLot)
    }

    /// Whether the rule takes the heads of JFFS2's lists ([`BlockView::queue`],
    /// [`BlockView::place`], [`BlockView::dirtied`]), so that only an owner that keeps lists can
    /// use it.
    pub const fn needs_lists(&self) -> bool {
        matches!(self, Self::Linux | Self::P2Baseline)
    }

    /// The victim among the candidates.
    pub(super) fn choose(
        &self,
        blocks: impl Iterator<Item = BlockView> + Clone,
        now: Nanos,
        open_clean: bool,
        draw: &mut impl FnMut(u32) -> u32,
    ) -> Option<Choice> {
        match *self {
            Self::Linux => linux(blocks, draw(128)),
            Self::P2Baseline => head(blocks, open_clean),
            Self::Fifo => {
                let victim = blocks.min_by_key(|view| (view.first_written, view.block))?;
                Some(Choice { block: victim.block, reason: Reason::Best, evaluated: 1 })
            }
            Self::Greedy => best(blocks, |view| (view.valid, view.first_written)),
            Self::GreedyByLot => {
                let salt = salt(draw);
                best(blocks, |view| (view.valid, random::hash(salt, u64::from(view.block), 0)))
            }
            Self::CostBenefit { age } => least(blocks, |view| {
                let (valid, capacity) = (view.valid as f64, view.capacity().max(1) as f64);
                -((capacity - valid) * age.of(view, now) as f64) / (capacity + valid)
            }),
            Self::Kawaguchi { age } => least(blocks, |view| match (view.valid, view.capacity()) {
                (0, _) => f64::NEG_INFINITY,
                (valid, all) => -(age.of(view, now) as f64 * (all - valid) as f64) / (2.0 * valid as f64),
            }),
            Self::F2fs => f2fs(blocks),
            Self::Cat(parameters) => least(blocks, |view| {
                let floor = if open_clean { parameters.floor(view) } else { 0 };
                ratio(view.valid, view.invalid.max(floor)) * parameters.wear_by_age(view, now, false)
            }),
            Self::Chiang { parameters, log_age } => least(blocks, |view| {
                let floor = if open_clean { parameters.floor(view) } else { 0 };
                let won = view.invalid.saturating_add(view.free).max(floor);
                ratio(view.valid, won) * parameters.wear_by_age(view, now, log_age)
            }),
            Self::DChoices { d } => d_choices(blocks, d, salt(draw)),
            Self::Random => {
                let salt = salt(draw);
                let victim = blocks.min_by_key(|view| (random::hash(salt, u64::from(view.block), 0), view.block))?;
                Some(Choice { block: victim.block, reason: Reason::Drawn, evaluated: 1 })
            }
            Self::WindowedGreedy { window } => {
                let oldest = oldest(blocks, window as usize, |view| (view.first_written, view.block));
                best(oldest.into_iter(), |view| (view.valid, view.first_written))
            }
            Self::AgeThreshold { threshold, percent, least, weight } => {
                age_threshold(blocks, threshold, percent, least, weight.min(100))
            }
            Self::WearAware { balance } => wear_aware(blocks, balance),
            Self::Own(rule) => least(blocks, |view| {
                let cost = (rule.cost)(view, now);
                if cost.is_nan() { f64::INFINITY } else { cost }
            }),
        }
    }
}

impl CatParameters {
    /// The bytes that `view` counts as invalid at least.
    fn floor(&self, view: &BlockView) -> u64 {
        (u128::from(view.capacity()) * u128::from(self.invalid_floor) / 1000).min(u128::from(u64::MAX)) as u64
    }

    /// Erases over age.
    fn wear_by_age(&self, view: &BlockView, now: Nanos, log: bool) -> f64 {
        let unit = self.age_unit.max(1);
        let age = self.age.of(view, now).max(unit);
        let erases = u64::from(view.erases) + u64::from(self.erase_offset);
        if log { erases as f64 / f64::from((age / unit).ilog2() + 1) } else { erases as f64 * unit as f64 / age as f64 }
    }
}

/// `cost / gain`: no cost is best of all, cost without gain the worst. Nothing valid and nothing to gain is a block that costs nothing.
fn ratio(cost: u64, gain: u64) -> f64 {
    match (cost, gain) {
        (0, _) => 0.0,
        // Beyond every quotient, and still finite times an erase count: infinity times zero would be no number.
        (_, 0) => 1e200,
        _ => cost as f64 / gain as f64,
    }
}

/// A fresh number for [`random::hash`], which puts the blocks into a random order that does not depend on the order in which they are offered.
fn salt(draw: &mut impl FnMut(u32) -> u32) -> u64 {
    u64::from(draw(u32::MAX))
}

/// The block with the least key, the lowest among equals; all are evaluated.
fn best<K: Ord>(blocks: impl Iterator<Item = BlockView>, key: impl Fn(&BlockView) -> K) -> Option<Choice> {
    let mut evaluated = 0;
    let victim = blocks.inspect(|_| evaluated += 1).min_by_key(|view| (key(view), view.block))?;
    Some(Choice { block: victim.block, reason: Reason::Best, evaluated })
}

/// A score with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score(f64);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The block with the least score, the lowest among equals; all are evaluated.
fn least(blocks: impl Iterator<Item = BlockView>, score: impl Fn(&BlockView) -> f64) -> Option<Choice> {
    // Adding zero makes -0 and 0 the same.
    best(blocks, |view| Score(score(view) + 0.0))
}

/// The heads of the lists, then the list by the draw.
fn linux(blocks: impl Iterator<Item = BlockView>, n: u32) -> Option<Choice> {
    use Queue::{BadUsed, Clean, Dirty, Erasable, VeryDirty};
    let mut heads: [Option<(i64, u32)>; 5] = [None; 5];
    for view in blocks {
        let (head, here) = (&mut heads[view.queue as usize], (view.place, view.block));
        *head = Some(head.map_or(here, |head| head.min(here)));
    }
    let by_draw = [(BadUsed, true), (Erasable, n < 50), (VeryDirty, n < 110), (Dirty, n < 126), (Clean, true)];
    let fall_back = [(Dirty, true), (VeryDirty, true), (Erasable, true)];
    by_draw.into_iter().chain(fall_back).filter(|&(_, asked)| asked).find_map(|(queue, _)| {
        let (_, block) = heads[queue as usize]?;
        Some(Choice { block, reason: Reason::Head(queue), evaluated: 1 })
    })
}

/// The head of the one dirty list, blocks without valid data in it as they come; clean blocks, where they are open, after it in their own order.
fn head(blocks: impl Iterator<Item = BlockView>, open_clean: bool) -> Option<Choice> {
    let victim = blocks.filter(|view| open_clean || view.queue != Queue::Clean).min_by_key(|view| {
        let clean = view.queue == Queue::Clean;
        (clean, if clean { view.place } else { view.dirtied }, view.block)
    })?;
    Some(Choice { block: victim.block, reason: Reason::Head(victim.queue), evaluated: 1 })
}

fn f2fs(blocks: impl Iterator<Item = BlockView> + Clone) -> Option<Choice> {
    let (oldest, newest) = range(blocks.clone().map(|view| view.modified().get()))?;
    best(blocks, |view| Reverse(f2fs_benefit(view.valid, view.capacity(), view.modified().get(), oldest..=newest)))
}

/// The benefit of cleaning a block by [`Rule::F2fs`], 0 to 10 000: `valid` of `capacity` are in
/// use,
/// `modified` is the mean time of the last writes, and `times` spans those of all blocks. The unit
/// of times cancels out. F2FS itself searches by this formula too (`fs/f2fs/gc.c`, `get_cb_cost`).
pub fn f2fs_benefit(valid: u64, capacity: u64, modified: u64, times: RangeInclusive<u64>) -> u64 {
    let (oldest, newest) = times.into_inner();
    let used = percent(valid, capacity);
    let age = match newest.saturating_sub(oldest) {
        0 => 0,
        span => 100 - percent(modified.saturating_sub(oldest), span),
    };
    100 * (100 - used) * age / (100 + used)
}

/// `100 * part / whole` rounded down, at most 100; 0 of nothing.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0).min(100) as u64
}

/// The least and the greatest.
fn range(values: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    values.fold(None, |range, value| {
        let (least, most) = range.unwrap_or((value, value));
        Some((value.min(least), value.max(most)))
    })
}

fn d_choices(blocks: impl Iterator<Item = BlockView>, d: u32, salt: u64) -> Option<Choice> {
    const MOST: usize = 64;
    let d = (d.max(1) as usize).min(MOST);
    // The d blocks that come first in the random order, kept in that order: an insertion is rare after the first d.
    let mut drawn: [(u64, BlockView); MOST] = [(u64::MAX, BlockView::default()); MOST];
    let mut count = 0;
    for view in blocks {
        let rank = (random::hash(salt, u64::from(view.block), 0), view.block);
        if count == d && drawn.get(d - 1).is_some_and(|(hash, last)| rank >= (*hash, last.block)) {
            continue;
        }
        let filled = &mut drawn[..(count + 1).min(d)];
        count = filled.len();
        let place = filled[..count - 1].partition_point(|(hash, view)| (*hash, view.block) < rank);
        filled[place..].rotate_right(1);
        filled[place] = (rank.0, view);
    }
    // Of equal ones the first drawn, as likely any of them: theory draws too, and hot and cold blocks with equal counts are not alike.
    let victim = drawn[..count].iter().map(|(_, view)| view).min_by_key(|view| view.valid)?;
    Some(Choice { block: victim.block, reason: Reason::Best, evaluated: count as u32 })
}

/// The `count` blocks (at least one) with the least keys, in no particular order.
fn oldest<K: Ord>(
    blocks: impl Iterator<Item = BlockView>,
    count: usize,
    key: impl Fn(&BlockView) -> K,
) -> Vec<BlockView> {
    let (mut all, count) = (blocks.collect::<Vec<_>>(), count.max(1));
    if count < all.len() {
        all.select_nth_unstable_by_key(count - 1, key);
        all.truncate(count);
    }
    all
}

fn age_threshold(
    blocks: impl Iterator<Item = BlockView> + Clone,
    threshold: Nanos,
    share: u32,
    least: u32,
    weight: u32,
) -> Option<Choice> {
    let (first, newest) = range(blocks.clone().map(|view| view.modified().get()))?;
    let old_enough = |view: &BlockView| newest - view.modified().get() >= threshold.get();
    let total = blocks.clone().count();
    let passed = blocks.clone().filter(old_enough).count();
    let everyone = passed == 0;
    let candidates = if everyone { total } else { passed } as u64;
    let window = (candidates * u64::from(share.min(100)) / 100).max(u64::from(least));
    let oldest = oldest(
        blocks.filter(|view| everyone || old_enough(view)),
        usize::try_from(window).unwrap_or(usize::MAX),
        |view| (view.modified(), view.block),
    );
    let span = (newest - first) as f64 + 1.0;
    let choice = self::least(oldest.into_iter(), |view| {
        let age = ((newest - view.modified().get()) as f64 + 1.0) / span;
        let gain = (view.capacity() - view.valid) as f64 / view.capacity().max(1) as f64;
        -(f64::from(weight) * age + f64::from(100 - weight) * gain)
    })?;
    // The tree of candidates is built from all blocks.
    Some(Choice { evaluated: u32::try_from(total).unwrap_or(u32::MAX), ..choice })
}

fn wear_aware(blocks: impl Iterator<Item = BlockView> + Clone, balance: u32) -> Option<Choice> {
    let (fewest, most) = range(blocks.clone().map(|view| u64::from(view.erases)))?;
    let gap = (most - fewest) as f64;
    let weight = if most == fewest { 0.0 } else { gap / (gap + f64::from(balance)) };
    least(blocks, |view| {
        let u = view.valid as f64 / view.capacity().max(1) as f64;
        let wear = (u64::from(view.erases) - fewest) as f64 / gap.max(1.0);
        (1.0 - weight) * u + weight * wear
    })
}
