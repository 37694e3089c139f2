//! A random block.

use crate::victim::index::IndexOrder;
use crate::victim::{Candidates, Choice, Draw, OptionValues, Reason, VictimRule, random_order};

/// Takes a candidate drawn uniformly.
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl VictimRule for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn about(&self) -> &'static str {
        "a random block"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice> {
        let victim = candidates.head(random_order(draw))?;
        Some(Choice { block: victim.block, reason: Reason::Drawn, evaluated: 1 })
    }

    fn index(&self, _: &OptionValues) -> Option<IndexOrder> {
        Some(IndexOrder::Drawn { d: 1 })
    }
}
