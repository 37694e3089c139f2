//! The candidates with the fewest valid units, the oldest of them first: greedy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The candidates with the fewest valid units. An entry that is no longer true stays until it is
/// met.
#[derive(Clone, Debug)]
pub(super) struct LowCounts {
    heap: BinaryHeap<Reverse<(u16, u64, u32)>>,
    /// Every candidate with so many valid units or fewer has an entry.
    pub level: u16,
    /// With more entries than this the level is set anew, and entries above it, or no longer true,
    /// are thrown away.
    most: usize,
}

/// Entries that a heap may have at the least: they fit into the first cache.
pub(super) const ENTRIES_MIN: usize = 1024;

/// How far above the least count the level is set when the entries have been used up. Blocks
/// between the two have an entry for each count that they had: few, so that the heap stays in the
/// cache. The next pass over all counts comes when all of them have been cleaned.
pub(super) const MARGIN: u16 = 1;

impl LowCounts {
    pub const fn new() -> Self {
        Self { heap: BinaryHeap::new(), level: 0, most: ENTRIES_MIN }
    }

    /// A candidate has come to a count that is watched.
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

    /// Brings the level down to where the least counts are now. What is left is so much as it
    /// takes.
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

    /// Enters every candidate that is near the least count, where none is entered.
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
