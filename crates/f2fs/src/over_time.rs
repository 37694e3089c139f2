//! Segments by state and valid blocks over simulated time, in a bounded number of samples.

use nandkit_units::Nanos;

use crate::segments::SegmentStates;

/// The most samples kept.
pub(crate) const MOST: usize = 256;

/// The state at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Simulated instant of the sample.
    pub at: Nanos,
    /// Segments by state.
    pub states: SegmentStates,
    /// Blocks in use: valid blocks and reserved addresses.
    pub valid_blocks: u64,
}

/// Samples in time order. When there are too many, every second one is dropped and later samples
/// keep the doubled distance, so that a long run has as many as a short one.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverTime {
    samples: Vec<Sample>,
    spacing: Nanos,
}

impl OverTime {
    /// Adds a sample unless the last one is too recent. Cost: constant; occasionally a pass over
    /// the samples.
    pub fn add(&mut self, sample: Sample) {
        let due = self.samples.last().map_or(Nanos::ZERO, |last| Nanos(last.at.0.saturating_add(self.spacing.0)));
        if sample.at < due {
            return;
        }
        if self.samples.len() == MOST {
            let first = self.samples.first().map_or(sample.at, |first| first.at);
            self.spacing = Nanos(sample.at.since(first).0 / (MOST as u64 / 2));
            let mut keeps = false;
            self.samples.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        self.samples.push(sample);
    }

    /// The value of each sample, followed by that of `present`.
    pub fn values(&self, present: Sample, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let is_new = self.samples.last() != Some(&present);
        self.samples.iter().chain(is_new.then_some(&present)).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Sample {
        Sample { at: Nanos(ns), valid_blocks: ns, ..Sample::default() }
    }

    #[test]
    fn long_runs_have_as_many_samples_as_short_ones_evenly_over_their_time() {
        let mut over_time = OverTime::default();
        for step in 0..100_000 {
            over_time.add(at(step * 1000));
            assert!(over_time.samples.len() <= MOST);
        }
        let present = at(100_000_123);
        let times = over_time.values(present, |sample| sample.at.0 as f64);
        assert!((MOST / 2..=MOST + 1).contains(&times.len()), "{}", times.len());
        assert_eq!((times.first(), times.last()), (Some(&0.0), Some(&100_000_123.0)));
        let widest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(widest <= 100_000_000.0 / (MOST as f64 / 4.0), "{widest}");
    }

    #[test]
    fn a_clock_that_stands_still_does_not_grow_it() {
        let mut over_time = OverTime::default();
        (0..10_000).for_each(|_| over_time.add(at(7)));
        assert!(over_time.samples.len() <= MOST);
        assert_eq!(over_time.values(at(7), |_| 1.0).len(), over_time.samples.len());
    }
}
