//! Greedy as assumed in theory.

use crate::victim::index::IndexOrder;
use crate::victim::{Candidates, Choice, Draw, OptionValues, VictimRule, random_order};

/// Takes the block with the most invalid and free bytes, one drawn among equals, as mean-field
/// theory assumes (Van Houdt, Performance Evaluation 70, 2013). The oldest of equal blocks is more
/// often a cold one.
#[derive(Clone, Copy, Debug)]
pub struct GreedyByLot;

impl VictimRule for GreedyByLot {
    fn name(&self) -> &'static str {
        "greedy-by-lot"
    }

    fn about(&self) -> &'static str {
        "the same, one by lot among equals, as theory has it"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice> {
        let lot = random_order(draw);
        candidates.best(|view| (view.valid, lot(view)))
    }

    fn looks_at_counts_only(&self) -> bool {
        true
    }

    fn index(&self, _: &OptionValues) -> Option<IndexOrder> {
        Some(IndexOrder::GreedyByLot)
    }
}
