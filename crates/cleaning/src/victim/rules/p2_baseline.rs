//! The baseline of P2.

use crate::victim::{Candidates, Choice, Draw, OptionValues, Queue, Reason, VictimRule};

/// P2's description of JFFS2: takes the head of one list of all blocks with invalid data, including
/// blocks without valid data, in the order of
/// [`BlockView::dirtied`](crate::victim::BlockView::dirtied). Clean blocks, if they are candidates,
/// follow in their own order.
#[derive(Clone, Copy, Debug)]
pub struct P2Baseline;

impl VictimRule for P2Baseline {
    fn name(&self) -> &'static str {
        "p2-baseline"
    }

    fn about(&self) -> &'static str {
        "P2's account of JFFS2: the head of one dirty list, never a clean block"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        let victim = candidates.head(|view| {
            let is_clean = view.queue == Queue::Clean;
            (is_clean, if is_clean { view.place } else { view.dirtied })
        })?;
        Some(Choice { block: victim.block, reason: Reason::Head(victim.queue), evaluated: 1 })
    }

    fn needs_lists(&self) -> bool {
        true
    }
}
