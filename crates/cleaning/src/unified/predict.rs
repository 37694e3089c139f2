//! Predicts the time of a plan for a segment.

use super::{Costs, RemapCost, Way};
use crate::partial::ValidRun;
use crate::partial::cost::{copy, fill};

/// The time to move a run, without the fixed cost of the segment's first command. Infinite for a
/// remap on a device that cannot remap.
pub(super) fn move_ns(run: &ValidRun, way: Way, costs: &Costs<'_>) -> f64 {
    let length = u32::from(run.length);
    match way {
        Way::Leave => 0.0,
        Way::CopyOut => copy(costs.times, length, costs.times.write_per_block(costs.means.inter)),
        Way::CopyWithin => copy(costs.times, length, costs.times.write_per_block(costs.means.intra)),
        Way::RemapOut | Way::RemapWithin => {
            let Some(remap) = &costs.remap else { return f64::INFINITY };
            let mean = if way == Way::RemapOut { costs.means.inter } else { costs.means.intra };
            let (pairs, rest) = units(run, remap);
            let copied = if rest > 0 { copy(costs.times, rest, costs.times.write_per_block(mean)) } else { 0.0 };
            f64::from(pairs) * remap.of_pair() + copied
        }
    }
}

/// The whole units of a run, and the blocks outside them, which are copied.
fn units(run: &ValidRun, remap: &RemapCost) -> (u32, u32) {
    let (unit, start, length) = (remap.unit.max(1), u32::from(run.start), u32::from(run.length));
    let pairs = ((start + length) / unit).saturating_sub(start.div_ceil(unit));
    (pairs, length - pairs * unit)
}

/// The predicted time of moving the runs this way, of the checkpoint after it, and of filling the
/// present holes, minus the credit if all runs were remapped away in order. A plan minimises it. A
/// stretch between two runs that stay is one request. Blocks freed in it are written too, so the
/// present holes get only their share of the request's time; blocks moved within the segment use up
/// what they free. Cost: a few lookups per run.
pub fn predict(runs: &[ValidRun], ways: &[Way], sorted: bool, costs: &Costs<'_>) -> f64 {
    let (mut time_ns, mut moves, mut pairs) = (0.0, false, 0);
    let (mut holes, mut freed) = (0, 0);
    for (run, way) in runs.iter().zip(ways) {
        if !run.shares_left {
            time_ns += fill(costs.times, holes, freed);
            (holes, freed) = (u32::from(run.left), 0);
        }
        match way {
            Way::Leave => {
                time_ns += fill(costs.times, holes, freed);
                (holes, freed) = (0, 0);
            }
            Way::CopyOut | Way::RemapOut => freed += u32::from(run.length),
            Way::CopyWithin | Way::RemapWithin => {}
        }
        time_ns += move_ns(run, *way, costs);
        moves |= *way != Way::Leave;
        if let (Way::RemapOut | Way::RemapWithin, Some(remap)) = (way, &costs.remap) {
            pairs += units(run, remap).0;
        }
        holes += u32::from(run.right);
    }
    time_ns += fill(costs.times, holes, freed);
    time_ns += costs.remap.filter(|_| pairs > 0).map_or(0.0, |remap| remap.of_first());
    time_ns += if moves { costs.checkpoint_ns } else { 0.0 };
    if sorted && moves { time_ns - costs.sorted_gain_ns } else { time_ns }
}
