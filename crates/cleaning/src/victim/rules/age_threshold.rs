//! Age-threshold cleaning of F2FS (Linux since 5.10, `fs/f2fs/gc.c`).

use nandkit_units::Nanos;

use crate::victim::{BlockView, Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

const THRESHOLD: RuleOption = RuleOption::span(
    "threshold",
    Nanos::from_secs(7 * 86_400),
    "time (ns, us, ms, s, h, d): the least age, from the newest write",
);
const PERCENT: RuleOption =
    RuleOption::number("percent", 20, (0, 100), "0 to 100: the share of candidates, oldest first");
const LEAST: RuleOption = RuleOption::number("least", 10, (0, u32::MAX), "number: their least number");
const WEIGHT: RuleOption = RuleOption::number("weight", 60, (0, 100), "0 to 100: the weight of age against space");

/// Takes the greatest `weight * age% + (100 - weight) * (1 - u)` among the oldest `percent` of the
/// candidates, at least `least` of them, whose last write is at least `threshold` before the newest
/// one. If none is that old, the threshold is ignored, so that a full store always has a victim.
/// The defaults are Linux's.
#[derive(Clone, Copy, Debug)]
pub struct AgeThreshold;

impl VictimRule for AgeThreshold {
    fn name(&self) -> &'static str {
        "age-threshold"
    }

    fn about(&self) -> &'static str {
        "F2FS's age-threshold cleaning: age and space weighed, among the oldest blocks"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[THRESHOLD, PERCENT, LEAST, WEIGHT]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let (first, newest) = candidates.range(|view| view.modified().get())?;
        let (threshold, weight) = (options.get(&THRESHOLD), options.number(&WEIGHT));
        let old_enough = |view: &BlockView| newest - view.modified().get() >= threshold;
        let (total, passed) = (candidates.count(|_| true), candidates.count(old_enough));
        let everyone = passed == 0;
        let share = u64::from(if everyone { total } else { passed }) * options.get(&PERCENT) / 100;
        let window = usize::try_from(share.max(options.get(&LEAST))).unwrap_or(usize::MAX);
        let oldest =
            candidates.first(window, |view| everyone || old_enough(view), |view| (view.modified(), view.block));
        let span = (newest - first) as f64 + 1.0;
        let choice = candidates.among(&oldest, |oldest| {
            oldest.least(|view| {
                let age = ((newest - view.modified().get()) as f64 + 1.0) / span;
                let gain = (view.capacity() - view.valid) as f64 / view.capacity().max(1) as f64;
                -(f64::from(weight) * age + f64::from(100 - weight) * gain)
            })
        })?;
        // Linux builds its tree of candidates from all blocks.
        Some(Choice { evaluated: total, ..choice })
    }
}
