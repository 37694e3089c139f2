//! The cost-benefit formula of F2FS in Linux 6.1 (`fs/f2fs/gc.c`, `get_cb_cost`).

use crate::victim::{Candidates, Choice, Draw, OptionValues, VictimRule};
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// The greatest [`f2fs_benefit`]. The kernel's range of times is over every segment ever seen, here
/// over the candidates.
#[derive(Clone, Copy, Debug)]
pub struct F2fsCostBenefit;

impl VictimRule for F2fsCostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit-linux"
    }

    fn about(&self) -> &'static str {
        "F2FS in Linux: cost-benefit in per cent, age by rank in the range of ages"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let (oldest, newest) = candidates.range(|view| view.modified().get())?;
        candidates
            .best(|view| Reverse(f2fs_benefit(view.valid, view.capacity(), view.modified().get(), oldest..=newest)))
    }
}

/// The benefit of cleaning a block, 0 to 10 000, in whole numbers: `100 * (100 - u) * a / (100 + u)`,
/// where `u` is the share of `capacity` that is `valid`, in per cent, and `a` goes from 0 to 100 as
/// `modified`, the mean time of the last writes, goes from the newest to the oldest of `times`, the
/// range over all blocks. The unit of times cancels out.
pub fn f2fs_benefit(valid: u64, capacity: u64, modified: u64, times: RangeInclusive<u64>) -> u64 {
    let (oldest, newest) = times.into_inner();
    let used = percent(valid, capacity);
    let age = match newest.saturating_sub(oldest) {
        0 => 0,
        span => 100 - percent(modified.saturating_sub(oldest), span),
    };
    100 * (100 - used) * age / (100 + used)
}

/// `100 * part / whole` rounded down, at most 100; 0 of nothing.
fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0).min(100) as u64
}
