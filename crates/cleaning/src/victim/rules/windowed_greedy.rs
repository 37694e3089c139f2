//! Greedy in a window of the oldest blocks.

use crate::victim::{Candidates, Choice, Draw, OptionValues, RuleOption, VictimRule};

const WINDOW: RuleOption = RuleOption::number("window", 64, (1, u32::MAX), "number: blocks in the window");

/// Greedy among the `window` candidates first written longest ago (Hu et al., SYSTOR 2009).
#[derive(Clone, Copy, Debug)]
pub struct WindowedGreedy;

impl VictimRule for WindowedGreedy {
    fn name(&self) -> &'static str {
        "windowed-greedy"
    }

    fn about(&self) -> &'static str {
        "greedy among the blocks first written longest ago"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[WINDOW]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let window = options.number(&WINDOW) as usize;
        let oldest = candidates.first(window, |_| true, |view| (view.first_written, view.block));
        candidates.among(&oldest, |oldest| oldest.best(|view| (view.valid, view.first_written)))
    }
}
