//! The options that both forms of cost-age-times share: what P2 leaves open.

use nandkit_units::Nanos;

use super::age::{AGE, CREATED};
use crate::victim::{BlockView, Candidates, OptionValues, RuleOption};

/// Without an offset (0), every block with an erase count of 0 is the best victim, however much it
/// holds. After a mount of a format that stores no counts, these are all blocks.
pub const ERASE_OFFSET: RuleOption =
    RuleOption::number("erase-offset", 1, (0, u32::MAX), "number: added to the erase count");
/// P2 counts from when the block "was created".
pub const AGE_CREATED: RuleOption = AGE.with_default(CREATED);
/// A younger block counts as one unit old, which avoids a division by zero; ages are not rounded.
/// The unit itself cancels out.
pub const AGE_UNIT: RuleOption = RuleOption::span(
    "age-unit",
    Nanos::from_millis(1),
    "time (ns, us, ms, s, h, d): the unit of the age and its least value",
);
/// Without a floor (0), a block without invalid data sorts after all others, whatever its age.
pub const INVALID_FLOOR: RuleOption = RuleOption::number(
    "invalid-floor",
    10,
    (0, 1000),
    "thousandths of the block: what a clean block counts as invalid if clean blocks are open",
);

/// The option values for both forms of the rule.
pub struct CatFigures {
    offset: u64,
    /// The unit of ages in nanoseconds; 0 counts as 1.
    pub unit: u64,
    /// In thousandths of a block.
    floor: u128,
}

impl CatFigures {
    pub fn new(candidates: &Candidates<'_>, options: &OptionValues) -> Self {
        let floor = if candidates.open_clean { options.get(&INVALID_FLOOR) } else { 0 };
        Self { offset: options.get(&ERASE_OFFSET), unit: options.get(&AGE_UNIT).max(1), floor: floor.into() }
    }

    pub fn erases(&self, view: &BlockView) -> f64 {
        (u64::from(view.erases) + self.offset) as f64
    }

    /// The least amount that counts as invalid in a block.
    pub fn floor(&self, view: &BlockView) -> u64 {
        (u128::from(view.capacity()) * self.floor / 1000).min(u128::from(u64::MAX)) as u64
    }
}

/// `cost / gain`: zero cost is the best, cost without gain the worst. A block with nothing valid
/// and nothing to gain costs nothing.
pub fn ratio(cost: u64, gain: u64) -> f64 {
    match (cost, gain) {
        (0, _) => 0.0,
        // Larger than every quotient, and still finite after multiplying by an erase count:
        // infinity times zero would be NaN.
        (_, 0) => 1e200,
        _ => cost as f64 / gain as f64,
    }
}
