//! Update frequencies in a bounded table.

use nandkit_units::random;

/// Separation by update frequency, as in multi-log (Stoica and Ailamaki, VLDB 2013), with
/// frequencies from a table of hashed counters (Hsieh, Kuo and Chang, ACM TOS 2(1), 2006). Each
/// write of a datum increments the two counters that it hashes to, and all counters are halved
/// after every `halve_every` writes. The lower of the two gives how often the datum was written
/// recently (never too low). Region 0 holds data written at most once in that time; each further
/// region covers twice as many writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrequencyParameters {
    /// Regions, 1 to [`super::MAX_REGIONS`].
    pub regions: u8,
    /// The binary logarithm of the number of counters (a byte each), 4 to 24.
    pub counters_log2: u8,
    /// Writes between two halvings; 0 counts as 1.
    pub halve_every: u64,
}

impl FrequencyParameters {
    /// Counters are bytes, and each region covers twice the writes of the one below.
    pub const REGIONS_MAX: u8 = 8;
}

impl Default for FrequencyParameters {
    fn default() -> Self {
        Self { regions: 4, counters_log2: 14, halve_every: 16_384 }
    }
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct Frequencies {
    counters: Vec<u8>,
    writes: u64,
    halve_every: u64,
}

impl Frequencies {
    pub(super) fn new(parameters: FrequencyParameters) -> Self {
        let counters = vec![0; 1 << parameters.counters_log2.clamp(4, 24)];
        Self { counters, writes: 0, halve_every: parameters.halve_every.max(1) }
    }

    /// The two positions of a key; the number of counters is a power of two.
    fn places(&self, key: u64) -> [usize; 2] {
        let hash = random::hash(key, 0, 0);
        [hash, hash >> 32].map(|part| part as usize & self.counters.len().saturating_sub(1))
    }

    /// Counts a write and returns the region.
    pub(super) fn on_write(&mut self, key: u64) -> u8 {
        self.writes += 1;
        if self.writes >= self.halve_every {
            self.writes = 0;
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
        }
        let [first, second] = self.places(key);
        for place in [Some(first), (second != first).then_some(second)].into_iter().flatten() {
            if let Some(counter) = self.counters.get_mut(place) {
                *counter = counter.saturating_add(1);
            }
        }
        self.region(key)
    }

    /// The region of a key.
    pub(super) fn region(&self, key: u64) -> u8 {
        let count = self.places(key).iter().filter_map(|&place| self.counters.get(place)).min();
        count.and_then(|count| count.checked_ilog2()).map_or(0, |log| log as u8)
    }
}
