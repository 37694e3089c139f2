//! Finds the oldest candidate with the fewest valid units: greedy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The candidates with the fewest valid units. Stale entries stay until they are met.
#[derive(Clone, Debug)]
pub(super) struct LowCounts {
    heap: BinaryHeap<Reverse<(u16, u64, u32)>>,
    /// Every candidate with at most this many valid units has an entry.
    pub level: u16,
    /// With more entries than this, the level is reset, and entries above it or stale ones are
    /// dropped.
    most: usize,
}

/// The least capacity of a heap; it fits into the L1 cache.
pub(super) const ENTRIES_MIN: usize = 1024;

/// How far above the least count the level is set when the entries are used up. Blocks in between
/// have an entry per count they had: few, so the heap stays in the cache. The next pass over all
/// counts comes once all of them have been cleaned.
pub(super) const MARGIN: u16 = 1;

impl LowCounts {
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), level: 0, most: ENTRIES_MIN }
    }

    /// Notes that a candidate reached a count that is watched.
    pub fn note(&mut self, block: u32, (valid, entered): (u16, u64), all: (&[u16], &[u64])) {
        if valid <= self.level {
            self.heap.push(Reverse((valid, entered, block)));
            if self.heap.len() > self.most {
                self.tidy(all.0, all.1);
            }
        }
    }

    /// The candidate with the fewest valid units, the one that entered first among equals.
    pub fn choose(&mut self, valid: &[u16], entered: &[u64]) -> Option<u32> {
        loop {
            while let Some(&Reverse((count, turn, block))) = self.heap.peek() {
                let at = block as usize;
                if entered.get(at) == Some(&turn) && valid.get(at) == Some(&count) {
                    return Some(block);
                }
                self.heap.pop();
            }
            self.refill(valid, entered)?;
        }
    }

    /// Lowers the level to the current least counts and drops entries above it.
    #[cold]
    fn tidy(&mut self, valid: &[u16], entered: &[u64]) {
        let is_true = |&(count, turn, block): &(u16, u64, u32)| {
            entered.get(block as usize) == Some(&turn) && valid.get(block as usize) == Some(&count)
        };
        let least = self.heap.iter().map(|Reverse(entry)| *entry).filter(is_true).map(|(count, ..)| count).min();
        self.level = self.level.min(least.map_or(self.level, |least| least.saturating_add(MARGIN)));
        let level = self.level;
        self.heap.retain(|Reverse(entry)| entry.0 <= level && is_true(entry));
        self.most = ENTRIES_MIN.max(self.heap.len() * 2);
    }

    /// Enters every candidate near the least count, if no entry is left.
    #[cold]
    fn refill(&mut self, valid: &[u16], entered: &[u64]) -> Option<()> {
        let candidates = || (0..).zip(valid.iter().zip(entered)).filter(|(_, (_, entered))| **entered != 0);
        let least = candidates().map(|(_, (valid, _))| *valid).min()?;
        self.level = least.saturating_add(MARGIN);
        for (block, (&valid, &entered)) in candidates().filter(|(_, (valid, _))| **valid <= self.level) {
            self.heap.push(Reverse((valid, entered, block)));
        }
        Some(())
    }
}
