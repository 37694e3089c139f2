//! Kawaguchi's cost-benefit rule, which P1 uses.

use super::age::{AGE, age_at};
use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

/// Takes the greatest `age * (1 - u) / (2 * u)`; `u = 0` wins at once. First in Kawaguchi, Nishioka
/// and Motoda (USENIX 1995). P1 uses the smallest age of the block's data from writing to
/// invalidation, which is unknown until it is invalid; here it is the time since the last write.
#[derive(Clone, Copy, Debug)]
pub struct CostBenefitP1;

impl VictimRule for CostBenefitP1 {
    fn name(&self) -> &'static str {
        "cost-benefit-p1"
    }

    fn about(&self) -> &'static str {
        "Kawaguchi, and P1: the greatest age*(1-u)/(2u)"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[AGE]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let age = age_at(candidates.now, options);
        candidates.least(|view| match (view.valid, view.capacity()) {
            (0, _) => f64::NEG_INFINITY,
            (valid, all) => -(age(view) as f64 * (all - valid) as f64) / (2.0 * valid as f64),
        })
    }
}
