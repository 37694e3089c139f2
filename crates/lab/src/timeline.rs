//! Series for plots: samples of the measured phase at equal counts of operations, and a coarse map
//! of wear over the chip.

use std::collections::BTreeMap;

use nandkit_flash::wrap::FlashCounters;
use nandkit_record::LayerValue;
use nandkit_units::Nanos;
use nandkit_workload::{Phase, Progress};

use crate::snapshot::Watch;

/// Samples kept at the most. When they are exceeded every second one goes, and from then on only
/// every second step is kept, so that a phase of any length has half as many or more.
const SAMPLES_MAX: usize = 64;

/// The counters at one moment of the phase. All count from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    at_ns: u64,
    written: u64,
    read: u64,
    programmed: u64,
    erases: u64,
}

/// Takes samples while the measured phase runs.
pub(crate) struct Timeline<'a> {
    flash: Option<&'a FlashCounters>,
    started: Nanos,
    /// The counters of the flash before the phase.
    before: Sample,
    /// Steps of the driver between two samples that are kept.
    stride: u64,
    steps: u64,
    samples: Vec<Sample>,
}

impl<'a> Timeline<'a> {
    /// Starts at the beginning of a phase.
    pub fn start(watch: &Watch<'a>) -> Self {
        let flash = watch.watched.flash.as_deref();
        let started = watch.clock.now();
        let empty = Self { flash, started, before: Sample::default(), stride: 1, steps: 0, samples: Vec::new() };
        Self { before: empty.sample(started, 0, 0), ..empty }
    }

    fn sample(&self, now: Nanos, written: u64, read: u64) -> Sample {
        let total = self.flash.map(|flash| flash.snapshot().total()).unwrap_or_default();
        Sample {
            at_ns: (now - self.started).get(),
            written,
            read,
            programmed: total.bytes_programmed.saturating_sub(self.before.programmed),
            erases: total.erases.saturating_sub(self.before.erases),
        }
    }

    /// Takes the driver's progress, and keeps a sample of the counters if one is due.
    pub fn saw(&mut self, progress: &Progress) {
        if progress.phase != Some(Phase::Measure) {
            return;
        }
        self.steps += 1;
        if !self.steps.is_multiple_of(self.stride) {
            return;
        }
        let sample = self.sample(progress.now, progress.user_bytes_written, progress.user_bytes_read);
        // The last step of a phase is told twice.
        if self.samples.last() == Some(&sample) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() > SAMPLES_MAX {
            let mut kept = false;
            self.samples.retain(|_| {
                kept = !kept;
                !kept
            });
            self.stride *= 2;
        }
    }

    /// The samples for the record, under `layers.timeline`; empty if the phase was too short for
    /// two samples.
    pub fn values(&self) -> BTreeMap<String, LayerValue> {
        if self.samples.len() < 2 {
            return BTreeMap::new();
        }
        let series =
            |of: fn(&Sample) -> u64| LayerValue::series(self.samples.iter().map(|sample| of(sample) as f64).collect());
        let mut values = vec![
            ("at_ns", series(|sample| sample.at_ns)),
            ("user_bytes_written", series(|sample| sample.written)),
            ("user_bytes_read", series(|sample| sample.read)),
        ];
        if self.flash.is_some() {
            values.push(("bytes_programmed", series(|sample| sample.programmed)));
            values.push(("erases", series(|sample| sample.erases)));
        }
        values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// Ranges of blocks in a map of wear at the most.
const RANGES_MAX: usize = 256;

/// How often the blocks of the chip were erased since it was made, as means over equal ranges of
/// blocks, for the record: `layers.wear`. Empty if no block was erased.
pub(crate) fn wear_map(erases_per_block: &[u32]) -> BTreeMap<String, LayerValue> {
    if erases_per_block.iter().all(|erases| *erases == 0) {
        return BTreeMap::new();
    }
    let range = erases_per_block.len().div_ceil(RANGES_MAX).max(1);
    let mean = |blocks: &[u32]| blocks.iter().map(|erases| f64::from(*erases)).sum::<f64>() / blocks.len() as f64;
    let means = erases_per_block.chunks(range).map(mean).collect();
    BTreeMap::from([
        ("blocks_per_range".to_string(), LayerValue::Count(range as u64)),
        ("erases_by_range".to_string(), LayerValue::series(means)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_of_any_length_has_some_dozens_of_samples() {
        for steps in [1_u64, 2, 63, 64, 65, 1000, 100_000] {
            let mut timeline = Timeline {
                flash: None,
                started: Nanos(100),
                before: Sample::default(),
                stride: 1,
                steps: 0,
                samples: Vec::new(),
            };
            for step in 1..=steps {
                let now = Nanos(100 + step);
                let (user_bytes_written, phase) = (step * 10, Some(Phase::Measure));
                timeline.saw(&Progress { phase, now, user_bytes_written, ..Progress::apart(None, step, steps, now) });
            }
            let count = timeline.samples.len() as u64;
            assert!(
                count >= (steps / 2).min(SAMPLES_MAX as u64 / 2) && count <= SAMPLES_MAX as u64,
                "{steps}: {count}"
            );
            assert!(timeline.samples.windows(2).all(|two| two[1].at_ns - two[0].at_ns == timeline.stride));
            assert!(timeline.samples.iter().all(|sample| sample.written == sample.at_ns * 10));
            assert_eq!(timeline.values().is_empty(), steps < 2);
        }
    }

    #[test]
    fn a_map_of_wear_has_means_of_equal_ranges() {
        assert_eq!(wear_map(&[0, 0]), BTreeMap::new());
        let map = wear_map(&(0..512).map(|block| block % 2 * 3).collect::<Vec<u32>>());
        assert_eq!(map["blocks_per_range"], LayerValue::Count(2));
        assert_eq!(map["erases_by_range"], LayerValue::series(vec![1.5; 256]));
    }
}
