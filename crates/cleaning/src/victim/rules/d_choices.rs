//! Greedy among drawn blocks.

use crate::victim::index::{DRAWN_MAX, IndexOrder};
use crate::victim::{Candidates, Choice, Draw, OptionValues, Reason, RuleOption, VictimRule, random_order};

const D: RuleOption = RuleOption::number("d", 10, (1, DRAWN_MAX as u32), "1 to 64: candidates drawn");

/// Greedy among `d` distinct candidates, drawn uniformly, with ties drawn too (Van Houdt,
/// SIGMETRICS 2013; the randomised greedy algorithm of Li, Lee and Lui, ibid.).
#[derive(Clone, Copy, Debug)]
pub struct DChoices;

impl VictimRule for DChoices {
    fn name(&self) -> &'static str {
        "d-choices"
    }

    fn about(&self) -> &'static str {
        "greedy among d random blocks"
    }

    fn options(&self) -> &'static [RuleOption] {
        &[D]
    }

    fn choose(&self, candidates: &Candidates<'_>, options: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice> {
        let (d, hash) = ((options.number(&D) as usize).clamp(1, DRAWN_MAX), random_order(draw));
        // Hash, block and valid data of the d blocks that come first in the random order, in that
        // order: after the first d, insertions are rare.
        let mut drawn = [(u64::MAX, 0_u32, 0_u64); DRAWN_MAX];
        let mut count = 0;
        candidates.for_each(|view| {
            let rank = (hash(view), view.block);
            if count == d && drawn.get(d - 1).is_some_and(|&(hash, block, _)| rank >= (hash, block)) {
                return;
            }
            count = (count + 1).min(d);
            let filled = &mut drawn[..count];
            let place = filled[..count - 1].partition_point(|&(hash, block, _)| (hash, block) < rank);
            filled[place..].rotate_right(1);
            filled[place] = (rank.0, rank.1, view.valid);
        });
        // Among equals the first drawn one, so that all are equally likely: theory draws too, and
        // hot and cold blocks with equal counts are not alike.
        let &(_, block, _) = drawn[..count].iter().min_by_key(|(_, _, valid)| *valid)?;
        Some(Choice { block, reason: Reason::Best, evaluated: count as u32 })
    }

    fn index(&self, options: &OptionValues) -> Option<IndexOrder> {
        Some(IndexOrder::Drawn { d: options.number(&D) })
    }
}
