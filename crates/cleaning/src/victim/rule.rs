//! What a rule is, and what it sees of the candidates.

use std::cmp::Ordering;
use std::fmt;

use nandkit_units::{Nanos, random};

use super::index::IndexOrder;
use super::option::{OptionValues, RuleOption};
use super::{BlockView, Choice, Reason};

/// A uniform number below the given one, from a seeded stream.
pub type Draw<'a> = dyn FnMut(u32) -> u32 + 'a;

/// How blocks compare. A rule is a struct without fields and a file of its own; the guide page
/// `docs/guide/victim-policy.md` writes one.
///
/// Shares and ages are divided as 64-bit floating point numbers, whose basic operations give the
/// same on every machine. In the formulas `u` is the valid share of the whole block; free bytes
/// count as not valid.
pub trait VictimRule: fmt::Debug + Sync {
    /// Its name, for specs, titles and records; two rules of one name count as the same.
    fn name(&self) -> &'static str;

    /// What it was called up to version 0.1, where that was another name; it is still read.
    fn old_name(&self) -> Option<&'static str> {
        None
    }

    /// What it does, in one line.
    fn about(&self) -> &'static str {
        ""
    }

    /// Its options with their defaults, at most five.
    fn options(&self) -> &'static [RuleOption] {
        &[]
    }

    /// The victim, or `None` where there is no candidate. A rule draws at most once, and whether it
    /// does depends on nothing that it sees.
    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice>;

    /// Whether its authors let it take blocks of the queue `Clean`.
    fn opens_clean(&self) -> bool {
        false
    }

    /// Whether it takes the block with the fewest valid data: no other candidate then wins more
    /// than its victim does.
    fn looks_at_counts_only(&self) -> bool {
        false
    }

    /// Whether it takes the heads of JFFS2's lists ([`BlockView::queue`], [`BlockView::place`],
    /// [`BlockView::dirtied`]), so that only an owner that keeps lists can use it.
    fn needs_lists(&self) -> bool {
        false
    }

    /// Whether its authors draw from the ticks of the clock and not from a stream of numbers.
    fn draws_from_ticks(&self) -> bool {
        false
    }

    /// The order in which an index keeps the candidates for it; `None` where it looks at all of
    /// them.
    fn index(&self, options: &OptionValues) -> Option<IndexOrder> {
        let _ = options;
        None
    }
}

/// Shows all candidates to a function, in runs.
pub(super) type Visit<'a> = dyn Fn(&mut dyn FnMut(&[BlockView])) + 'a;

/// The blocks that may be chosen, and what else a rule may know. Each look at all of them asks the
/// owner for all of them.
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
    /// Shows each candidate once.
    pub fn for_each(&self, mut visit: impl FnMut(&BlockView)) {
        (self.visit)(&mut |views| views.iter().for_each(&mut visit));
    }

    /// How many of them pass.
    pub fn count(&self, passes: impl Fn(&BlockView) -> bool) -> u32 {
        let mut count = 0;
        self.for_each(|view| count += u32::from(passes(view)));
        count
    }

    /// The candidate with the least key, the lowest block among equals, and how many there are.
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

    /// The head of an order that the authors' structures keep: the candidate with the least key.
    /// It is the only one that is evaluated.
    pub fn head<K: Ord>(&self, key: impl Fn(&BlockView) -> K) -> Option<BlockView> {
        self.min_by_key(key).map(|(view, _)| view)
    }

    /// Chooses the block with the least key, the lowest among equals; all are evaluated.
    pub fn best<K: Ord>(&self, key: impl Fn(&BlockView) -> K) -> Option<Choice> {
        let (victim, evaluated) = self.min_by_key(key)?;
        Some(Choice { block: victim.block, reason: Reason::Best, evaluated })
    }

    /// Chooses the block with the least cost, the lowest among equals; all are evaluated. No number
    /// (NaN) comes after all others.
    pub fn least(&self, cost: impl Fn(&BlockView) -> f64) -> Option<Choice> {
        self.best(|view| Score::of(cost(view)))
    }

    /// The least and the greatest of a figure.
    pub fn range(&self, figure: impl Fn(&BlockView) -> u64) -> Option<(u64, u64)> {
        let mut range = None;
        self.for_each(|view| {
            let value = figure(view);
            let (least, most) = range.unwrap_or((value, value));
            range = Some((value.min(least), value.max(most)));
        });
        range
    }

    /// The `count` candidates (at least one) with the least keys, in no particular order, of those
    /// that `passes` lets through.
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

    /// These blocks as the candidates of another choice.
    pub fn among<R>(&self, views: &[BlockView], then: impl FnOnce(&Candidates<'_>) -> R) -> R {
        let visit = |each: &mut dyn FnMut(&[BlockView])| each(views);
        then(&Candidates { visit: &visit, ..*self })
    }
}

/// A random order of blocks that does not depend on the order in which they are offered: less is
/// earlier.
pub fn random_order(draw: &mut Draw<'_>) -> impl Fn(&BlockView) -> u64 + use<> {
    let salt = u64::from(draw(u32::MAX));
    move |view| random::hash(salt, u64::from(view.block), 0)
}

/// A cost with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score(f64);

impl Score {
    fn of(cost: f64) -> Self {
        // Adding zero makes -0 and 0 the same.
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
