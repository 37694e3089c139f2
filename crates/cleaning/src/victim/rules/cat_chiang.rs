//! Cost-age-times by its original authors.

use super::age::age_at;
use super::cost_age::{AGE_CREATED, AGE_UNIT, CatFigures, ERASE_OFFSET, INVALID_FLOOR, ratio};
use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

/// Their age is scaled by a table that keeps it from outweighing the rest; the logarithm is ours:
/// the integer binary logarithm of the age in units, plus 1.
const LOG_AGE: RuleOption = RuleOption::word("log-age", &["no", "yes"], "yes or no: take the logarithm of the age");

/// Takes the smallest `u / (1 - u) * (1 / age) * erases`, with the age since the segment was
/// created (Chiang and Chang, Journal of Systems and Software 48, 1999). Free bytes count as
/// gained.
#[derive(Clone, Copy, Debug)]
pub struct CatChiang;

impl VictimRule for CatChiang {
    fn name(&self) -> &'static str {
        "cat-chiang"
    }

    fn about(&self) -> &'static str {
        "Chiang and Chang's cost-age-times: the smallest u/(1-u) * 1/age * erases"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[ERASE_OFFSET, AGE_CREATED, AGE_UNIT, INVALID_FLOOR, LOG_AGE]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let figures = CatFigures::new(candidates, options);
        let age = age_at(candidates.now, options);
        let is_log = options.get(&LOG_AGE) != 0;
        candidates.least(|view| {
            let (age, erases, unit) = (age(view).max(figures.unit), figures.erases(view), figures.unit);
            let wear_by_age = match is_log {
                true => erases / f64::from((age / unit).ilog2() + 1),
                false => erases * unit as f64 / age as f64,
            };
            let won = view.invalid.saturating_add(view.free).max(figures.floor(view));
            ratio(view.valid, won) * wear_by_age
        })
    }
}
