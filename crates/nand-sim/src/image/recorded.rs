//! Bookkeeping of the records on a device, to detect records that vanish.
//!
//! A record that was zeroed, or whose chip number or generation was damaged, reads as absent. The
//! counts kept here are in other sectors and reveal the difference.

use std::collections::BTreeMap;

/// The blocks with a record, and their pages with a record of the block's generation. Takes one bit
/// per page of a recorded block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    blocks: BTreeMap<u32, Vec<u64>>,
}

impl Recorded {
    /// Adds a block's record.
    pub fn add_block(&mut self, block: u32) {
        self.blocks.entry(block).or_default();
    }

    /// Adds a page's record, and that of its block.
    pub fn add_page(&mut self, block: u32, page: u32) {
        let words = self.blocks.entry(block).or_default();
        let word = page as usize / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if let Some(word) = words.get_mut(word) {
            *word |= 1 << (page % 64);
        }
    }

    /// Removes the block's pages, because it has a new generation.
    pub fn erase(&mut self, block: u32) {
        if let Some(words) = self.blocks.get_mut(&block) {
            words.clear();
        }
    }

    /// The number of the block's pages below `end` with a record.
    pub fn pages(&self, block: u32, end: u32) -> u32 {
        let words = self.blocks.get(&block).map_or(&[][..], Vec::as_slice);
        let (whole, rest) = (end as usize / 64, end % 64);
        let full: u32 = words.iter().take(whole).map(|word| word.count_ones()).sum();
        full + words.get(whole).map_or(0, |word| (word & ((1 << rest) - 1)).count_ones())
    }

    /// The first page of the block without a record.
    pub fn first_missing(&self, block: u32) -> u32 {
        let words = self.blocks.get(&block).map_or(&[][..], Vec::as_slice);
        let full = words.iter().take_while(|word| **word == u64::MAX).count();
        full as u32 * 64 + words.get(full).map_or(0, |word| word.trailing_ones())
    }

    /// The number of blocks with a record, and the sum of their numbers, which identifies a missing
    /// one.
    pub fn blocks(&self) -> (u32, u64) {
        (self.blocks.len() as u32, self.blocks.keys().map(|block| u64::from(*block)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_once_and_below_the_end() {
        let mut recorded = Recorded::default();
        for page in [0, 1, 63, 64, 64, 130] {
            recorded.add_page(7, page);
        }
        recorded.add_block(9);
        recorded.add_block(9);
        let counted = [0, 1, 63, 64, 65, 130, 131, 500].map(|end| recorded.pages(7, end));
        assert_eq!(counted, [0, 1, 2, 3, 4, 4, 5, 5]);
        assert_eq!((recorded.first_missing(7), recorded.first_missing(9), recorded.first_missing(8)), (2, 0, 0));
        (2..63).for_each(|page| recorded.add_page(7, page));
        assert_eq!(recorded.first_missing(7), 65);
        assert_eq!(recorded.blocks(), (2, 16));
        recorded.erase(7);
        assert_eq!((recorded.pages(7, 500), recorded.blocks()), (0, (2, 16)));
    }
}
