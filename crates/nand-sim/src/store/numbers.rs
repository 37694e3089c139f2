//! Numbers packed into three, four or five bytes each, depending on the largest one ever stored.

/// A table of numbers below 2^40.
#[derive(Clone, Debug)]
pub struct Numbers {
    bytes: Vec<u8>,
    width: usize,
    count: usize,
}

/// The initial width of a table: numbers below 2^24.
const FIRST_WIDTH: usize = 3;
/// Bytes after the last number, so that each can be read as a word.
const PADDING: usize = 8;

impl Numbers {
    /// A table of `count` zeroes. Takes address space, but no memory.
    pub fn new(count: usize) -> Self {
        Self { bytes: vec![0; count * FIRST_WIDTH + PADDING], width: FIRST_WIDTH, count }
    }

    /// The number at an index; 0 past the end.
    #[inline(always)]
    pub fn get(&self, place: usize) -> u64 {
        let start = place * self.width;
        let word = self.bytes.get(start..).and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_le_bytes(*word)) & self.mask()
    }

    /// Stores a number; does nothing past the end. A number that needs more bytes than all before
    /// rebuilds the table, at most twice in its life.
    #[inline(always)]
    pub fn set(&mut self, place: usize, number: u64) {
        if number > self.mask() {
            self.widen(number);
        }
        let (start, width) = (place * self.width, self.width);
        let bytes = number.to_le_bytes();
        // The usual width, with a length known to the compiler.
        if width == FIRST_WIDTH {
            let into = self.bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<FIRST_WIDTH>());
            if let (Some(into), Some(from)) = (into, bytes.first_chunk::<FIRST_WIDTH>()) {
                *into = *from;
            }
        } else if let (Some(into), Some(from)) = (self.bytes.get_mut(start..start + width), bytes.get(..width)) {
            into.copy_from_slice(from);
        }
    }

    #[inline(always)]
    const fn mask(&self) -> u64 {
        (1 << (self.width * 8)) - 1
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, number: u64) {
        let width = (FIRST_WIDTH..=5).find(|width| number >> (width * 8) == 0).unwrap_or(5);
        let mut wider = Self { bytes: vec![0; self.count * width + PADDING], width, count: self.count };
        for place in 0..self.count {
            let old = self.get(place);
            // Unwritten entries stay without memory.
            if old != 0 {
                wider.set(place, old);
            }
        }
        *self = wider;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_are_while_the_table_grows_wider() {
        let mut numbers = Numbers::new(4);
        numbers.set(1, (1 << 24) - 1);
        numbers.set(2, 7);
        assert_eq!([0, 1, 2, 3].map(|place| numbers.get(place)), [0, (1 << 24) - 1, 7, 0]);
        numbers.set(3, 1 << 24);
        assert_eq!([0, 1, 2, 3].map(|place| numbers.get(place)), [0, (1 << 24) - 1, 7, 1 << 24]);
        numbers.set(0, (1 << 40) - 1);
        assert_eq!([0, 1, 2, 3].map(|place| numbers.get(place)), [(1 << 40) - 1, (1 << 24) - 1, 7, 1 << 24]);
        assert_eq!(numbers.get(99), 0);
    }
}
