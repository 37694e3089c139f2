//! The unified cleaner: chooses among all options for each run of valid blocks of a segment.
//!
//! P1 compares leaving a run, copying it away and copying it within its segment. P3 remaps: the
//! device points the new address to the old page, and a command costs log space but no copy. The
//! unified cleaner compares all of these in predicted nanoseconds, and P3's option for the whole
//! segment: remapping all runs away in file order, credited with the time that later reads save.
//!
//! Where a run goes decides the requests that fill the holes; how it is moved does not. So each run
//! uses the cheaper transport, and the search is that of `partial/optimal.rs`.

mod predict;
#[cfg(test)]
mod tests;

pub use predict::predict;

use crate::partial::optimal::cheapest;
use crate::partial::{Choice, MeanHoles, RequestTimes, ValidRun};

/// The cost of remapping on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemapCost {
    /// The cost per command: its way to the device, and the log page that makes it durable.
    pub command_ns: f64,
    /// The cost per pair: its line in the log, and its share of cleaning the log later.
    pub pair_ns: f64,
    /// The most pairs per command; 0 counts as 1.
    pub pairs_max: u32,
    /// Blocks moved per pair, at addresses that are multiples of it; 0 counts as 1.
    pub unit: u32,
}

impl RemapCost {
    /// The cost of a pair including its share of a full command.
    pub fn of_pair(&self) -> f64 {
        self.pair_ns + self.command_ns / f64::from(self.pairs_max.max(1))
    }

    /// The fixed cost, however few pairs there are: `n` pairs need at most one command more than `n
    /// / pairs_max`.
    pub fn of_first(&self) -> f64 {
        self.command_ns * (1.0 - 1.0 / f64::from(self.pairs_max.max(1)))
    }

    /// The cost of this many pairs.
    pub fn of_pairs(&self, pairs: u32) -> f64 {
        if pairs == 0 { 0.0 } else { self.of_first() + f64::from(pairs) * self.of_pair() }
    }
}

/// The costs of all options.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs<'a> {
    /// The device's times by request size.
    pub times: &'a RequestTimes,
    /// The holes that copies go to.
    pub means: MeanHoles,
    /// The cost of remapping; `None` if the device cannot remap.
    pub remap: Option<RemapCost>,
    /// The time of the checkpoint that a segment waits for if anything in it was moved.
    pub checkpoint_ns: f64,
    /// The time that later reads save if all blocks of the segment move away in file order.
    pub sorted_gain_ns: f64,
}

/// What to do with a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// Leave it (SSR).
    #[default]
    Leave,
    /// Copy it to the cold segment (Inter-GC).
    CopyOut,
    /// Copy it within its segment (Intra-GC).
    CopyWithin,
    /// Remap it to the cold segment.
    RemapOut,
    /// Remap it within its segment.
    RemapWithin,
}

impl Way {
    /// All options, those that do less first.
    pub const ALL: [Self; 5] = [Self::Leave, Self::CopyOut, Self::CopyWithin, Self::RemapOut, Self::RemapWithin];
}

/// What to do with a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One option per run.
    pub ways: Vec<Way>,
    /// Whether all runs are remapped away in the order of files and pages.
    pub sorted: bool,
    /// The predicted time: moves, checkpoint and filling the present holes, minus what reads save.
    pub predicted_ns: f64,
    /// The predicted time if all runs are left.
    pub left_ns: f64,
}

impl Plan {
    /// The plan with the least predicted time; among equals the one that does less. Cost: up to two
    /// searches like [`crate::partial::Method::Optimal`]; where some runs are copied and others
    /// remapped, up to `runs² * valid blocks` steps.
    pub fn of(runs: &[ValidRun], costs: &Costs<'_>) -> Self {
        let left = vec![Way::Leave; runs.len()];
        let left_ns = predict(runs, &left, false, costs);
        let mut plan = Self { ways: left, sorted: false, predicted_ns: left_ns, left_ns };
        let copying = Costs { remap: None, ..costs.clone() };
        let options = |costs| runs.iter().map(|run| cheaper(run, costs)).collect::<Vec<_>>();
        let (copies, moves) = (options(&copying), options(costs));
        if !copies_cost_more(&copies, &moves, left_ns, costs) {
            plan.take(runs, best(runs, &copies, &copying), false, costs);
        }
        if costs.remap.is_some() {
            plan.take(runs, best(runs, &moves, costs), false, costs);
            plan.take(runs, vec![Way::RemapOut; runs.len()], true, costs);
        }
        plan
    }

    /// Switches to other options if they are predicted to take less time.
    fn take(&mut self, runs: &[ValidRun], ways: Vec<Way>, sorted: bool, costs: &Costs<'_>) {
        let predicted_ns = predict(runs, &ways, sorted, costs);
        if predicted_ns < self.predicted_ns {
            *self = Self { ways, sorted, predicted_ns, left_ns: self.left_ns };
        }
    }
}

/// Whether each copy costs more than what replaces it and the first remap command together: then a
/// plan that copies alone takes longer than the best one, and need not be searched. The slack is
/// for rounding.
fn copies_cost_more(copies: &[Transports], moves: &[Transports], left_ns: f64, costs: &Costs<'_>) -> bool {
    let Some(remap) = &costs.remap else { return false };
    let least_ns = remap.of_first() + left_ns * 1e-9;
    let saved = |(copy, other): (&Transports, &Transports)| [0, 1].map(|to| copy[to].0 - other[to].0);
    copies.iter().zip(moves).flat_map(saved).all(|saved_ns| saved_ns > least_ns)
}

/// The options with the least time, ignoring the fixed cost of the first command.
fn best(runs: &[ValidRun], options: &[Transports], costs: &Costs<'_>) -> Vec<Way> {
    let moves: Vec<[f64; 2]> = options.iter().map(|[out, within]| [out.0, within.0]).collect();
    let choices = cheapest(runs, costs.times, &moves, |island| block_ns(options.get(island)?, costs));
    let ways = choices.iter().zip(options).map(|(choice, [out, within])| match choice {
        Choice::Ssr => Way::Leave,
        Choice::Inter => out.1,
        Choice::Intra => within.1,
    });
    ways.collect()
}

/// What a block that is moved away costs more than one that moves within its segment, if that is
/// the same for all blocks of these runs: all are copied, or all are remapped in whole units.
fn block_ns(options: &[Transports], costs: &Costs<'_>) -> Option<f64> {
    let is_copied = |[out, within]: &Transports| (out.1, within.1) == (Way::CopyOut, Way::CopyWithin);
    if options.iter().all(is_copied) {
        let per_block = costs.means.per_block(costs.times);
        return Some(per_block.inter_ns - per_block.intra_ns);
    }
    let costs_alike =
        |[out, within]: &Transports| (out.1, within.1) == (Way::RemapOut, Way::RemapWithin) && out.0 == within.0;
    options.iter().all(costs_alike).then_some(0.0)
}

/// A transport out of the segment, and one within it, with their times.
type Transports = [(f64, Way); 2];

/// The cheaper transport out of the segment, and within it.
fn cheaper(run: &ValidRun, costs: &Costs<'_>) -> Transports {
    let of = |way| predict::move_ns(run, way, costs);
    [[Way::CopyOut, Way::RemapOut], [Way::CopyWithin, Way::RemapWithin]].map(|[copy, remap]| {
        let (by_copy, by_remap) = (of(copy), of(remap));
        if by_remap < by_copy { (by_remap, remap) } else { (by_copy, copy) }
    })
}
