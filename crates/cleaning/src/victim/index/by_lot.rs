//! Finds the candidates with the fewest valid units and draws one of them: greedy as assumed by
//! mean-field theory (Van Houdt, Performance Evaluation 70, 2013).

use super::low_counts::{ENTRIES_MIN, MARGIN};

/// The candidates with few valid units, in one bucket per count. Stale entries stay until they are
/// drawn.
#[derive(Clone, Debug)]
pub(super) struct ByLot {
    /// By count: the time at which the block became a candidate, and the block. A candidate's count
    /// only falls, so a block is in no bucket twice.
    buckets: Vec<Vec<(u64, u32)>>,
    entries: usize,
    /// With more entries than this, the level is reset, and entries above it or stale ones are
    /// dropped.
    most: usize,
}

impl ByLot {
    pub const fn new() -> Self {
        Self { buckets: Vec::new(), entries: 0, most: ENTRIES_MIN }
    }

    /// Whether every candidate with this count has an entry.
    #[inline]
    pub const fn watches(&self, valid: u16) -> bool {
        (valid as usize) < self.buckets.len()
    }

    /// Notes that a candidate reached a count that is watched.
    pub fn note(&mut self, block: u32, (valid, entered): (u16, u64), all: (&[u16], &[u64])) {
        if let Some(bucket) = self.buckets.get_mut(usize::from(valid)) {
            bucket.push((entered, block));
            self.entries += 1;
            if self.entries > self.most {
                self.tidy(all.0, all.1);
            }
        }
    }

    /// Draws one of the candidates with the fewest valid units, all with equal probability. Cost: a
    /// draw, one more per stale entry, and occasionally a pass over all blocks.
    pub fn choose(&mut self, valid: &[u16], entered: &[u64], draw: &mut impl FnMut(u32) -> u32) -> Option<u32> {
        loop {
            for (bucket, count) in self.buckets.iter_mut().zip(0u16..) {
                while !bucket.is_empty() {
                    let place = draw(bucket.len() as u32) as usize;
                    let &entry = bucket.get(place)?;
                    if is_true(entry, count, valid, entered) {
                        return Some(entry.1);
                    }
                    bucket.swap_remove(place);
                    self.entries -= 1;
                }
            }
            self.refill(valid, entered)?;
        }
    }

    /// Lowers the level to the current least counts.
    #[cold]
    fn tidy(&mut self, valid: &[u16], entered: &[u64]) {
        for (bucket, count) in self.buckets.iter_mut().zip(0u16..) {
            bucket.retain(|entry| is_true(*entry, count, valid, entered));
        }
        let least = self.buckets.iter().position(|bucket| !bucket.is_empty());
        self.buckets.truncate(least.map_or(self.buckets.len(), |least| least + usize::from(MARGIN) + 1));
        self.entries = self.buckets.iter().map(Vec::len).sum();
        self.most = ENTRIES_MIN.max(self.entries * 2);
    }

    /// Enters every candidate near the least count, if no entry is left.
    #[cold]
    fn refill(&mut self, valid: &[u16], entered: &[u64]) -> Option<()> {
        let candidates = || (0..).zip(valid.iter().zip(entered)).filter(|(_, (_, entered))| **entered != 0);
        let least = candidates().map(|(_, (valid, _))| *valid).min()?;
        self.buckets.resize_with(usize::from(least) + usize::from(MARGIN) + 1, Vec::new);
        for (block, (&valid, &entered)) in candidates() {
            if let Some(bucket) = self.buckets.get_mut(usize::from(valid)) {
                bucket.push((entered, block));
                self.entries += 1;
            }
        }
        self.most = ENTRIES_MIN.max(self.entries * 2);
        Some(())
    }
}

fn is_true((turn, block): (u64, u32), count: u16, valid: &[u16], entered: &[u64]) -> bool {
    entered.get(block as usize) == Some(&turn) && valid.get(block as usize) == Some(&count)
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use crate::victim::index::{IndexOrder, VictimIndex};
    use crate::victim::{BlockView, VictimPolicy};

    /// Blocks that fill, lose units and are cleaned, as in a translation layer.
    #[test]
    fn the_chosen_one_is_always_among_the_emptiest() {
        let (blocks, units) = (300u32, 40u32);
        for seed in 0..5 {
            let mut random = Random::new(seed, "lot");
            let mut index = VictimIndex::new(IndexOrder::GreedyByLot, blocks as usize);
            for step in 0..40_000 {
                let block = random.below(u64::from(blocks)) as u32;
                match (index.is_candidate(block), random.below(4)) {
                    (false, _) => {
                        while index.valid(block) < units {
                            index.add(block);
                        }
                        index.enter(block);
                    }
                    (true, 0) if random.below(40) == 0 => index.leave(block),
                    (true, _) => index.subtract_many(block, random.below(4) as u32),
                }
                let least =
                    (0..blocks).filter(|block| index.is_candidate(*block)).map(|block| index.valid(block)).min();
                let chosen = index.choose(&mut |n| random.below(n.into()) as u32);
                assert_eq!(chosen.map(|block| index.valid(block)), least, "step {step} of seed {seed}");
                assert!(chosen.is_none_or(|block| index.is_candidate(block)));
                if let Some(victim) = chosen.filter(|_| random.below(20) == 0) {
                    index.subtract_many(victim, units);
                    index.leave(victim);
                }
            }
        }
    }

    #[test]
    fn equal_blocks_are_as_likely() {
        let blocks = 20u32;
        let mut index = VictimIndex::new(IndexOrder::GreedyByLot, blocks as usize);
        for block in 0..blocks {
            index.add_many(block, if block < 4 { 9 } else { 5 });
            index.enter(block);
        }
        // A stale entry: the block left after it was queued.
        index.leave(7);
        let policy: VictimPolicy = "greedy-by-lot".parse().unwrap();
        let views: Vec<_> = (0..blocks)
            .filter(|block| *block != 7)
            .map(|block| BlockView { block, valid: index.valid(block).into(), invalid: 1, ..BlockView::default() })
            .collect();
        let mut random = Random::new(7, "equal");
        let mut counts = vec![[0u32; 2]; blocks as usize];
        for _ in 0..15_000 {
            let mut draw = |n: u32| random.below(n.into()) as u32;
            counts[index.choose(&mut draw).unwrap() as usize][0] += 1;
            let choice = policy.choose(views.iter().copied(), nandkit_units::Nanos::ZERO, &mut draw).unwrap();
            counts[choice.block as usize][1] += 1;
        }
        for (block, counts) in counts.iter().enumerate() {
            let expected = if block < 4 || block == 7 { 0..=0 } else { 850..=1150 };
            assert!(counts.iter().all(|count| expected.contains(count)), "{block}: {counts:?}");
        }
    }
}
