//! Greedy.

use crate::victim::index::IndexOrder;
use crate::victim::{Candidates, Choice, Draw, OptionValues, VictimRule};

/// Takes the block with the most invalid and free bytes, the one first written longest ago among
/// equals.
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl VictimRule for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn about(&self) -> &'static str {
        "the block with the fewest valid bytes"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        candidates.best(|view| (view.valid, view.first_written))
    }

    fn looks_at_counts_only(&self) -> bool {
        true
    }

    fn index(&self, _: &OptionValues) -> Option<IndexOrder> {
        Some(IndexOrder::Greedy)
    }
}
