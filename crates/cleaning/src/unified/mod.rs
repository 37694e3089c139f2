//! One cleaner: what becomes of each run of valid blocks of a segment, of all ways that there are.
//!
//! P1 compares leaving a run, copying it away and copying it within its segment. P3 remaps: the
//! device points the new address at the old page, and a command costs its log and no copy. This
//! compares all of them in predicted nanoseconds, and as one more way for the whole segment P3's:
//! all runs remapped away in the order of files, with the time that later reads save as a credit.
//!
//! Where a run goes decides the requests that fill the holes; how it goes does not. So each run
//! goes by the cheaper transport, and the search is that of `search.rs`.

mod predict;
mod search;
#[cfg(test)]
mod tests;

pub use predict::predict;

use crate::partial::{Choice, MeanHoles, RequestTimes, ValidRun};

/// What a device's remap costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemapCost {
    /// A command, whatever its pairs: its way to the device and the page of the log that makes it
    /// durable.
    pub command_ns: f64,
    /// A pair more: its line in the log, and its part of the log's cleaning later on.
    pub pair_ns: f64,
    /// Pairs of a command at most; 0 counts as 1.
    pub pairs_max: u32,
    /// Blocks that one pair moves, at addresses that are multiples of it; 0 counts as 1.
    pub unit: u32,
}

impl RemapCost {
    /// A pair with its part of a full command.
    pub fn of_pair(&self) -> f64 {
        self.pair_ns + self.command_ns / f64::from(self.pairs_max.max(1))
    }

    /// What is paid once, however few pairs there are: `n` pairs are at most one command more than
    /// `n / pairs_max`.
    pub fn of_first(&self) -> f64 {
        self.command_ns * (1.0 - 1.0 / f64::from(self.pairs_max.max(1)))
    }

    /// All of so many pairs.
    pub fn of_pairs(&self, pairs: u32) -> f64 {
        if pairs == 0 { 0.0 } else { self.of_first() + f64::from(pairs) * self.of_pair() }
    }
}

/// What the ways cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs<'a> {
    /// The device's times by request size.
    pub times: &'a RequestTimes,
    /// The holes that copies go to.
    pub means: MeanHoles,
    /// `None`: the device cannot remap.
    pub remap: Option<RemapCost>,
    /// The checkpoint that a segment waits for of which anything was moved.
    pub checkpoint_ns: f64,
    /// What reads save later on, where all blocks of the segment go away in the order of files.
    pub sorted_gain_ns: f64,
}

/// What becomes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// It stays (SSR).
    #[default]
    Leave,
    /// It is copied to the cold segment (Inter-GC).
    CopyOut,
    /// It is copied within its segment (Intra-GC).
    CopyWithin,
    /// It is remapped to the cold segment.
    RemapOut,
    /// It is remapped within its segment.
    RemapWithin,
}

impl Way {
    /// All of them, those first that do less.
    pub const ALL: [Self; 5] = [Self::Leave, Self::CopyOut, Self::CopyWithin, Self::RemapOut, Self::RemapWithin];
}

/// What is done with a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One for each run.
    pub ways: Vec<Way>,
    /// Whether all runs are remapped away in the order of files and their pages.
    pub sorted: bool,
    /// Moving, the checkpoint, filling the present holes, less what reads save.
    pub predicted_ns: f64,
    /// The time of the segment with all runs left.
    pub left_ns: f64,
}

impl Plan {
    /// The plan of the least predicted time; of equal ones the one that does less. Cost: two
    /// searches as of [`crate::partial::Method::Optimal`].
    pub fn of(runs: &[ValidRun], costs: &Costs<'_>) -> Self {
        let left = vec![Way::Leave; runs.len()];
        let left_ns = predict(runs, &left, false, costs);
        let mut plan = Self { ways: left, sorted: false, predicted_ns: left_ns, left_ns };
        let copying = Costs { remap: None, ..costs.clone() };
        plan.take(runs, best(runs, &copying), false, costs);
        if costs.remap.is_some() {
            plan.take(runs, best(runs, costs), false, costs);
            plan.take(runs, vec![Way::RemapOut; runs.len()], true, costs);
        }
        plan
    }

    /// Takes other ways, where they are predicted to take less time.
    fn take(&mut self, runs: &[ValidRun], ways: Vec<Way>, sorted: bool, costs: &Costs<'_>) {
        let predicted_ns = predict(runs, &ways, sorted, costs);
        if predicted_ns < self.predicted_ns {
            *self = Self { ways, sorted, predicted_ns, left_ns: self.left_ns };
        }
    }
}

/// The ways of least time, where the first command costs nothing that the others do not.
fn best(runs: &[ValidRun], costs: &Costs<'_>) -> Vec<Way> {
    let options: Vec<[(f64, Way); 2]> = runs.iter().map(|run| cheaper(run, costs)).collect();
    let moves: Vec<[f64; 2]> = options.iter().map(|[out, within]| [out.0, within.0]).collect();
    let choices = search::cheapest(runs, costs.times, &moves);
    let ways = choices.iter().zip(&options).map(|(choice, [out, within])| match choice {
        Choice::Ssr => Way::Leave,
        Choice::Inter => out.1,
        Choice::Intra => within.1,
    });
    ways.collect()
}

/// Out and within, each by the cheaper transport.
fn cheaper(run: &ValidRun, costs: &Costs<'_>) -> [(f64, Way); 2] {
    let of = |way| predict::move_ns(run, way, costs);
    [[Way::CopyOut, Way::RemapOut], [Way::CopyWithin, Way::RemapWithin]].map(|[copy, remap]| {
        let (by_copy, by_remap) = (of(copy), of(remap));
        if by_remap < by_copy { (by_remap, remap) } else { (by_copy, copy) }
    })
}
