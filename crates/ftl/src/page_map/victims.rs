//! Choosing the next superblock to clean.

use nandkit_cleaning::victim::index::VictimIndex;
use nandkit_cleaning::victim::{BlockView, Leveling, Queue, VictimPolicy};
use nandkit_flash::Flash;
use nandkit_units::Nanos;

use super::PageMapFtl;
use crate::failure::{Failure, LayerResult};

/// Ages for policies that examine every candidate; empty if the index alone decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ages {
    /// For each superblock: when its first and its last page were written.
    first_written: Vec<Nanos>,
    written: Vec<Nanos>,
}

/// The index for a policy, and the ages that it needs.
pub(crate) fn index_of(policy: &VictimPolicy, superblocks: usize) -> (VictimIndex, Ages) {
    match policy.index_order() {
        Some(order) => (VictimIndex::new(order, superblocks), Ages::default()),
        None => (
            VictimIndex::unordered(superblocks),
            Ages { first_written: vec![Nanos::ZERO; superblocks], written: vec![Nanos::ZERO; superblocks] },
        ),
    }
}

impl Ages {
    /// Records when a superblock was opened.
    pub fn note_opened(&mut self, superblock: u32, now: Nanos) {
        if let Some(first) = self.first_written.get_mut(superblock as usize) {
            *first = now;
        }
    }

    /// Records when a superblock was last written.
    pub fn note_written(&mut self, superblock: u32, now: Nanos) {
        if let Some(last) = self.written.get_mut(superblock as usize) {
            *last = now;
        }
    }

    const fn are_kept(&self) -> bool {
        !self.written.is_empty()
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// The next victim. A policy that ignores counts may choose superblocks without a page to gain
    /// repeatedly; after as many of those as there are superblocks, the emptiest one is chosen.
    /// Errors: `Full` if cleaning no superblock would gain a page.
    pub(super) fn victim(&mut self, now: Nanos) -> LayerResult<u32> {
        let most = self.most_valid;
        let chosen = self.chosen(now).ok_or(Failure::Full)?;
        if self.index.valid(chosen) <= most {
            self.fruitless = 0;
            return Ok(chosen);
        }
        self.fruitless += 1;
        // A rule by counts has nothing better. Wear levelling gets one turn for each victim that
        // gains a page.
        let VictimPolicy { rule, leveling, .. } = self.options.victim;
        let most_fruitless = match (rule.looks_at_counts_only(), leveling) {
            (true, Leveling::None) => 0,
            (true, _) => 1,
            (false, _) => self.superblocks.count(),
        };
        if self.fruitless <= most_fruitless {
            return Ok(chosen);
        }
        self.fruitless = 0;
        self.index.emptiest().filter(|emptiest| self.index.valid(*emptiest) <= most).ok_or(Failure::Full)
    }

    /// The victim that the policy would choose, whether cleaning it gains anything or not.
    pub(super) fn chosen(&mut self, now: Nanos) -> Option<u32> {
        if !self.ages.are_kept() {
            let Self { index, random, .. } = self;
            return index.choose(&mut |n| random.below(n.into()) as u32);
        }
        let Self { index, random, ages, superblocks, streams, erases, .. } = self;
        let size = u64::from(superblocks.slots());
        let views = (0..superblocks.count()).filter(|block| index.is_candidate(*block)).map(|block| {
            let at = block as usize;
            let valid = u64::from(index.valid(block));
            BlockView {
                block,
                valid,
                invalid: size.saturating_sub(valid),
                erases: erases.get(at).copied().unwrap_or(0),
                written: ages.written.get(at).copied().unwrap_or_default(),
                first_written: ages.first_written.get(at).copied().unwrap_or_default(),
                queue: Queue::of(valid, size.saturating_sub(valid), 0),
                region: streams.region(block),
                ..BlockView::default()
            }
        });
        let choice = self.options.victim.choose(views, now, &mut |n| random.below(n.into()) as u32)?;
        Some(choice.block)
    }
}
