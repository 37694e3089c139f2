//! A log-linear histogram of latencies with exact count, sum, minimum and maximum.

use nandkit_units::Nanos;

/// 2^7 linear steps per power of two: a reported quantile is at most 1/128 (0.8 %) above the true
/// one.
const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// A histogram of spans of simulated time. Recording costs a few nanoseconds and never allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

/// Values under 128 have a bucket each; above, the 7 bits behind the leading one choose the step.
#[inline]
const fn bucket_of(value: u64) -> usize {
    let magnitude = 63 - (value | (STEPS as u64 - 1)).leading_zeros();
    let shift = magnitude + 1 - STEP_BITS;
    ((shift as usize) << STEP_BITS)
        + if shift == 0 { value as usize } else { (value >> (shift - 1)) as usize & (STEPS - 1) }
}

/// The greatest value that falls into a bucket.
const fn bucket_last(bucket: usize) -> u64 {
    let (shift, step) = (bucket >> STEP_BITS, (bucket & (STEPS - 1)) as u64);
    if shift == 0 {
        return step;
    }
    let width = shift as u32 - 1;
    ((STEPS as u64 | step) << width) + ((1u64 << width) - 1)
}

impl LatencyHistogram {
    /// Counts one span.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        if let Some(count) = self.counts.get_mut(bucket_of(span.0)) {
            *count += 1;
        }
        self.count += 1;
        self.sum_ns += u128::from(span.0);
        self.min_ns = self.min_ns.min(span.0);
        self.max_ns = self.max_ns.max(span.0);
    }

    /// How many spans were counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all spans; saturates.
    pub fn sum(&self) -> Nanos {
        Nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    /// The shortest span, exactly; zero where none was counted.
    pub const fn min(&self) -> Nanos {
        if self.count == 0 { Nanos::ZERO } else { Nanos(self.min_ns) }
    }

    /// The longest span, exactly.
    pub const fn max(&self) -> Nanos {
        Nanos(self.max_ns)
    }

    /// The mean, rounded down; zero where none was counted.
    pub fn mean(&self) -> Nanos {
        let mean = self.sum_ns.checked_div(u128::from(self.count)).unwrap_or(0);
        Nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// A span that the share `quantile` (0 to 1) of all spans does not exceed, at most 0.8 % above
    /// the least such span and never above the longest.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(bucket_last(bucket).clamp(self.min_ns, self.max_ns));
            }
        }
        self.max()
    }

    /// Adds another histogram's spans.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::random::Random;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_most_one_step_above() {
        let mut random = Random::new(1, "latency");
        let drawn = (0..10_000).map(|_| random.next_u64() >> random.below(64));
        for value in drawn.chain([0, 1, 127, 128, 129, 255, 256, u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value}");
            let last = bucket_last(bucket);
            assert!(last >= value && last - value <= value / 128, "{value} in {bucket} up to {last}");
        }
        for value in 0..100_000u64 {
            assert!(bucket_of(value) <= bucket_of(value + 1), "{value}");
        }
    }

    #[test]
    fn quantiles_agree_with_a_sorted_list() {
        let mut random = Random::new(2, "latency");
        let mut values: Vec<u64> = (0..5_000).map(|_| random.between(100, 3_000_000)).collect();
        let mut histogram = LatencyHistogram::default();
        values.iter().for_each(|value| histogram.record(Nanos(*value)));
        values.sort_unstable();
        for quantile in [0.0, 0.1, 0.5, 0.99, 0.999, 1.0] {
            let rank = ((quantile * 5_000.0_f64).ceil() as usize).max(1);
            let (exact, reported) = (values[rank - 1], histogram.quantile(quantile).0);
            assert!(reported >= exact && reported <= exact + exact / 128, "{quantile}: {exact} {reported}");
        }
        assert_eq!(histogram.max(), Nanos(*values.last().unwrap()));
        assert_eq!(histogram.min(), Nanos(values[0]));
        assert_eq!(histogram.sum(), Nanos(values.iter().sum()));
    }

    #[test]
    fn an_empty_one_answers_zero_and_adding_keeps_all() {
        let mut empty = LatencyHistogram::default();
        assert_eq!((empty.min(), empty.mean(), empty.quantile(0.5)), (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
        let mut other = LatencyHistogram::default();
        other.record(Nanos(7));
        empty.add(&other);
        assert_eq!((empty.count(), empty.min(), empty.max()), (1, Nanos(7), Nanos(7)));
    }
}
