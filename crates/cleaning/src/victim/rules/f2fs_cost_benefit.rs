//! The cost-benefit formula of F2FS in Linux 6.1 (`fs/f2fs/gc.c`, `get_cb_cost`).

use crate::search::benefit;
use crate::victim::{Candidates, Choice, Draw, OptionValues, VictimRule};
use std::cmp::Reverse;

/// Takes the greatest [`benefit`]. The kernel's range of times covers every segment ever seen, here
/// only the candidates.
#[derive(Clone, Copy, Debug)]
pub struct F2fsCostBenefit;

impl VictimRule for F2fsCostBenefit {
    fn name(&self) -> &'static str {
        "f2fs-cost-benefit"
    }

    fn old_name(&self) -> Option<&'static str> {
        Some("cost-benefit-linux")
    }

    fn about(&self) -> &'static str {
        "F2FS in Linux: cost-benefit in per cent, age by rank in the range of ages"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let (oldest, newest) = candidates.range(|view| view.modified().get())?;
        candidates.best(|view| Reverse(benefit(view.valid, view.capacity(), view.modified().get(), oldest..=newest)))
    }
}
