//! Finds the choices for a segment with the least total cost if each run has its own costs.
//!
//! P1's copies cost the same per block for every run, so [`crate::partial::freed`] only searches
//! for the number of freed blocks. A remap costs per command and pair, and each run uses the
//! cheaper transport. So this search goes from each run that stays to the next one, over all
//! numbers of blocks freed between. Cost: at most `runs² * valid blocks` steps.

use crate::partial::cost::fill;
use crate::partial::optimal::{ByFreed, Way, hole_behind, moved, walk_back};
use crate::partial::{Choice, RequestTimes, ValidRun};

/// The choices with the least time, where `moves` gives the time of moving each run away and within
/// its segment. Among equals, those that move less.
pub(super) fn cheapest(runs: &[ValidRun], times: &RequestTimes, moves: &[[f64; 2]]) -> Vec<Choice> {
    let mut choices = Vec::with_capacity(runs.len());
    let mut start = 0;
    // Runs that share no hole are independent.
    for end in 1..=runs.len() {
        if runs.get(end).is_none_or(|run| !run.shares_left) {
            let (island, moves) = (runs.get(start..end), moves.get(start..end));
            choices.extend(optimal_island(island.unwrap_or_default(), times, moves.unwrap_or_default()));
            start = end;
        }
    }
    choices
}

fn optimal_island(runs: &[ValidRun], times: &RequestTimes, copies: &[[f64; 2]]) -> Vec<Choice> {
    let count = runs.len();
    // best[k]: the path to run k - 1, which stays; best[count + 1]: to the end of the island.
    let mut best = vec![Way { time_ns: f64::INFINITY, from: 0, freed: 0 }; count + 2];
    best[0].time_ns = 0.0;
    for from in 0..=count {
        let time_ns = best[from].time_ns;
        let mut holes = hole_behind(runs, from);
        let mut by_freed: ByFreed = vec![Some((0.0, Choice::Ssr))];
        let (_, ahead) = best.split_at_mut(from + 1);
        for (to, best) in (from..).zip(ahead) {
            for (freed, copied) in by_freed.iter().enumerate() {
                let Some((copied, _)) = copied else { continue };
                let way = time_ns + copied + fill(times, holes, freed as u32);
                if way < best.time_ns {
                    *best = Way { time_ns: way, from, freed };
                }
            }
            let Some((run, copies)) = runs.get(to).zip(copies.get(to)) else { break };
            by_freed = moved(&by_freed, run.length.into(), copies);
            holes += u32::from(run.right);
        }
    }
    walk_back(runs, copies, &best)
}
