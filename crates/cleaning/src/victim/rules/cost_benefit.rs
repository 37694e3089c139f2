//! The cost-benefit rule of the log-structured file system.

use super::age::{AGE, age_at};
use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

/// Takes the greatest `(1 - u) * age / (1 + u)` (Rosenblum and Ousterhout, ACM TOCS 10(1), 1992).
/// Their age is that of the youngest data in the segment.
#[derive(Clone, Copy, Debug)]
pub struct CostBenefit;

impl VictimRule for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn about(&self) -> &'static str {
        "Rosenblum and Ousterhout: the greatest (1-u)*age/(1+u)"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[AGE]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let age = age_at(candidates.now, options);
        candidates.least(|view| {
            let (valid, capacity) = (view.valid as f64, view.capacity().max(1) as f64);
            -((capacity - valid) * age(view) as f64) / (capacity + valid)
        })
    }
}
