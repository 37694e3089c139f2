//! The set of logical pages with content.

/// One bit per logical page. All zero for an empty device, which takes no memory until it is
/// written.
#[derive(Debug)]
pub(crate) struct Present {
    np: usize,
    words: usize,
    bits: Vec<u64>,
}

impl Present {
    pub fn new(lbns: u32, np: u32) -> Self {
        let words = (np as usize).div_ceil(64);
        Self { np: np as usize, words, bits: vec![0; lbns as usize * words] }
    }

    #[inline]
    fn bit(&self, lbn: u32, offset: u32) -> (usize, u64) {
        (lbn as usize * self.words + offset as usize / 64, 1 << (offset % 64))
    }

    #[inline]
    pub fn get(&self, lbn: u32, offset: u32) -> bool {
        let (word, bit) = self.bit(lbn, offset);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    #[inline]
    pub fn set(&mut self, lbn: u32, offset: u32, present: bool) {
        let (word, bit) = self.bit(lbn, offset);
        if let Some(word) = self.bits.get_mut(word) {
            if present {
                *word |= bit;
            } else {
                *word &= !bit;
            }
        }
    }

    /// The bits of one logical block, 64 per word.
    #[inline]
    pub fn words_of(&self, lbn: u32) -> &[u64] {
        let first = lbn as usize * self.words;
        self.bits.get(first..first + self.words).unwrap_or(&[])
    }

    /// The number of pages up to the last one with content, and whether all of them have content.
    pub fn extent(&self, lbn: u32) -> (u32, bool) {
        let words = self.words_of(lbn);
        let held: u32 = words.iter().map(|word| word.count_ones()).sum();
        let end = words
            .iter()
            .rposition(|word| *word != 0)
            .map_or(0, |index| index as u32 * 64 + 64 - words.get(index).map_or(0, |word| word.leading_zeros()));
        (end, held as usize == self.np)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_end_at_the_last_page_that_holds_something() {
        let mut present = Present::new(3, 100);
        assert_eq!(present.extent(1), (0, false));
        for (offset, end) in [(3, 4), (63, 64), (64, 65), (99, 100)] {
            present.set(1, offset, true);
            assert_eq!(present.extent(1), (end, false));
            assert!(present.get(1, offset) && !present.get(0, offset) && !present.get(2, offset));
        }
        (0..100).for_each(|offset| present.set(1, offset, true));
        assert_eq!(present.extent(1), (100, true));
        present.set(1, 99, false);
        assert_eq!(present.extent(1), (99, false));
    }
}
