//! Distributions of sizes and latencies in constant memory.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets per octave: values are resolved to one part in 16.
const SUB: u64 = 16;
const BUCKETS: usize = 16 + 60 * 16;

/// A histogram with buckets that widen with the value: exact below 16, then 16 buckets per octave.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), max: AtomicU64::new(0) }
    }
}

#[inline]
const fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as u64 - 4;
    (octave * SUB + (value >> octave)) as usize
}

/// The largest value of a bucket.
const fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let octave = bucket / SUB - 1;
    let base = bucket % SUB + SUB;
    (base << octave) + ((1 << octave) - 1)
}

impl Histogram {
    /// Counts a value. May run in parallel.
    #[inline]
    pub fn record(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// The current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            buckets: self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect(),
            max: self.max.load(Relaxed),
        }
    }
}

/// The counts of a [`Histogram`] at one time, or between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    max: u64,
}

impl HistogramSnapshot {
    /// The number of values counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The largest value; between two snapshots rounded up to its bucket.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The value that this part (0 to 1) of all values does not exceed, rounded up to its bucket
    /// (by at most a 16th); 0 if there are no values.
    pub fn quantile(&self, part: f64) -> u64 {
        let count = self.count();
        let rank = ((part.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, held) in self.buckets.iter().enumerate() {
            seen += held;
            if seen >= rank {
                return upper_end(bucket).min(self.max);
            }
        }
        0
    }

    /// Counts by power of two: element n counts the values in `2^n .. 2^(n+1)`, element 0 also the
    /// zeroes.
    pub fn by_power_of_two(&self) -> Vec<u64> {
        let mut powers = Vec::new();
        for (bucket, &held) in self.buckets.iter().enumerate().filter(|(_, held)| **held > 0) {
            let power = 63 - upper_end(bucket).max(1).leading_zeros() as usize;
            if powers.len() <= power {
                powers.resize(power + 1, 0);
            }
            powers[power] += held;
        }
        powers
    }
}

impl Sub for &HistogramSnapshot {
    type Output = HistogramSnapshot;
    /// The counts since `earlier`.
    fn sub(self, earlier: Self) -> HistogramSnapshot {
        let mut buckets = self.buckets.clone();
        for (held, earlier) in buckets.iter_mut().zip(&earlier.buckets) {
            *held = held.saturating_sub(*earlier);
        }
        let last = buckets.iter().rposition(|&held| held > 0);
        let max = last.map_or(0, |bucket| upper_end(bucket).min(self.max));
        HistogramSnapshot { buckets, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_the_bucket_that_ends_at_or_just_above_it() {
        let mut values = vec![0, 1, 15, 16, 17, 31, 32, 33, 1000, 4096, u64::MAX, u64::MAX - 1];
        values.extend((0..64).map(|shift| 1u64 << shift));
        values.extend((0..20_000).map(|i| i * i));
        for value in values {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value}");
            let (end, before) = (upper_end(bucket), bucket.checked_sub(1).map(upper_end));
            assert!(value <= end && before.is_none_or(|before| before < value), "{value} in {bucket}, ends at {end}");
            assert!(end - value <= value / 16, "{value} is rounded to {end}");
        }
    }

    #[test]
    fn quantiles_and_differences() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        let first = histogram.snapshot();
        assert_eq!((first.count(), first.max(), first.quantile(1.0)), (1000, 1000, 1000));
        assert!((500..=531).contains(&first.quantile(0.5)), "{}", first.quantile(0.5));
        assert_eq!(first.by_power_of_two(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 489]);
        (0..10).for_each(|_| histogram.record(3));
        let second = &histogram.snapshot() - &first;
        assert_eq!((second.count(), second.max(), second.quantile(0.99)), (10, 3, 3));
        assert_eq!(HistogramSnapshot::default().quantile(0.5), 0);
    }
}
