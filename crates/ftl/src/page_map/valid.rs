//! The set of valid slots: slots that the map points at, one bit each.

/// One bit per slot.
#[derive(Clone, Debug)]
pub(crate) struct ValidSlots {
    words: Vec<u64>,
}

impl ValidSlots {
    /// An empty set. Takes address space, but no memory.
    pub fn new(slots: u64) -> Self {
        Self { words: vec![0; usize::try_from(slots.div_ceil(64)).unwrap_or(0)] }
    }

    #[inline(always)]
    pub fn set(&mut self, slot: u32) {
        if let Some(word) = self.words.get_mut(slot as usize / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    #[inline(always)]
    pub fn clear(&mut self, slot: u32) {
        if let Some(word) = self.words.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Prefetches the word of a slot.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        nandkit_units::prefetch(&self.words, slot as usize / 64);
    }

    #[inline]
    pub fn holds(&self, slot: u32) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Calls `visit` for each valid slot of `count` slots from `first` on, in order.
    #[inline]
    pub fn for_each(&self, first: u32, count: u32, mut visit: impl FnMut(u32)) {
        let (start, end) = (u64::from(first), u64::from(first) + u64::from(count));
        for index in start / 64..end.div_ceil(64) {
            let base = index * 64;
            let mut word = self.words.get(index as usize).copied().unwrap_or(0);
            if base < start {
                word &= u64::MAX << (start - base);
            }
            if end - base < 64 {
                word &= (1 << (end - base)) - 1;
            }
            while word != 0 {
                visit((base + u64::from(word.trailing_zeros())) as u32);
                word &= word - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_any_alignment_are_walked_in_order() {
        let mut valid = ValidSlots::new(300);
        let set: Vec<u32> = (0..300).filter(|slot| slot % 7 == 0 || (120..140).contains(slot)).collect();
        set.iter().for_each(|slot| valid.set(*slot));
        valid.clear(126);
        for (first, count) in [(0, 300), (64, 64), (63, 2), (5, 0), (10, 3), (100, 150), (299, 1)] {
            let mut found = Vec::new();
            valid.for_each(first, count, |slot| found.push(slot));
            let inside = |slot: &&u32| **slot >= first && **slot < first + count && **slot != 126;
            assert_eq!(found, set.iter().filter(inside).copied().collect::<Vec<_>>(), "{first}, {count}");
        }
        assert!(valid.holds(7) && !valid.holds(126) && !valid.holds(9999));
    }
}
