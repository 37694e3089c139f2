//! Chooses the next free block.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rule by which a free block is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocationRule {
    /// Takes the block with the fewest erases, the lowest index among equals: dynamic wear
    /// levelling. The default.
    #[default]
    LeastErased,
    /// Takes the block that became free first.
    Fifo,
}

/// Free blocks, ordered by the rule. Taking and returning a block cost `O(log n)` and allocate
/// nothing once the pool has reached its largest size.
#[derive(Clone, Debug, Default)]
pub struct FreePool {
    rule: AllocationRule,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    turn: u64,
}

impl FreePool {
    /// An empty pool with room for `blocks`.
    pub fn new(rule: AllocationRule, blocks: usize) -> Self {
        Self { rule, heap: BinaryHeap::with_capacity(blocks), turn: 0 }
    }

    /// Returns a block that was erased `erases` times; the caller returns each block once.
    pub fn push(&mut self, block: u32, erases: u32) {
        let key = match self.rule {
            AllocationRule::LeastErased => u64::from(erases),
            AllocationRule::Fifo => {
                self.turn += 1;
                self.turn
            }
        };
        self.heap.push(Reverse((key, block)));
    }

    /// Takes the next block.
    pub fn pop(&mut self) -> Option<u32> {
        self.heap.pop().map(|Reverse((_, block))| block)
    }

    /// Takes the most worn free block by `erases_of`, the lowest index among equals: a place for
    /// cold data, where it rests (static wear levelling). Cost: `O(n)`.
    pub fn pop_most_worn(&mut self, erases_of: impl Fn(u32) -> u32) -> Option<u32> {
        let worn = self
            .heap
            .iter()
            .map(|Reverse((_, block))| *block)
            .max_by_key(|block| (erases_of(*block), Reverse(*block)))?;
        self.heap.retain(|Reverse((_, block))| *block != worn);
        Some(worn)
    }

    /// The number of free blocks.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rule: AllocationRule, blocks: &[(u32, u32)]) -> Vec<u32> {
        let mut pool = FreePool::new(rule, blocks.len());
        for &(block, erases) in blocks {
            pool.push(block, erases);
        }
        assert_eq!(pool.len(), blocks.len());
        std::iter::from_fn(|| pool.pop()).collect()
    }

    #[test]
    fn blocks_come_in_the_order_of_the_rule() {
        let blocks = [(7, 3), (2, 3), (9, 0), (1, 5)];
        assert_eq!(order(AllocationRule::LeastErased, &blocks), [9, 2, 7, 1]);
        assert_eq!(order(AllocationRule::Fifo, &blocks), [7, 2, 9, 1]);
        assert!(FreePool::default().is_empty());
    }

    #[test]
    fn the_most_worn_is_found_under_either_rule() {
        for rule in [AllocationRule::LeastErased, AllocationRule::Fifo] {
            let erases = [4, 9, 2, 9, 0];
            let mut pool = FreePool::new(rule, 5);
            (0..5u32).for_each(|block| pool.push(block, erases[block as usize]));
            let worn: Vec<u32> = std::iter::from_fn(|| pool.pop_most_worn(|block| erases[block as usize])).collect();
            assert_eq!(worn, [1, 3, 0, 2, 4]);
        }
    }

    #[test]
    fn least_erased_keeps_a_rotation_even() {
        let mut pool = FreePool::new(AllocationRule::LeastErased, 8);
        let mut erases = [0u32; 8];
        for block in 0..8 {
            pool.push(block, 0);
        }
        for _ in 0..803 {
            let block = pool.pop().unwrap();
            erases[block as usize] += 1;
            pool.push(block, erases[block as usize]);
        }
        assert!(erases.iter().max().unwrap() - erases.iter().min().unwrap() <= 1);
    }
}
