//! A compact table of the versions that the sectors of a block device must hold.

use std::collections::BTreeMap;

use nandkit_units::{Description, Generator};

/// Entries of a [`SparseTable`] that are allocated together.
const CHUNK: usize = 4096;

/// A table with one entry per unit of a device, of which only the used parts take memory.
#[derive(Debug)]
struct SparseTable<T> {
    chunks: Vec<Option<Box<[T; CHUNK]>>>,
}

impl<T: Copy + Default> SparseTable<T> {
    const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    #[inline]
    fn get(&self, index: u64) -> T {
        match self.chunks.get((index / CHUNK as u64) as usize) {
            Some(Some(chunk)) => chunk[(index % CHUNK as u64) as usize],
            _ => T::default(),
        }
    }

    #[inline]
    fn get_mut(&mut self, index: u64) -> &mut T {
        let chunk = (index / CHUNK as u64) as usize;
        if chunk >= self.chunks.len() {
            self.grow(chunk);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Box::new([T::default(); CHUNK]));
        &mut chunk[(index % CHUNK as u64) as usize]
    }

    #[cold]
    fn grow(&mut self, chunk: usize) {
        self.chunks.resize_with(chunk + 1, || None);
    }

    /// The first entry from `index` on that lies in an allocated part.
    fn next_used(&self, index: u64) -> Option<u64> {
        let first = (index / CHUNK as u64) as usize;
        let used = (first..self.chunks.len()).find(|chunk| matches!(self.chunks.get(*chunk), Some(Some(_))))?;
        Some(index.max((used * CHUNK) as u64))
    }
}

/// What a run of sectors must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Never written by the workload: anything.
    Unknown,
    /// Trimmed.
    Zeroes,
    /// Written.
    Written(Description),
}

/// Chooses the content of writes and remembers it.
pub(super) trait Ledger {
    /// Whether the ledger remembers contents; only then can reads be compared.
    const REMEMBERS: bool;

    /// The content of a write to `sectors` sectors from `at` on (one piece), from now on expected
    /// there.
    fn write(&mut self, at: u64, sectors: u32) -> Description;

    /// The unit of sectors from `at` on reads as that from `source` on does now.
    fn share(&mut self, at: u64, source: u64);

    /// The sectors are trimmed.
    fn trim(&mut self, at: u64, sectors: u64);

    /// What the sectors from `at` on hold, and for how many of the next `sectors` sectors one
    /// description says it.
    fn expectation(&self, at: u64, sectors: u32) -> (Expectation, u32);

    /// The first sector from `at` on about which something may be known.
    fn next_known(&self, at: u64) -> Option<u64>;
}

/// Remembers nothing; contents still differ from write to write.
#[derive(Debug, Default)]
pub(super) struct NoLedger {
    writes: u32,
}

impl Ledger for NoLedger {
    const REMEMBERS: bool = false;

    #[inline]
    fn write(&mut self, at: u64, _: u32) -> Description {
        self.writes = self.writes.wrapping_add(1);
        Description { record: at, version: self.writes, offset: 0, generator: Generator::Record }
    }

    fn share(&mut self, _: u64, _: u64) {}

    fn trim(&mut self, _: u64, _: u64) {}

    fn expectation(&self, _: u64, sectors: u32) -> (Expectation, u32) {
        (Expectation::Unknown, sectors)
    }

    fn next_known(&self, _: u64) -> Option<u64> {
        None
    }
}

/// For writes of whole units of one size: how often each unit was written. Unit i's content is
/// record i, version (count - 1), as the `overwrite` workload has it. 4 bytes per unit.
#[derive(Debug)]
pub(super) struct UnitLedger {
    unit_sectors: u32,
    /// The shift that divides by `unit_sectors`, where it is a power of two.
    shift: Option<u32>,
    /// How often each unit was written; [`UnitLedger::TRIMMED`] is set if it was trimmed since.
    counts: SparseTable<u32>,
    /// The content of each unit that was mapped to the content of another unit.
    shared: BTreeMap<u64, Description>,
}

impl UnitLedger {
    const TRIMMED: u32 = 1 << 31;

    pub fn new(unit_sectors: u32) -> Self {
        let unit_sectors = unit_sectors.max(1);
        let shift = unit_sectors.is_power_of_two().then(|| unit_sectors.trailing_zeros());
        Self { unit_sectors, shift, counts: SparseTable::new(), shared: BTreeMap::new() }
    }

    #[inline]
    fn unit(&self, at: u64) -> u64 {
        match self.shift {
            Some(shift) => at >> shift,
            None => at / u64::from(self.unit_sectors),
        }
    }
}

impl Ledger for UnitLedger {
    const REMEMBERS: bool = true;

    #[inline]
    fn write(&mut self, at: u64, _: u32) -> Description {
        let unit = self.unit(at);
        let count = self.counts.get_mut(unit);
        // After 2^31 writes of one unit the count starts anew at 1.
        *count = (((*count & !Self::TRIMMED) + 1) & !Self::TRIMMED).max(1);
        let version = *count - 1;
        if !self.shared.is_empty() {
            self.shared.remove(&unit);
        }
        Description { record: unit, version, offset: 0, generator: Generator::Record }
    }

    fn share(&mut self, at: u64, source: u64) {
        let (unit, from) = (self.unit(at), self.unit(source));
        let count = self.counts.get(from);
        let own = Description { record: from, version: count.wrapping_sub(1), offset: 0, generator: Generator::Record };
        let description = self.shared.get(&from).copied().or((count != 0 && count & Self::TRIMMED == 0).then_some(own));
        let count = self.counts.get_mut(unit);
        match description {
            Some(description) => {
                // The unit counts as written and not trimmed.
                *count = (*count & !Self::TRIMMED).max(1);
                self.shared.insert(unit, description);
            }
            None => {
                *count = 0;
                self.shared.remove(&unit);
            }
        }
    }

    fn trim(&mut self, at: u64, sectors: u64) {
        for unit in self.unit(at)..self.unit(at.saturating_add(sectors)) {
            *self.counts.get_mut(unit) |= Self::TRIMMED;
            self.shared.remove(&unit);
        }
    }

    fn expectation(&self, at: u64, sectors: u32) -> (Expectation, u32) {
        let unit = self.unit(at);
        let within = (at - unit * u64::from(self.unit_sectors)) as u32;
        let length = (self.unit_sectors - within).min(sectors);
        let count = self.counts.get(unit);
        let expectation = if count == 0 {
            Expectation::Unknown
        } else if count & Self::TRIMMED != 0 {
            Expectation::Zeroes
        } else if within == 0
            && let Some(description) = self.shared.get(&unit)
        {
            Expectation::Written(*description)
        } else if within == 0 {
            let version = count - 1;
            Expectation::Written(Description { record: unit, version, offset: 0, generator: Generator::Record })
        } else {
            // Reads cover whole units, too; a part of a unit is not compared.
            Expectation::Unknown
        };
        (expectation, length)
    }

    fn next_known(&self, at: u64) -> Option<u64> {
        let unit = self.unit(at);
        let next = self.counts.next_used(unit)?;
        Some(if next == unit { at } else { next * u64::from(self.unit_sectors) })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The number of the write, from 1; 0: never written.
    write: u32,
    /// How many sectors after the write's first one.
    within: u16,
    trimmed: bool,
}

/// For writes of any place and length: which write each sector came from. A write's content is
/// record = its first sector, version = its number. 8 bytes per sector.
#[derive(Debug)]
pub(super) struct SectorLedger {
    sector_size: u32,
    writes: u32,
    sectors: SparseTable<Written>,
}

impl SectorLedger {
    pub const fn new(sector_size: u32) -> Self {
        Self { sector_size, writes: 0, sectors: SparseTable::new() }
    }
}

impl Ledger for SectorLedger {
    const REMEMBERS: bool = true;

    #[inline]
    fn write(&mut self, at: u64, sectors: u32) -> Description {
        self.writes = self.writes.wrapping_add(1).max(1);
        for within in 0..sectors {
            // A piece has at most 65,536 / 512 = 128 sectors.
            let written = Written { write: self.writes, within: within as u16, trimmed: false };
            *self.sectors.get_mut(at + u64::from(within)) = written;
        }
        Description { record: at, version: self.writes, offset: 0, generator: Generator::Record }
    }

    /// Not called: workloads that share write whole units, which [`UnitLedger`] counts.
    fn share(&mut self, at: u64, _: u64) {
        *self.sectors.get_mut(at) = Written::default();
    }

    fn trim(&mut self, at: u64, sectors: u64) {
        for sector in at..at.saturating_add(sectors) {
            *self.sectors.get_mut(sector) = Written { write: 0, within: 0, trimmed: true };
        }
    }

    fn expectation(&self, at: u64, sectors: u32) -> (Expectation, u32) {
        let first = self.sectors.get(at);
        let mut length = 1;
        while length < sectors {
            let next = self.sectors.get(at + u64::from(length));
            let continues = next.write == first.write
                && next.trimmed == first.trimmed
                && (first.write == 0 || u32::from(next.within) == u32::from(first.within) + length);
            if !continues {
                break;
            }
            length += 1;
        }
        let expectation = if first.trimmed {
            Expectation::Zeroes
        } else if first.write == 0 {
            Expectation::Unknown
        } else {
            Expectation::Written(Description {
                record: at - u64::from(first.within),
                version: first.write,
                offset: u32::from(first.within) * self.sector_size,
                generator: Generator::Record,
            })
        };
        (expectation, length)
    }

    fn next_known(&self, at: u64) -> Option<u64> {
        self.sectors.next_used(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_counts_its_versions_over_a_trim() {
        let mut ledger = UnitLedger::new(3);
        assert_eq!(ledger.write(6, 3).version, 0);
        assert_eq!(ledger.write(6, 3).version, 1);
        ledger.trim(6, 3);
        assert_eq!(ledger.expectation(6, 3), (Expectation::Zeroes, 3));
        let description = ledger.write(6, 3);
        assert_eq!((description.record, description.version), (2, 2));
        assert_eq!(ledger.expectation(6, 100), (Expectation::Written(description), 3));
        assert_eq!(ledger.expectation(9, 3), (Expectation::Unknown, 3));
    }

    #[test]
    fn sectors_remember_the_write_that_covers_them() {
        let mut ledger = SectorLedger::new(512);
        ledger.write(10, 8);
        ledger.write(12, 2);
        let description =
            |record, version, offset| Description { record, version, offset, generator: Generator::Record };
        assert_eq!(ledger.expectation(10, 8), (Expectation::Written(description(10, 1, 0)), 2));
        assert_eq!(ledger.expectation(12, 8), (Expectation::Written(description(12, 2, 0)), 2));
        assert_eq!(ledger.expectation(14, 8), (Expectation::Written(description(10, 1, 4 * 512)), 4));
        ledger.trim(15, 1);
        assert_eq!(ledger.expectation(14, 8).1, 1);
        assert_eq!(ledger.expectation(15, 8), (Expectation::Zeroes, 1));
        assert_eq!(ledger.next_known(0), Some(0));
        assert_eq!(ledger.next_known(1 << 20), None);
    }
}
