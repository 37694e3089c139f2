//! Greedy that spares worn blocks.

use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

const BALANCE: RuleOption = RuleOption::number(
    "balance",
    100,
    (0, u32::MAX),
    "number: the gap of erase counts at which wear counts as much as space",
);

/// Takes the smallest `(1 - l) * u + l * (erases - least) / (most - least)`, with `l = gap / (gap +
/// balance)` and `gap` the difference between the greatest and the least erase count; a balance of
/// 0 means wear alone. After Kim and Lee's cleaning index (IEICE 2002); the form of `l` is ours.
#[derive(Clone, Copy, Debug)]
pub struct WearAware;

impl VictimRule for WearAware {
    fn name(&self) -> &'static str {
        "wear-aware"
    }

    fn about(&self) -> &'static str {
        "greedy that spares worn blocks the more, the more wear differs"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[BALANCE]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let (fewest, most) = candidates.range(|view| u64::from(view.erases))?;
        let gap = (most - fewest) as f64;
        let weight = if most == fewest { 0.0 } else { gap / (gap + f64::from(options.number(&BALANCE))) };
        candidates.least(|view| {
            let u = view.valid as f64 / view.capacity().max(1) as f64;
            let wear = (u64::from(view.erases) - fewest) as f64 / gap.max(1.0);
            (1.0 - weight) * u + weight * wear
        })
    }
}
