//! Plans what to do with all runs of a segment.

use super::cost::{PerBlock, copy, fill};
use super::optimal::optimal;
use super::{Choice, MeanHoles, RequestTimes, RunTimes, ValidRun};

/// How the choices for a segment are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// P1: each run separately, with the holes as they are.
    #[default]
    RunByRun,
    /// The choices with the least total time ([`Plan::predicted_ns`]): a run that stays bounds its
    /// neighbours' holes.
    Optimal,
    /// Moves everything to the cold segment at any cost: collection of whole segments (P1's "GC").
    Everything,
}

/// The choices for a segment and their expected cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One choice per run.
    pub choices: Vec<Choice>,
    /// The time gained over leaving all runs: P1's sum over the runs; for [`Method::Optimal`] the
    /// difference of the segment's times.
    pub gain_ns: f64,
    /// The time of the copies.
    pub copy_ns: f64,
    /// The time to fill the segment's present holes afterwards.
    pub fill_ns: f64,
}

impl Plan {
    /// The time of the copies and of filling the present holes.
    pub fn predicted_ns(&self) -> f64 {
        self.copy_ns + self.fill_ns
    }

    /// Plans a segment. Cost: a few lookups per run; [`Method::Optimal`]: a few steps per pair of
    /// runs, and at worst `holes * valid blocks` more.
    pub fn of(runs: &[ValidRun], times: &RequestTimes, means: MeanHoles, method: Method) -> Self {
        let written = means.per_block(times);
        let by: Vec<RunTimes> = runs.iter().map(|run| RunTimes::of(run, times, written)).collect();
        let choices: Vec<Choice> = match method {
            Method::RunByRun => by.iter().map(RunTimes::best).collect(),
            Method::Optimal => optimal(runs, times, means),
            Method::Everything => vec![Choice::Inter; runs.len()],
        };
        let (copy_ns, fill_ns) = predict(runs, &choices, times, written);
        let gain_ns = match method {
            Method::Optimal => {
                let left = vec![Choice::Ssr; runs.len()];
                predict(runs, &left, times, written).1 - copy_ns - fill_ns
            }
            _ => by.iter().zip(&choices).map(|(times, choice)| times.ssr - times.by(*choice)).sum(),
        };
        Self { choices, gain_ns, copy_ns, fill_ns }
    }
}

/// The times of a segment's copies and of filling its present holes if these runs are moved: P1's
/// formulas over stretches of several holes. A stretch between two runs that stay is one request.
/// Blocks that Inter-GC frees in it are written too, so the holes get only their share of the
/// request's time; blocks that Intra-GC frees make room for the copies.
pub(super) fn predict(runs: &[ValidRun], choices: &[Choice], times: &RequestTimes, written: PerBlock) -> (f64, f64) {
    let (mut copy_ns, mut fill_ns) = (0.0, 0.0);
    let (mut holes, mut freed) = (0, 0);
    for (run, choice) in runs.iter().zip(choices) {
        if !run.shares_left {
            fill_ns += fill(times, holes, freed);
            (holes, freed) = (u32::from(run.left), 0);
        }
        match choice {
            Choice::Ssr => {
                fill_ns += fill(times, holes, freed);
                (holes, freed) = (0, 0);
            }
            Choice::Inter => {
                copy_ns += copy(times, run.length.into(), written.inter_ns);
                freed += u32::from(run.length);
            }
            Choice::Intra => copy_ns += copy(times, run.length.into(), written.intra_ns),
        }
        holes += u32::from(run.right);
    }
    (copy_ns, fill_ns + fill(times, holes, freed))
}
