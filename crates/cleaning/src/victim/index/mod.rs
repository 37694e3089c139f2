//! Keeps candidates in an order, so that choosing the next victim needs no pass over all of them.
//!
//! A device of a terabyte has a million superblocks, and each overwrite changes one of them. With
//! an index an overwrite costs one count, and a choice next to nothing. It replaces rules whose
//! choice depends only on valid units, the order in which blocks were written, and draws: greedy,
//! FIFO, random, d-choices. Other rules look at all candidates
//! ([`VictimPolicy::choose`](super::VictimPolicy::choose)).

mod by_lot;
mod low_counts;

use std::collections::VecDeque;

use by_lot::ByLot;
use low_counts::LowCounts;

/// The most units that a block may have.
pub const UNITS_MAX: u32 = u16::MAX as u32;
/// The most candidates drawn for one choice.
pub const DRAWN_MAX: usize = 64;

/// An order that an index can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexOrder {
    /// The fewest valid units; among equals the one that has been a candidate longest.
    Greedy,
    /// The fewest valid units; one drawn among equals.
    GreedyByLot,
    /// The one that has been a candidate longest.
    Fifo,
    /// The fewest valid units among drawn candidates.
    Drawn {
        /// How many are drawn, 1 to [`DRAWN_MAX`]; values outside are limited to it.
        d: u32,
    },
}

/// Blocks with their counts of valid units, and the next victim among the candidates.
///
/// The index owns the counts: code that writes and invalidates reports it ([`VictimIndex::add`],
/// [`VictimIndex::subtract`]), also for blocks that are not candidates.
#[derive(Clone, Debug)]
pub struct VictimIndex {
    valid: Vec<u16>,
    /// The turn in which each block became a candidate, counted from 1; 0 if it is not a candidate.
    entered: Vec<u64>,
    turn: u64,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    Greedy(LowCounts),
    GreedyByLot(ByLot),
    Fifo(VecDeque<(u64, u32)>),
    /// The candidates in any order, and the position of each.
    Drawn {
        d: usize,
        candidates: Vec<u32>,
        places: Vec<u32>,
    },
    /// No order: the owner chooses by other means.
    Unordered,
}

impl VictimIndex {
    /// An index of blocks without valid units or candidates. A block holds at most [`UNITS_MAX`]
    /// units.
    pub fn new(order: IndexOrder, blocks: usize) -> Self {
        Self::with(
            match order {
                IndexOrder::Greedy => Order::Greedy(LowCounts::new()),
                IndexOrder::GreedyByLot => Order::GreedyByLot(ByLot::new()),
                IndexOrder::Fifo => Order::Fifo(VecDeque::with_capacity(blocks)),
                IndexOrder::Drawn { d } => Order::Drawn {
                    d: (d.max(1) as usize).min(DRAWN_MAX),
                    candidates: Vec::with_capacity(blocks),
                    places: vec![0; blocks],
                },
            },
            blocks,
        )
    }

    /// An index that counts units and knows the candidates but never chooses, for rules that look
    /// at all candidates.
    pub fn unordered(blocks: usize) -> Self {
        Self::with(Order::Unordered, blocks)
    }

    fn with(order: Order, blocks: usize) -> Self {
        Self { valid: vec![0; blocks], entered: vec![0; blocks], turn: 0, order }
    }

    /// The valid units of a block; 0 for blocks out of range.
    #[inline]
    pub fn valid(&self, block: u32) -> u32 {
        self.valid.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Prefetches the memory that a change of the block's count will touch.
    #[inline(always)]
    pub fn prefetch(&self, block: u32) {
        nandkit_units::prefetch(&self.valid, block as usize);
    }

    /// Whether a block may be chosen.
    pub fn is_candidate(&self, block: u32) -> bool {
        self.entered.get(block as usize).is_some_and(|entered| *entered != 0)
    }

    /// Adds a valid unit to a block that is no candidate.
    #[inline(always)]
    pub fn add(&mut self, block: u32) {
        self.add_many(block, 1);
    }

    /// Adds valid units to a block that is no candidate.
    #[inline(always)]
    pub fn add_many(&mut self, block: u32, units: u32) {
        if let Some(valid) = self.valid.get_mut(block as usize) {
            *valid = valid.saturating_add(u16::try_from(units).unwrap_or(u16::MAX));
        }
    }

    /// Subtracts a valid unit from a block.
    #[inline(always)]
    pub fn subtract(&mut self, block: u32) {
        self.subtract_many(block, 1);
    }

    /// Subtracts valid units from a block.
    #[inline(always)]
    pub fn subtract_many(&mut self, block: u32, units: u32) {
        let Some(valid) = self.valid.get_mut(block as usize) else { return };
        *valid = valid.saturating_sub(u16::try_from(units).unwrap_or(u16::MAX));
        let is_low = match &self.order {
            Order::Greedy(low) => *valid <= low.level,
            Order::GreedyByLot(low) => low.watches(*valid),
            _ => false,
        };
        if is_low {
            self.note_low(block);
        }
    }

    #[inline(never)]
    fn note_low(&mut self, block: u32) {
        let (Some(&valid), Some(&entered)) = (self.valid.get(block as usize), self.entered.get(block as usize)) else {
            return;
        };
        match &mut self.order {
            _ if entered == 0 => {}
            Order::Greedy(low) => low.note(block, (valid, entered), (&self.valid, &self.entered)),
            Order::GreedyByLot(low) => low.note(block, (valid, entered), (&self.valid, &self.entered)),
            _ => {}
        }
    }

    /// Makes a block a candidate, the youngest one. The caller does so once until the block
    /// [leaves](VictimIndex::leave).
    pub fn enter(&mut self, block: u32) {
        let Some(entered) = self.entered.get_mut(block as usize) else { return };
        self.turn += 1;
        *entered = self.turn;
        match &mut self.order {
            Order::Greedy(_) | Order::GreedyByLot(_) => self.note_low(block),
            Order::Fifo(queue) => queue.push_back((self.turn, block)),
            Order::Unordered => {}
            Order::Drawn { candidates, places, .. } => {
                if let Some(place) = places.get_mut(block as usize) {
                    *place = candidates.len() as u32;
                    candidates.push(block);
                }
            }
        }
    }

    /// Removes a block from the candidates; its count is unchanged.
    pub fn leave(&mut self, block: u32) {
        let Some(entered) = self.entered.get_mut(block as usize) else { return };
        if std::mem::take(entered) == 0 {
            return;
        }
        if let Order::Drawn { candidates, places, .. } = &mut self.order {
            let place = places.get(block as usize).copied().unwrap_or(0);
            candidates.swap_remove(place as usize);
            if let Some(moved) = candidates.get(place as usize)
                && let Some(its) = places.get_mut(*moved as usize)
            {
                *its = place;
            }
        }
    }

    /// The candidate with the fewest valid units, whatever the rule; the lowest block among equals.
    /// Cost: a pass over all blocks.
    pub fn emptiest(&self) -> Option<u32> {
        let candidates = (0..).zip(self.valid.iter().zip(&self.entered)).filter(|(_, (_, entered))| **entered != 0);
        candidates.min_by_key(|(_, (valid, _))| **valid).map(|(block, _)| block)
    }

    /// The block that the rule takes next; it stays a candidate. `None` without candidates.
    ///
    /// Ties go to the block that has been a candidate longest; with d-choices and greedy by lot, to
    /// a drawn one. `draw(n)` gives a uniform number in `0..n`. Greedy and FIFO draw nothing; the
    /// others draw one number per candidate, and again for a candidate drawn twice. Cost: greedy
    /// and FIFO `O(log n)` or less on average, with an occasional pass over all counts; the others
    /// `O(d)`.
    pub fn choose(&mut self, draw: &mut impl FnMut(u32) -> u32) -> Option<u32> {
        match &mut self.order {
            Order::Greedy(low) => low.choose(&self.valid, &self.entered),
            Order::GreedyByLot(low) => low.choose(&self.valid, &self.entered, draw),
            Order::Fifo(queue) => {
                while let Some(&(turn, block)) = queue.front() {
                    if self.entered.get(block as usize) == Some(&turn) {
                        return Some(block);
                    }
                    queue.pop_front();
                }
                None
            }
            Order::Drawn { d, candidates, .. } => {
                // Among equals the first drawn one, so that all are equally likely.
                let valid = |block: &u32| self.valid.get(*block as usize).copied();
                drawn(candidates, *d, draw).into_iter().flatten().min_by_key(valid)
            }
            Order::Unordered => None,
        }
    }
}

/// Distinct candidates, up to `d`.
fn drawn(candidates: &[u32], d: usize, draw: &mut impl FnMut(u32) -> u32) -> [Option<u32>; DRAWN_MAX] {
    let mut found = [None; DRAWN_MAX];
    if candidates.len() <= d {
        found.iter_mut().zip(candidates).for_each(|(into, block)| *into = Some(*block));
        return found;
    }
    let mut count = 0;
    while count < d {
        let block = candidates.get(draw(candidates.len() as u32) as usize).copied();
        let Some((taken, free)) = found.split_at_mut_checked(count) else { break };
        if !taken.contains(&block)
            && let Some(into) = free.first_mut()
        {
            *into = block;
            count += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use nandkit_units::Nanos;
    use nandkit_units::random::Random;

    use super::*;
    use crate::victim::{BlockView, VictimPolicy};

    const UNITS: u32 = 40;

    /// Blocks that fill, lose units and are cleaned, as in a translation layer, compared with the
    /// rule itself.
    fn agrees(policy: VictimPolicy, seed: u64) {
        let blocks = 30u32;
        let mut random = Random::new(seed, "index");
        let mut index = VictimIndex::new(policy.index_order().unwrap(), blocks as usize);
        let mut first_written = vec![0; blocks as usize];
        for step in 1..3000u64 {
            let block = random.below(u64::from(blocks)) as u32;
            match (index.is_candidate(block), random.below(4)) {
                (false, _) => {
                    while index.valid(block) < UNITS {
                        index.add(block);
                    }
                    index.enter(block);
                    first_written[block as usize] = step;
                }
                (true, 0) if random.below(40) == 0 => index.leave(block),
                (true, _) => (0..random.below(4)).for_each(|_| index.subtract(block)),
            }
            let views = (0..blocks).filter(|block| index.is_candidate(*block)).map(|block| BlockView {
                block,
                valid: index.valid(block).into(),
                invalid: 1,
                first_written: Nanos(first_written[block as usize]),
                ..BlockView::default()
            });
            let expected = policy.choose(views.collect::<Vec<_>>(), Nanos(step), &mut |_| 0);
            let chosen = index.choose(&mut |_| unreachable!());
            assert_eq!(chosen, expected.map(|choice| choice.block), "step {step} of seed {seed}");
            if let Some(victim) = chosen.filter(|_| random.below(20) == 0) {
                while index.valid(victim) > 0 {
                    index.subtract(victim);
                }
                index.leave(victim);
            }
        }
    }

    #[test]
    fn greedy_and_fifo_choose_what_the_rule_chooses() {
        for seed in 0..10 {
            agrees("greedy".parse().unwrap(), seed);
            agrees("fifo".parse().unwrap(), seed);
        }
    }

    #[test]
    fn draws_are_even_and_the_best_of_them_wins() {
        let blocks = 20u32;
        for d in [1, 2, 5, 64] {
            let mut index = VictimIndex::new(IndexOrder::Drawn { d }, blocks as usize);
            for block in 0..blocks {
                (0..block).for_each(|_| index.add(block));
                index.enter(block);
            }
            index.leave(3);
            let mut random = Random::new(7, "draws");
            let mut counts = vec![0u32; blocks as usize];
            let rounds = 40_000;
            for _ in 0..rounds {
                counts[index.choose(&mut |n| random.below(n.into()) as u32).unwrap() as usize] += 1;
            }
            assert_eq!(counts[3], 0);
            // The best of d distinct ones out of n: the k-th best wins with probability C(n-k, d-1)
            // / C(n, d).
            let n = f64::from(blocks - 1);
            let chance = |k: f64| {
                let others = (0..d.min(blocks - 1) - 1).map(f64::from);
                others.fold(f64::from(d) / n, |chance, i| chance * (n - k - i) / (n - 1.0 - i))
            };
            for (rank, block) in (0..blocks).filter(|block| *block != 3).enumerate() {
                let expected = if d == 64 { f64::from(rank == 0) } else { chance(rank as f64 + 1.0).max(0.0) };
                let (found, deviation) = (f64::from(counts[block as usize]) / f64::from(rounds), 0.01);
                assert!((found - expected).abs() < deviation, "d {d}, block {block}: {found} of {expected}");
            }
        }
    }

    #[test]
    fn d_choices_take_any_of_equal_blocks_whenever_they_were_entered() {
        let blocks = 20u32;
        let mut index = VictimIndex::new(IndexOrder::Drawn { d: 10 }, blocks as usize);
        (0..blocks).for_each(|block| index.enter(block));
        let mut random = Random::new(7, "ties");
        let mut counts = vec![0u32; blocks as usize];
        for _ in 0..40_000 {
            counts[index.choose(&mut |n| random.below(n.into()) as u32).unwrap() as usize] += 1;
        }
        assert!(counts.iter().all(|count| (1800..2200).contains(count)), "{counts:?}");
    }

    #[test]
    fn other_rules_have_no_index_and_blocks_outside_are_nothing() {
        assert!("cost-benefit".parse::<VictimPolicy>().unwrap().index_order().is_none());
        assert!("greedy:level-gap=2".parse::<VictimPolicy>().unwrap().index_order().is_none());
        let mut counting = VictimIndex::unordered(4);
        counting.enter(1);
        counting.add(1);
        assert_eq!((counting.valid(1), counting.is_candidate(1), counting.choose(&mut |_| 0)), (1, true, None));
        let mut index = VictimIndex::new(IndexOrder::Greedy, 2);
        assert_eq!(index.choose(&mut |_| 0), None);
        index.enter(9);
        index.add(9);
        index.subtract(9);
        index.leave(9);
        assert_eq!((index.valid(9), index.is_candidate(9), index.choose(&mut |_| 0)), (0, false, None));
        assert_eq!(index.emptiest(), None);
        index.add(0);
        (0..2).for_each(|block| index.enter(block));
        assert_eq!(index.emptiest(), Some(1));
    }
}
