//! First in, first out.

use crate::victim::index::IndexOrder;
use crate::victim::{Candidates, Choice, Draw, OptionValues, Reason, VictimRule};

/// Takes the block first written longest ago.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl VictimRule for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn about(&self) -> &'static str {
        "the block first written longest ago"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let victim = candidates.head(|view| view.first_written)?;
        Some(Choice { block: victim.block, reason: Reason::Best, evaluated: 1 })
    }

    fn index(&self, _: &OptionValues) -> Option<IndexOrder> {
        Some(IndexOrder::Fifo)
    }
}
