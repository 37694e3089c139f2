//! UBIFS's rule in Linux 6.1 (`fs/ubifs/find.c`, `ubifs_find_dirty_leb`).

use crate::victim::{Candidates, Choice, Draw, OptionValues, VictimRule};

/// Takes the block with the most free and invalid bytes, that with the lowest number among equals.
/// UBIFS offers a block of its index only where half of it can be had.
#[derive(Clone, Copy, Debug)]
pub struct MostGain;

impl VictimRule for MostGain {
    fn name(&self) -> &'static str {
        "ubifs-linux"
    }

    fn about(&self) -> &'static str {
        "UBIFS in Linux: the block with the most free and invalid bytes, whatever its age"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, _: &mut Draw<'_>) -> Option<Choice> {
        candidates.best(|view| view.valid)
    }

    fn looks_at_counts_only(&self) -> bool {
        true
    }
}
