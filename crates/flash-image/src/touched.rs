//! Which parts of a private map were written since the file was mapped: all others equal the file,
//! without reading them.

use std::ops::Range;

/// Granularity in bytes: the kernel's page, which it copies as a whole.
const UNIT: u64 = 4096;

/// A set of parts of a map, in units of 4 KiB. Memory: one bit each.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    words: Vec<u64>,
}

impl Touched {
    /// Records the bytes from `offset` up to `end`.
    pub fn note(&mut self, offset: u64, end: u64) {
        for unit in offset / UNIT..end.div_ceil(UNIT) {
            let word = (unit / 64) as usize;
            if word >= self.words.len() {
                self.words.resize(word + 1, 0);
            }
            if let Some(word) = self.words.get_mut(word) {
                *word |= 1 << (unit % 64);
            }
        }
    }

    /// The recorded bytes of a map of length `length`, unit by unit in ascending order. Cost:
    /// examines 64 units at a time.
    pub fn units(&self, length: u64) -> impl Iterator<Item = Range<u64>> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        let units = words.flat_map(|(number, word)| {
            (0..64_u64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number as u64 * 64 + bit)
        });
        units.map(move |unit| unit * UNIT..length.min((unit + 1) * UNIT)).filter(|range| !range.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_that_the_bytes_lie_in() {
        let mut touched = Touched::default();
        assert_eq!(touched.units(u64::MAX).count(), 0);
        touched.note(5, 5);
        touched.note(4095, 4097);
        touched.note(64 * 4096, 64 * 4096 + 1);
        touched.note(1 << 40, (1 << 40) + 4096);
        let found: Vec<_> = touched.units((1 << 40) + 9).collect();
        let at = 64 * 4096;
        assert_eq!(found, [0..4096, 4096..8192, at..at + 4096, 1 << 40..(1 << 40) + 9]);
        assert_eq!(touched.units(8000).collect::<Vec<_>>(), [0..4096, 4096..8000], "what a shorter map has of them");
    }
}
