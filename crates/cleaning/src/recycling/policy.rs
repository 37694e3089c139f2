//! The recycling policies of P4.

use super::{AlphaEstimator, Costs, PeriodHistory};

/// What to do with a full log block. A log block that holds every page in order becomes the data
/// block (swap merge) before a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recycling {
    /// Copy all pages of log and data block into a new data block.
    Merge,
    /// Copy the valid pages of the log block into a new log block.
    Migrate,
}

/// What a policy knows about the log block.
#[derive(Clone, Copy, Debug)]
pub struct RecyclingState {
    /// Pages that a migration would copy now.
    pub p: u32,
    /// Migrations of this block since its last merge.
    pub migrations_in_row: u64,
    /// The `p` of those migrations.
    pub history: PeriodHistory,
    /// The chip's costs.
    pub costs: Costs,
}

/// Decides between merge and migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecyclingPolicy {
    /// Always merge.
    #[default]
    Merge,
    /// P4's "merge+migration": migrate while `p < Np / 2`.
    CostBased,
    /// P4's LIMIT: cost-based, but at most `max` migrations in a row. `None` means `Np / 2`, P4's
    /// value.
    Limit {
        /// The most migrations in a row.
        max: Option<u64>,
    },
    /// P4's macroscopic optimisation: cost-based, with a merge once the period has had the optimal
    /// number of migrations for the current estimate of `alpha`, whose newest sample is the
    /// migration under consideration.
    ///
    /// Without an optimum (`alpha <= 0`, or too few samples) it acts like LIMIT with `cap`. `W(n)`
    /// then falls with every further migration as long as the past continues, which the formula
    /// assumes and nobody can promise. The cap bounds what a flat block full of pages that are
    /// never written again (P4's event recorder) keeps costing, at the price of at most one merge
    /// per `cap` migrations.
    Macroscopic {
        /// How `alpha` is estimated.
        estimator: AlphaEstimator,
        /// The most migrations in a row while no estimate is above zero; `None`: `Np / 2`.
        cap: Option<u64>,
    },
}

impl RecyclingPolicy {
    /// Decides about a log block. Always merges if a migration would free nothing (`p >= Np`) or
    /// there is nothing to migrate (`p = 0`: a merge then costs less than the empty log block that
    /// it saves).
    pub fn decide(&self, state: &RecyclingState) -> Recycling {
        let np = state.costs.pages_per_block;
        // P4's rule as stated in the paper, `p < Np / 2`, without division.
        let cheaper = state.p > 0 && u64::from(state.p) * 2 < u64::from(np);
        let migrate = cheaper
            && match *self {
                Self::Merge => false,
                Self::CostBased => true,
                Self::Limit { max } => state.migrations_in_row < max.unwrap_or(u64::from(np / 2)),
                Self::Macroscopic { estimator, cap } => {
                    let best = self.alpha(state, estimator).and_then(|alpha| state.costs.best_migrations(alpha));
                    state.migrations_in_row < best.unwrap_or(cap.unwrap_or(u64::from(np / 2)))
                }
            };
        if migrate { Recycling::Migrate } else { Recycling::Merge }
    }

    fn alpha(&self, state: &RecyclingState, estimator: AlphaEstimator) -> Option<f64> {
        state.history.with(state.p).alpha(estimator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(p: u32, history: &[u32]) -> RecyclingState {
        let history = history.iter().fold(PeriodHistory::default(), |history, &p| history.with(p));
        RecyclingState { p, migrations_in_row: history.count(), history, costs: Costs::P4 }
    }

    /// The number of migrations that the policy makes in a period in which migration n copies
    /// `p(n)` pages; at most `give_up`.
    fn migrations(policy: RecyclingPolicy, p: impl Fn(u64) -> u32, give_up: usize) -> usize {
        let mut past = Vec::new();
        while past.len() < give_up {
            let now = p(past.len() as u64 + 1);
            if policy.decide(&state(now, &past)) == Recycling::Merge {
                break;
            }
            past.push(now);
        }
        past.len()
    }

    const ORIGIN: RecyclingPolicy = RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Origin, cap: None };
    const REGRESSION: RecyclingPolicy =
        RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Regression, cap: None };

    #[test]
    fn cost_based_turns_at_half_the_block() {
        for (p, expected) in
            [(0, Recycling::Merge), (1, Recycling::Migrate), (63, Recycling::Migrate), (64, Recycling::Merge)]
        {
            assert_eq!(RecyclingPolicy::CostBased.decide(&state(p, &[])), expected, "{p}");
            assert_eq!(RecyclingPolicy::Merge.decide(&state(p, &[])), Recycling::Merge);
        }
    }

    #[test]
    fn limit_counts_migrations() {
        assert_eq!(migrations(RecyclingPolicy::Limit { max: None }, |_| 3, 1000), 64);
        assert_eq!(migrations(RecyclingPolicy::Limit { max: Some(5) }, |_| 3, 1000), 5);
        assert_eq!(migrations(RecyclingPolicy::Limit { max: Some(0) }, |_| 3, 1000), 0);
        assert_eq!(migrations(RecyclingPolicy::CostBased, |_| 3, 1000), 1000);
    }

    #[test]
    fn macroscopic_merges_near_the_optimum_of_linear_growth() {
        // p grows by one page per ten migrations: alpha = 0.1, optimum 49. Whole pages make the
        // estimate vary a little.
        let grow = |n: u64| 1 + (n / 10) as u32;
        let origin = migrations(ORIGIN, grow, 1000);
        assert!((40..=50).contains(&origin), "{origin}");
        let regression = migrations(REGRESSION, grow, 1000);
        assert!((30..=64).contains(&regression), "{regression}");
    }

    #[test]
    fn a_block_that_starts_full_and_stays_flat_is_merged_as_documented() {
        // Event recorder: 60 pages from formatting, then nothing new. Origin: alpha = 60 at once,
        // and a merge soon frees the block.
        assert!(migrations(ORIGIN, |_| 60, 1000) <= 8);
        // Regression sees no growth; the cap ends it.
        assert_eq!(migrations(REGRESSION, |_| 60, 1000), 64);
        let capped = RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Regression, cap: Some(7) };
        assert_eq!(migrations(capped, |_| 60, 1000), 7);
        // The cost-based policy never stops.
        assert_eq!(migrations(RecyclingPolicy::CostBased, |_| 60, 1000), 1000);
    }

    #[test]
    fn shrinking_p_counts_as_no_growth() {
        assert_eq!(migrations(REGRESSION, |n| 60 - (n.min(50) as u32), 1000), 64);
    }
}
