//! Counts the decisions of partial garbage collection, and compares measured with expected times.

use std::sync::{Mutex, PoisonError};

use nandkit_cleaning::partial::{Choice, Plan, ValidRun};
use nandkit_units::{Better, Nanos, StatisticDefinition, StatisticValue, Statistics};

/// The most segments whose errors are kept one by one; the sums include all.
const ERRORS_MOST: usize = 65_536;

/// Counts since the mount; times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialCounters {
    /// Segments reviewed.
    pub segments: u64,
    /// Segments treated.
    pub treated: u64,
    /// Segments whose treatment would have paid off without the cost of its checkpoint.
    pub left_for_checkpoint: u64,
    /// Runs of valid blocks by decision, in the order of [`Choice::ALL`].
    pub runs: [u64; 3],
    /// Blocks of these runs.
    pub blocks: [u64; 3],
    /// Copies: expected and measured.
    pub copy_ns: [u64; 2],
    /// Checkpoints after treated segments: expected and measured.
    pub checkpoint_ns: [u64; 2],
    /// Copying and filling of treated segments that were filled: expected and measured.
    pub treated_ns: [u64; 2],
    /// Filling of untreated segments.
    pub left_ns: [u64; 2],
    /// Per treated segment, the measured time divided by the expected one.
    pub ratios: Vec<f64>,
    /// How far learned times of writes are from those of the card's file; none where nothing is
    /// learned, or there is no such file.
    pub learned_write_distance: Option<f64>,
}

fn whole(ns: f64) -> u64 {
    ns.max(0.0) as u64
}

impl PartialCounters {
    pub(super) fn reviewed(&mut self, runs: &[ValidRun], plan: &Plan, is_treated: bool, check_ns: f64) {
        let moves = plan.choices.iter().any(|choice| *choice != Choice::Ssr);
        self.segments += 1;
        self.treated += u64::from(is_treated);
        self.left_for_checkpoint += u64::from(moves && !is_treated);
        for (run, choice) in runs.iter().zip(&plan.choices) {
            let choice = if is_treated { *choice } else { Choice::Ssr };
            self.runs[choice as usize] += 1;
            self.blocks[choice as usize] += u64::from(run.length);
        }
        if is_treated {
            self.copy_ns[0] += whole(plan.copy_ns);
            self.checkpoint_ns[0] += whole(check_ns);
        }
    }

    pub(super) fn copied(&mut self, time: Nanos) {
        self.copy_ns[1] += time.0;
    }

    pub(super) fn checkpointed(&mut self, time: Nanos) {
        self.checkpoint_ns[1] += time.0;
    }

    pub(super) fn ended(&mut self, simulated_ns: f64, predicted_ns: f64, is_treated: bool) {
        let of = if is_treated { &mut self.treated_ns } else { &mut self.left_ns };
        of[0] += whole(predicted_ns);
        of[1] += whole(simulated_ns);
        if is_treated && predicted_ns > 0.0 && self.ratios.len() < ERRORS_MOST {
            self.ratios.push(simulated_ns / predicted_ns);
        }
    }
}

/// The counters, for concurrent readers.
#[derive(Debug, Default)]
pub struct Published(Mutex<PartialCounters>);

impl Published {
    /// The current counters.
    pub fn now(&self) -> PartialCounters {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut PartialCounters)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Name, unit, direction, text, value.
type Row = (&'static str, &'static str, Better, &'static str, fn(&PartialCounters) -> u64);

const ROWS: [Row; 17] = [
    ("reviewed_segments", "", Better::Neither, "used segments reviewed before their gaps were filled", |c| c.segments),
    ("treated_segments", "", Better::Neither, "of these, those from which runs were moved first", |c| c.treated),
    (
        "left_for_checkpoint_segments",
        "",
        Better::Neither,
        "segments left as they were, since their checkpoint would have cost more than the gain",
        |c| c.left_for_checkpoint,
    ),
    ("left_runs", "", Better::Neither, "runs of valid blocks that stayed (SSR)", |c| c.runs[0]),
    ("inter_runs", "", Better::Neither, "runs moved to the cold data log (Inter-GC)", |c| c.runs[1]),
    ("intra_runs", "", Better::Neither, "runs moved within their segment (Intra-GC)", |c| c.runs[2]),
    ("left_blocks", "blocks", Better::Neither, "blocks of runs that stayed", |c| c.blocks[0]),
    ("inter_blocks", "blocks", Better::Lower, "blocks moved to the cold data log", |c| c.blocks[1]),
    ("intra_blocks", "blocks", Better::Lower, "blocks moved within their segment", |c| c.blocks[2]),
    ("copy_expected_ns", "ns", Better::Lower, "expected time of the copies", |c| c.copy_ns[0]),
    ("copy_ns", "ns", Better::Lower, "time of the copies", |c| c.copy_ns[1]),
    ("checkpoint_expected_ns", "ns", Better::Lower, "expected time of checkpoints after treated segments", |c| {
        c.checkpoint_ns[0]
    }),
    ("checkpoint_ns", "ns", Better::Lower, "time of checkpoints after treated segments", |c| c.checkpoint_ns[1]),
    ("treated_expected_ns", "ns", Better::Lower, "expected time of treating and filling segments", |c| c.treated_ns[0]),
    ("treated_ns", "ns", Better::Lower, "time of treating and filling segments", |c| c.treated_ns[1]),
    ("left_expected_ns", "ns", Better::Lower, "expected time of filling untreated segments", |c| c.left_ns[0]),
    ("left_ns", "ns", Better::Lower, "time of filling untreated segments", |c| c.left_ns[1]),
];
const RATIOS: &str = "treated_by_expected";
const DISTANCE: &str = "learned_write_distance";

impl Statistics for Published {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let counters = self.now();
        for (name, .., value) in ROWS {
            sink(name, StatisticValue::Count(value(&counters)));
        }
        sink(RATIOS, StatisticValue::Events(counters.ratios));
        sink(DISTANCE, StatisticValue::Level(counters.learned_write_distance.unwrap_or(f64::NAN)));
    }

    fn definitions() -> Vec<StatisticDefinition> {
        let ratios = "time of treating and filling a segment, divided by the expected time";
        let rows = ROWS.iter().map(|(name, unit, better, text, _)| (*name, *unit, *better, *text));
        let distance =
            "how far learned times of writes are from the card's own, as a mean share of these over the sizes measured";
        rows.chain([(RATIOS, "", Better::Lower, ratios), (DISTANCE, "", Better::Lower, distance)])
            .map(|(name, unit, better, text)| StatisticDefinition {
                name: name.to_owned(),
                unit,
                better,
                text: text.to_owned(),
            })
            .collect()
    }
}
