//! The sectors changed since the last flush, and the location of their new content.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The location of an extent's content.
#[derive(Clone, Debug)]
pub enum Source {
    /// In memory, from this byte of the buffer on.
    Memory { bytes: Arc<[u8]>, start: usize },
    /// In the journal, from this byte of the file on.
    Journal { offset: u64 },
    /// Zeroes.
    Zero,
}

/// Consecutive changed sectors.
#[derive(Clone, Debug)]
pub struct Extent {
    pub sectors: u64,
    pub source: Source,
}

impl Extent {
    /// The part that starts `skip` sectors further on.
    pub fn part(&self, skip: u64, sectors: u64, sector_size: u32) -> Self {
        let bytes = skip * u64::from(sector_size);
        let source = match &self.source {
            Source::Memory { bytes: held, start } => {
                Source::Memory { bytes: held.clone(), start: start + bytes as usize }
            }
            Source::Journal { offset } => Source::Journal { offset: offset + bytes },
            Source::Zero => Source::Zero,
        };
        Self { sectors, source }
    }
}

/// Disjoint extents by first sector; a later extent replaces what it covers.
#[derive(Clone, Debug)]
pub struct ExtentMap {
    sector_size: u32,
    extents: BTreeMap<u64, Extent>,
}

impl ExtentMap {
    pub const fn new(sector_size: u32) -> Self {
        Self { sector_size, extents: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    pub fn clear(&mut self) {
        self.extents.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Extent)> {
        self.extents.iter().map(|(&at, extent)| (at, extent))
    }

    /// Inserts an extent over existing ones.
    pub fn insert(&mut self, at: u64, extent: Extent) {
        let end = at + extent.sectors;
        if let Some((&start, before)) = self.extents.range(..at).next_back() {
            let before_end = start + before.sectors;
            if before_end > at {
                let head = before.part(0, at - start, self.sector_size);
                let tail = (before_end > end).then(|| before.part(end - start, before_end - end, self.sector_size));
                self.extents.insert(start, head);
                if let Some(tail) = tail {
                    self.extents.insert(end, tail);
                }
            }
        }
        let covered: Vec<u64> = self.extents.range(at..end).map(|(&start, _)| start).collect();
        for start in covered {
            if let Some(old) = self.extents.remove(&start) {
                let old_end = start + old.sectors;
                if old_end > end {
                    self.extents.insert(end, old.part(end - start, old_end - end, self.sector_size));
                }
            }
        }
        if extent.sectors > 0 {
            self.extents.insert(at, extent);
        }
    }

    /// The parts of extents within `at .. at + sectors`.
    pub fn overlapping(&self, at: u64, sectors: u64) -> impl Iterator<Item = (u64, Extent)> + '_ {
        let end = at + sectors;
        let before = self.extents.range(..at).next_back();
        before.into_iter().chain(self.extents.range(at..end)).filter_map(move |(&start, extent)| {
            let first = start.max(at);
            let last = (start + extent.sectors).min(end);
            (first < last).then(|| (first, extent.part(first - start, last - first, self.sector_size)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::random::Random;

    #[test]
    fn random_insertions_agree_with_a_plain_array() {
        let mut random = Random::new(3, "extents");
        let mut map = ExtentMap::new(1);
        let mut plain = [0u8; 64];
        for round in 1..=2000u32 {
            let at = random.below(64) as usize;
            let sectors = random.between(0, 64 - at as u64) as usize;
            let value = (round % 250) as u8 + 1;
            plain[at..at + sectors].fill(value);
            let bytes: Arc<[u8]> = vec![value; sectors].into();
            map.insert(at as u64, Extent { sectors: sectors as u64, source: Source::Memory { bytes, start: 0 } });
            let (from, count) = (random.below(64), random.below(20));
            for (first, part) in map.overlapping(from, count.min(64 - from)) {
                assert!(first >= from && first + part.sectors <= from + count);
                let Source::Memory { bytes, start } = part.source else { panic!() };
                for index in 0..part.sectors as usize {
                    assert_eq!(bytes[start + index], plain[first as usize + index]);
                }
            }
            let covered: u64 = map.iter().map(|(_, extent)| extent.sectors).sum();
            assert_eq!(covered as usize, plain.iter().filter(|&&value| value != 0).count());
        }
    }
}
