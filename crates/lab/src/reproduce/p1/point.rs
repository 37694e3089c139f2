//! Finds P1's runs among records, and computes figures of these runs.

use nandkit_record::{LayerValue, RunRecord};
use serde_json::Value;

use super::super::p4::point::Spread;
use super::plan::{Cell, LFS, Reading, Role};

/// A record with what distinguishes it within a reading of P1.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Its cell of figure 6.
    pub cell: Cell,
    /// The mode, without its options.
    pub mode: &'a str,
    /// The whole record.
    pub record: &'a RunRecord,
}

/// The readings that were run, with their points.
pub type Readings<'a, 'b> = [(Reading, View<'a, 'b>)];

/// The points that records stand for; records of anything else are left out.
pub fn read<'a>(records: &'a [RunRecord], reading: &Reading) -> Vec<Point<'a>> {
    records.iter().filter_map(|record| point(record, reading)).collect()
}

fn point<'a>(record: &'a RunRecord, reading: &Reading) -> Option<Point<'a>> {
    let text = |path: &str| record.spec.pointer(path).and_then(Value::as_str);
    let number = |path: &str| record.spec.pointer(path).and_then(Value::as_f64);
    if text("/workload/kind")? != "holes" {
        return None;
    }
    let card = text("/stack/device/preset")?;
    let role = Role::ALL.into_iter().zip(reading.cards).find(|(_, own)| *own == card)?.0;
    let per_cent = |share: f64| (share * 100.0).round() as u8;
    let cold = if number("/workload/cold_share")? > 0.0 { per_cent(number("/workload/cold_valid")?) } else { 0 };
    let mode = match text("/stack/fs/mode")? {
        "lfs" => LFS,
        _ => text("/stack/fs/reuse")?.split(':').next()?,
    };
    Some(Point { cell: Cell { role, cold, warm: per_cent(number("/workload/warm_valid")?) }, mode, record })
}

impl Point<'_> {
    /// User bytes in 10^6 per second of simulated time.
    pub fn speed(&self) -> f64 {
        self.record.figures.write_mb_per_s.unwrap_or(0.0)
    }

    /// A count of the reviews of segments before their gaps are filled; 0 if the record has none of
    /// this name.
    pub fn count(&self, name: &str) -> f64 {
        let layer = self.record.layers.get("reuse");
        layer.and_then(|layer| layer.get(name)).and_then(LayerValue::as_f64).unwrap_or(0.0)
    }

    /// The shares of runs that went to the cold log, stayed in their segment, were left: figure
    /// 6(b).
    pub fn shares(&self) -> [f64; 3] {
        let runs = ["inter_runs", "intra_runs", "left_runs"].map(|name| self.count(name));
        let all: f64 = runs.iter().sum();
        if all > 0.0 { runs.map(|count| count / all) } else { [0.0, 0.0, 1.0] }
    }

    /// For each segment treated in the measured phase, its time divided by the expected time. In
    /// the record the segments of the aging phase come before these.
    pub fn ratios(&self) -> &[f64] {
        match self.record.layers.get("reuse").and_then(|layer| layer.get("treated_by_expected")) {
            Some(LayerValue::Series(series)) => {
                let before = series.len().saturating_sub(self.count("treated_segments") as usize);
                series.get(before..).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Milliseconds that a reviewed segment takes by the model: its copies, its holes, its part of
    /// the checkpoints.
    pub fn expected_ms(&self) -> f64 {
        let names = ["treated_expected_ns", "left_expected_ns", "checkpoint_expected_ns"];
        let all: f64 = names.map(|name| self.count(name)).iter().sum();
        all / self.count("reviewed_segments").max(1.0) / 1e6
    }
}

/// The runs of a reading.
#[derive(Clone, Copy)]
pub struct View<'a, 'b>(pub &'b [Point<'a>]);

impl<'a, 'b> View<'a, 'b> {
    /// The runs of one mode in a cell, one for each seed.
    pub fn of(self, cell: Cell, mode: &'b str) -> impl Iterator<Item = &'b Point<'a>> {
        self.0.iter().filter(move |point| point.cell == cell && point.mode == mode)
    }

    /// A figure over the seeds.
    pub fn figure(self, cell: Cell, mode: &'b str, of: impl Fn(&Point<'a>) -> f64) -> Option<Spread> {
        Spread::of(self.of(cell, mode).map(of))
    }

    /// The mean of a figure over the seeds.
    pub fn mean(self, cell: Cell, mode: &'b str, of: impl Fn(&Point<'a>) -> f64) -> Option<f64> {
        Some(self.figure(cell, mode, of)?.mean)
    }

    /// How much faster one mode is than another, seed by seed.
    pub fn ratio(self, cell: Cell, mode: &'b str, base: &'b str) -> Option<Spread> {
        self.ratio_to(self, cell, mode, base)
    }

    /// How much faster a mode is in this view than another mode in the view `there`, seed by seed.
    pub fn ratio_to(self, there: View<'a, 'b>, cell: Cell, mode: &'b str, base: &'b str) -> Option<Spread> {
        let pairs = self.of(cell, mode).filter_map(|point| {
            let other = there.of(cell, base).find(|other| other.record.seed == point.record.seed)?;
            (other.speed() > 0.0).then_some(point.speed() / other.speed())
        });
        Spread::of(pairs)
    }

    /// The shares of figure 6(b) of PGC.
    pub fn shares(self, cell: Cell) -> Option<[f64; 3]> {
        let share = |at: usize| self.mean(cell, "pgc", |point| point.shares()[at]);
        Some([share(0)?, share(1)?, share(2)?])
    }
}

/// The value in the middle; of an even number the mean of both.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}
