//! P2's cost-age-times.

use super::age::age_at;
use super::cost_age::{AGE_CREATED, AGE_UNIT, CatFigures, ERASE_OFFSET, INVALID_FLOOR, ratio};
use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

/// Takes the smallest `(valid / invalid) * (1 / age) * erases`. The options are what P2 leaves
/// open.
#[derive(Clone, Copy, Debug)]
pub struct Cat;

impl VictimRule for Cat {
    fn name(&self) -> &'static str {
        "cat"
    }

    fn about(&self) -> &'static str {
        "P2's cost-age-times: the smallest valid/invalid * 1/age * erases"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[ERASE_OFFSET, AGE_CREATED, AGE_UNIT, INVALID_FLOOR]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let figures = CatFigures::new(candidates, options);
        let age = age_at(candidates.now, options);
        candidates.least(|view| {
            let age = age(view).max(figures.unit);
            let wear_by_age = figures.erases(view) * figures.unit as f64 / age as f64;
            ratio(view.valid, view.invalid.max(figures.floor(view))) * wear_by_age
        })
    }
}
