//! The interface of rules, and their view of the candidates.

use std::cmp::Ordering;
use std::fmt;

use nandkit_units::{Nanos, random};

use super::index::IndexOrder;
use super::option::{OptionValues, RuleOption};
use super::{BlockView, Choice, Reason};

/// Draws a uniform number below the given one, from a seeded stream.
pub type Draw<'a> = dyn FnMut(u32) -> u32 + 'a;

/// How blocks compare. A rule is a struct without fields, in its own file; the guide page
/// `docs/guide/victim-policy.md` writes one.
///
/// Shares and ages are divided as 64-bit floating-point numbers, whose basic operations give the
/// same results on every machine. In the formulas, `u` is the valid share of the whole block; free
/// bytes count as not valid.
pub trait VictimRule: fmt::Debug + Sync {
    /// Its name, for specs, titles and records; rules with the same name are equal.
    fn name(&self) -> &'static str;

    /// Its name up to version 0.1, if that differed; it is still accepted.
    fn old_name(&self) -> Option<&'static str> {
        None
    }

    /// A one-line description.
    fn about(&self) -> &'static str {
        ""
    }

    /// Its options with their defaults, at most five.
    fn options(&self) -> &'static [RuleOption] {
        &[]
    }

    /// The victim; `None` without candidates. A rule draws at most once, and whether it draws does
    /// not depend on the candidates.
    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice>;

    /// Whether its authors let it take blocks of the queue `Clean`.
    fn opens_clean(&self) -> bool {
        false
    }

    /// Whether it takes the block with the least valid data, so that no other candidate gains more.
    fn looks_at_counts_only(&self) -> bool {
        false
    }

    /// Whether it takes the heads of JFFS2's lists ([`BlockView::queue`], [`BlockView::place`],
    /// [`BlockView::dirtied`]), so that only an owner with such lists can use it.
    fn needs_lists(&self) -> bool {
        false
    }

    /// Whether its authors draw from the clock's ticks instead of a stream of numbers.
    fn draws_from_ticks(&self) -> bool {
        false
    }

    /// The order in which an index can keep the candidates for it; `None` if it looks at all of
    /// them.
    fn index(&self, options: &OptionValues) -> Option<IndexOrder> {
        let _ = options;
        None
    }
}

/// Passes all candidates to a function, in chunks.
pub(super) type Visit<'a> = dyn Fn(&mut dyn FnMut(&[BlockView])) + 'a;

/// The blocks that may be chosen, and what else a rule may know. Each pass over them asks the owner
/// for all of them.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    /// The time of the choice.
    pub now: Nanos,
    /// Whether blocks of the queue `Clean` are among the candidates.
    pub open_clean: bool,
    pub(super) visit: &'a Visit<'a>,
}

impl fmt::Debug for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates")
            .field("now", &self.now)
            .field("open_clean", &self.open_clean)
            .finish_non_exhaustive()
    }
}

impl Candidates<'_> {
    /// Passes each candidate to `visit` once.
    pub fn for_each(&self, mut visit: impl FnMut(&BlockView)) {
        (self.visit)(&mut |views| views.iter().for_each(&mut visit));
    }

    /// The number of candidates that pass.
    pub fn count(&self, passes: impl Fn(&BlockView) -> bool) -> u32 {
        let mut count = 0;
        self.for_each(|view| count += u32::from(passes(view)));
        count
    }

    /// The candidate with the least key, the lowest block among equals, and the number of
    /// candidates.
    fn min_by_key<K: Ord>(&self, key: impl Fn(&BlockView) -> K) -> Option<(BlockView, u32)> {
        let (mut best, mut count) = (None::<(K, BlockView)>, 0);
        self.for_each(|view| {
            count += 1;
            let key = key(view);
            let is_better = match &best {
                None => true,
                Some((least, of)) => (&key, view.block) < (least, of.block),
            };
            if is_better {
                best = Some((key, *view));
            }
        });
        best.map(|(_, view)| (view, count))
    }

    /// The head of an order that the authors' data structures maintain: the candidate with the
    /// least key. Only it counts as evaluated.
    pub fn head<K: Ord>(&self, key: impl Fn(&BlockView) -> K) -> Option<BlockView> {
        self.min_by_key(key).map(|(view, _)| view)
    }

    /// Chooses the block with the least key, the lowest among equals; all count as evaluated.
    pub fn best<K: Ord>(&self, key: impl Fn(&BlockView) -> K) -> Option<Choice> {
        let (victim, evaluated) = self.min_by_key(key)?;
        Some(Choice { block: victim.block, reason: Reason::Best, evaluated })
    }

    /// Chooses the block with the least cost, the lowest among equals; all count as evaluated. NaN
    /// sorts last.
    pub fn least(&self, cost: impl Fn(&BlockView) -> f64) -> Option<Choice> {
        self.best(|view| Score::of(cost(view)))
    }

    /// The minimum and maximum of a figure.
    pub fn range(&self, figure: impl Fn(&BlockView) -> u64) -> Option<(u64, u64)> {
        let mut range = None;
        self.for_each(|view| {
            let value = figure(view);
            let (least, most) = range.unwrap_or((value, value));
            range = Some((value.min(least), value.max(most)));
        });
        range
    }

    /// The `count` candidates (at least one) with the least keys among those that `passes` accepts,
    /// in no particular order.
    pub fn first<K: Ord>(
        &self,
        count: usize,
        passes: impl Fn(&BlockView) -> bool,
        key: impl Fn(&BlockView) -> K,
    ) -> Vec<BlockView> {
        let (mut all, count) = (Vec::new(), count.max(1));
        self.for_each(|view| {
            if passes(view) {
                all.push(*view);
            }
        });
        if count < all.len() {
            all.select_nth_unstable_by_key(count - 1, key);
            all.truncate(count);
        }
        all
    }

    /// Runs another choice among these blocks.
    pub fn among<R>(&self, views: &[BlockView], then: impl FnOnce(&Candidates<'_>) -> R) -> R {
        let visit = |each: &mut dyn FnMut(&[BlockView])| each(views);
        then(&Candidates { visit: &visit, ..*self })
    }
}

/// A random order of blocks that does not depend on the order in which they are offered; a lower
/// value is earlier.
pub fn random_order(draw: &mut Draw<'_>) -> impl Fn(&BlockView) -> u64 + use<> {
    let salt = u64::from(draw(u32::MAX));
    move |view| random::hash(salt, u64::from(view.block), 0)
}

/// A cost with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score(f64);

impl Score {
    fn of(cost: f64) -> Self {
        // Adding zero turns -0 into 0.
        Self(if cost.is_nan() { f64::INFINITY } else { cost + 0.0 })
    }
}

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
