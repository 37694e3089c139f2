//! Sets of segments and sections as bitmaps with a count.

use nandkit_cleaning::search::Marked;

/// A set of numbers below its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    length: u32,
    count: u32,
}

impl Bitmap {
    /// The empty set of numbers below `length`.
    pub fn new(length: u32) -> Self {
        Self { words: vec![0; length.div_ceil(64) as usize], length, count: 0 }
    }

    /// The number of elements. Cost: a field access.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The exclusive upper bound of the elements.
    #[inline]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// Whether a number is in the set; false past the end.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        self.words.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// The elements, for a search.
    #[inline]
    pub fn marked(&self) -> Marked<'_> {
        Marked { words: &self.words, length: self.length }
    }

    /// Adds a number; returns whether the set changed. Does nothing past the end.
    #[inline]
    pub fn insert(&mut self, number: u32) -> bool {
        if number >= self.length {
            return false;
        }
        let word = &mut self.words[(number / 64) as usize];
        let added = *word >> (number % 64) & 1 == 0;
        *word |= 1 << (number % 64);
        self.count += u32::from(added);
        added
    }

    /// Removes a number; returns whether the set changed.
    #[inline]
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut((number / 64) as usize) else { return false };
        let removed = *word >> (number % 64) & 1 != 0;
        *word &= !(1 << (number % 64));
        self.count -= u32::from(removed);
        removed
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// The first element in `from..end`. Cost: one word per 64 numbers skipped.
    #[inline]
    pub fn next(&self, from: u32, end: u32) -> Option<u32> {
        self.search(from, end, 0)
    }

    /// The first number in `from..end` that is not an element.
    #[inline]
    pub fn next_absent(&self, from: u32, end: u32) -> Option<u32> {
        self.search(from, end, u64::MAX)
    }

    #[inline]
    fn search(&self, from: u32, end: u32, flip: u64) -> Option<u32> {
        let end = end.min(self.length);
        if from >= end {
            return None;
        }
        let (mut index, last) = ((from / 64) as usize, ((end - 1) / 64) as usize);
        let mut word = (self.words.get(index)? ^ flip) & (u64::MAX << (from % 64));
        while word == 0 {
            if index == last {
                return None;
            }
            index += 1;
            word = self.words.get(index)? ^ flip;
        }
        let found = index as u32 * 64 + word.trailing_zeros();
        (found < end).then_some(found)
    }

    /// All elements, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next(from, self.length)?;
            from = found + 1;
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_agree_with_a_plain_set() {
        let mut bitmap = Bitmap::new(200);
        let mut set = std::collections::BTreeSet::new();
        let mut random = nandkit_units::random::Random::new(7, "bitmap");
        for _ in 0..3000 {
            let number = random.below(210) as u32;
            if random.below(2) == 0 {
                assert_eq!(bitmap.insert(number), number < 200 && set.insert(number));
            } else {
                assert_eq!(bitmap.remove(number), set.remove(&number));
            }
            let (from, end) = (random.below(210) as u32, random.below(260) as u32);
            assert_eq!(bitmap.next(from, end), (from..end.min(200)).find(|number| set.contains(number)));
            assert_eq!(bitmap.next_absent(from, end), (from..end.min(200)).find(|number| !set.contains(number)));
            assert_eq!(bitmap.count() as usize, set.len());
        }
        assert!(bitmap.iter().eq(set.iter().copied()));
    }
}
