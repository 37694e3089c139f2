//! Finds the choices for a segment with the least total cost.
//!
//! P1 looks at each run separately; but a run that stays bounds the stretches next to it, and moved
//! runs join into one large stretch. A stretch's time depends on its holes and on the blocks that
//! Inter-GC frees in it, so the search goes from each run that stays to the next one, over all such
//! numbers of blocks.

use std::ops::Range;

use super::cost::{copy, fill};
use super::freed::{Freed, Stretch};
use super::{Choice, MeanHoles, RequestTimes, ValidRun};

/// The cheapest path to the end of a run: its time and predecessor.
#[derive(Clone, Copy)]
struct Way {
    time_ns: f64,
    /// The index plus one of the previous run that stayed; 0 for the start.
    from: usize,
    /// Blocks freed by Inter-GC in the stretch between.
    freed: usize,
}

/// The choices with the least time by the model of [`super::Plan::predicted_ns`]; among equals,
/// those that copy less. Cost: that of [`cheapest`].
pub(super) fn optimal(runs: &[ValidRun], times: &RequestTimes, means: MeanHoles) -> Vec<Choice> {
    let per_block = means.per_block(times);
    let written = per_block.by_copy();
    let copies: Vec<[f64; 2]> =
        runs.iter().map(|run| written.map(|written_ns| copy(times, run.length.into(), written_ns))).collect();
    cheapest(runs, times, &copies, |_| Some(per_block.inter_ns - per_block.intra_ns))
}

/// The choices with the least time, where `moves` gives the time of moving each run away and within
/// its segment; among equals, those that move less. `block_ns` says of some of the runs what a
/// block that is moved away costs more than one that moves within, if that is the same for all of
/// their blocks. Cost: a few steps per pair of runs then; if such blocks cost more, about `holes *
/// valid blocks` more ([`Freed`]). At most `runs² * valid blocks` steps where it is not the same.
pub(crate) fn cheapest(
    runs: &[ValidRun],
    times: &RequestTimes,
    moves: &[[f64; 2]],
    block_ns: impl Fn(Range<usize>) -> Option<f64>,
) -> Vec<Choice> {
    let mut choices = Vec::with_capacity(runs.len());
    let mut start = 0;
    // Runs that share no hole are independent.
    for end in 1..=runs.len() {
        if runs.get(end).is_none_or(|run| !run.shares_left) {
            let (island, moves) = (runs.get(start..end).unwrap_or_default(), moves.get(start..end).unwrap_or_default());
            let bounds = Bounds::new(island, times, moves);
            choices.extend(match block_ns(start..end) {
                Some(block_ns) => optimal_island(island, times, (moves, block_ns), &bounds),
                None => each_its_own(island, times, moves, &bounds),
            });
            start = end;
        }
    }
    choices
}

/// What every way of an island takes at the least, and what some way takes: a path is not followed
/// where the first exceeds the second, since it is part of no best plan.
struct Bounds {
    /// The least time of a block in any request, in nanoseconds.
    block_ns: f64,
    /// The time if all runs stay, or all move away, or all within: whichever is the least.
    known_ns: f64,
    /// Per place: the blocks in the holes behind it.
    holes: Vec<u32>,
}

impl Bounds {
    fn new(runs: &[ValidRun], times: &RequestTimes, moves: &[[f64; 2]]) -> Self {
        let mut holes: Vec<u32> = (0..=runs.len()).map(|place| hole_behind(runs, place)).collect();
        let left_ns: f64 = holes.iter().map(|&hole| fill(times, hole, 0)).sum();
        for place in (0..runs.len()).rev() {
            holes[place] += holes[place + 1];
        }
        let blocks: u32 = runs.iter().map(|run| u32::from(run.length)).sum();
        let [out_ns, within_ns]: [f64; 2] = [0, 1].map(|way| moves.iter().map(|times_ns| times_ns[way]).sum());
        let out_ns = out_ns + fill(times, holes[0], blocks);
        let within_ns = within_ns + fill(times, holes[0], 0);
        let block_ns = (1..=holes[0] + blocks).map(|size| fill(times, 1, size - 1)).fold(f64::INFINITY, f64::min);
        Self { block_ns, known_ns: left_ns.min(out_ns).min(within_ns), holes }
    }

    /// Whether a path is too long that moves some runs behind a place. It stays so with more runs.
    /// The slack is for sums of other roundings, and so that ties are found.
    fn is_exceeded(&self, place: usize, time_ns: f64, moves_ns: f64) -> bool {
        time_ns + moves_ns + f64::from(self.holes[place]) * self.block_ns > self.known_ns * (1.0 + 1e-12)
    }
}

/// Per number of freed blocks: the least time to copy the runs of a stretch so that this many are
/// freed, and the last run's choice.
type ByFreed = Vec<Option<(f64, Choice)>>;

fn optimal_island(
    runs: &[ValidRun],
    times: &RequestTimes,
    (moves, block_ns): (&[[f64; 2]], f64),
    bounds: &Bounds,
) -> Vec<Choice> {
    let count = runs.len();
    let mut freed = Freed::new(runs, times, block_ns);
    // best[k]: the path to run k - 1, which stays; best[count + 1]: to the end of the island.
    let mut best = vec![Way { time_ns: f64::INFINITY, from: 0, freed: 0 }; count + 2];
    best[0].time_ns = 0.0;
    for from in 0..=count {
        let time_ns = best[from].time_ns;
        let mut stretch = Stretch::behind(hole_behind(runs, from));
        let (_, ahead) = best.split_at_mut(from + 1);
        for (to, best) in (from..).zip(ahead) {
            if bounds.is_exceeded(from, time_ns, stretch.least_ns()) {
                break;
            }
            let moved = runs.get(from..to).unwrap_or_default();
            if !freed.ends_after(&stretch, time_ns, best.time_ns)
                && let Some((blocks, copied)) = freed.least(&mut stretch, moved, best.time_ns - time_ns)
            {
                let way = time_ns + copied + fill(times, stretch.holes, blocks as u32);
                if way < best.time_ns {
                    *best = Way { time_ns: way, from, freed: blocks };
                }
            }
            let Some((run, moves)) = runs.get(to).zip(moves.get(to)) else { break };
            stretch.grow(run, moves);
        }
    }
    walk_back(runs, moves, &best)
}

/// The choices for an island whose runs have different costs, so that it matters which runs are
/// freed.
fn each_its_own(runs: &[ValidRun], times: &RequestTimes, moves: &[[f64; 2]], bounds: &Bounds) -> Vec<Choice> {
    let count = runs.len();
    // As in `optimal_island`.
    let mut best = vec![Way { time_ns: f64::INFINITY, from: 0, freed: 0 }; count + 2];
    best[0].time_ns = 0.0;
    let (mut by_freed, mut next) = (Vec::new(), Vec::new());
    for from in 0..=count {
        let time_ns = best[from].time_ns;
        let (mut holes, mut least_ns) = (hole_behind(runs, from), 0.0);
        by_freed.clear();
        by_freed.push(0.0);
        let (_, ahead) = best.split_at_mut(from + 1);
        for (to, best) in (from..).zip(ahead) {
            if bounds.is_exceeded(from, time_ns, least_ns) {
                break;
            }
            for (freed, copied) in by_freed.iter().enumerate() {
                // The holes add to this.
                if time_ns + copied >= best.time_ns {
                    continue;
                }
                let way = time_ns + copied + fill(times, holes, freed as u32);
                if way < best.time_ns {
                    *best = Way { time_ns: way, from, freed };
                }
            }
            let Some((run, moves)) = runs.get(to).zip(moves.get(to)) else { break };
            least_times_moved((&by_freed, &mut next), run.length.into(), moves);
            std::mem::swap(&mut by_freed, &mut next);
            holes += u32::from(run.right);
            least_ns += moves[0].min(moves[1]);
        }
    }
    walk_back(runs, moves, &best)
}

/// The hole after the run that stays, or before the island's first run.
fn hole_behind(runs: &[ValidRun], place: usize) -> u32 {
    match place {
        0 => runs.first().map_or(0, |run| u32::from(run.left)),
        _ => runs.get(place - 1).map_or(0, |run| u32::from(run.right)),
    }
}

/// The times of [`moved`] alone; infinite for a number of blocks that is no sum of lengths.
fn least_times_moved((by_freed, next): (&[f64], &mut Vec<f64>), length: usize, [inter, intra]: &[f64; 2]) {
    next.clear();
    next.extend(by_freed.iter().map(|copied| copied + intra));
    next.resize(by_freed.len() + length, f64::INFINITY);
    for (place, copied) in next.iter_mut().skip(length).zip(by_freed) {
        *place = place.min(copied + inter);
    }
}

/// Adds a run to the moved ones of the stretch, moved either way.
fn moved(by_freed: &ByFreed, length: usize, [inter, intra]: &[f64; 2]) -> ByFreed {
    let mut next: ByFreed = vec![None; by_freed.len() + length];
    for (freed, copied) in by_freed.iter().enumerate() {
        let Some((copied, _)) = copied else { continue };
        for (to, time_ns, choice) in
            [(freed + length, copied + inter, Choice::Inter), (freed, copied + intra, Choice::Intra)]
        {
            if let Some(place) = next.get_mut(to)
                && place.is_none_or(|(best, _)| time_ns < best)
            {
                *place = Some((time_ns, choice));
            }
        }
    }
    next
}

fn walk_back(runs: &[ValidRun], copies: &[[f64; 2]], best: &[Way]) -> Vec<Choice> {
    let mut choices = vec![Choice::Ssr; runs.len()];
    let mut place = runs.len() + 1;
    while place > 0 {
        let Way { from, freed, .. } = best[place];
        let stretch = from..place - 1;
        place = from;
        let blocks: usize = runs[stretch.clone()].iter().map(|run| usize::from(run.length)).sum();
        if freed == 0 || freed == blocks {
            choices[stretch].fill(if freed == 0 { Choice::Intra } else { Choice::Inter });
            continue;
        }
        // The stretch's choices, recomputed because they are not stored for all stretches.
        let mut steps: Vec<ByFreed> = vec![vec![Some((0.0, Choice::Ssr))]];
        for number in stretch.clone() {
            let step = moved(&steps[steps.len() - 1], runs[number].length.into(), &copies[number]);
            steps.push(step);
        }
        let mut left = freed;
        for (number, step) in stretch.zip(steps.get(1..).unwrap_or_default()).rev() {
            let choice = step.get(left).copied().flatten().map_or(Choice::Ssr, |(_, choice)| choice);
            choices[number] = choice;
            if choice == Choice::Inter {
                left = left.saturating_sub(runs[number].length.into());
            }
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use super::super::plan::{Method, Plan};
    use super::*;

    /// A random segment of up to 16 runs, with and without shared holes.
    fn segment(random: &mut Random) -> Vec<ValidRun> {
        let count = 1 + random.below(16) as usize;
        let mut draw = |below: u64| random.below(below) as u16;
        let mut runs: Vec<ValidRun> = Vec::new();
        for number in 0..count {
            let shares_left = number > 0 && draw(5) > 0;
            let left = if shares_left { runs[number - 1].right } else { draw(20) };
            runs.push(ValidRun { start: 0, length: 1 + draw(15), left, right: draw(20), shares_left });
        }
        runs
    }

    fn device(random: &mut Random) -> RequestTimes {
        let (fixed, byte) = (random.below(100_000), 1 + random.below(2_000));
        let bend = 1 + random.below(64) as u32;
        RequestTimes::new(
            512,
            move |blocks| fixed / 10 + 3 * u64::from(blocks),
            move |blocks| fixed + byte * u64::from(blocks) + 500 * u64::from(blocks.min(bend)),
        )
    }

    /// The minimum over all `3^runs` choices, each followed from the first run to the last. A
    /// branch is cut if the time so far, plus the remaining holes in the largest possible requests,
    /// is not below the minimum found.
    struct Brute<'a> {
        runs: &'a [ValidRun],
        copies: Vec<[f64; 2]>,
        /// [`fill`] per hole block, by the number of blocks in the stretch.
        fill_ns: Vec<f64>,
        /// The minimum of these, and the hole blocks after each run and next to it.
        least_fill_ns: f64,
        holes_from: Vec<u32>,
        least: f64,
    }

    impl<'a> Brute<'a> {
        fn least(runs: &'a [ValidRun], times: &RequestTimes, means: MeanHoles) -> f64 {
            let written = [means.inter, means.intra].map(|mean| times.write_per_block(mean));
            let copies = runs.iter().map(|run| written.map(|written_ns| copy(times, run.length.into(), written_ns)));
            let most: u32 = runs.iter().map(|run| u32::from(run.left) + u32::from(run.length + run.right)).sum();
            let of_all = |all: u32| if all == 0 { 0.0 } else { times.write(all) / f64::from(all) };
            let fill_ns: Vec<f64> = (0..=most).map(of_all).collect();
            let least_fill_ns = fill_ns.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
            let mut holes_from = vec![0; runs.len() + 1];
            for (number, run) in runs.iter().enumerate().rev() {
                let left = if run.shares_left { 0 } else { u32::from(run.left) };
                holes_from[number] = holes_from[number + 1] + left + u32::from(run.right);
            }
            let (copies, least) = (copies.collect(), f64::INFINITY);
            let mut brute = Brute { runs, copies, fill_ns, least_fill_ns, holes_from, least };
            brute.follow(0, (0, 0), 0.0);
            brute.least
        }

        fn fill(&self, (holes, freed): (u32, u32)) -> f64 {
            f64::from(holes) * self.fill_ns[(holes + freed) as usize]
        }

        /// Continues with an open stretch of these holes and freed blocks, given the time of
        /// everything before it.
        fn follow(&mut self, number: usize, mut stretch: (u32, u32), mut before: f64) {
            let Some(run) = self.runs.get(number) else {
                self.least = self.least.min(before + self.fill(stretch));
                return;
            };
            let holes = stretch.0 + self.holes_from[number];
            if before + f64::from(holes) * self.least_fill_ns >= self.least {
                return;
            }
            if !run.shares_left {
                before += self.fill(stretch);
                stretch = (run.left.into(), 0);
            }
            let ((holes, freed), right) = (stretch, u32::from(run.right));
            let [inter, intra] = self.copies[number];
            self.follow(number + 1, (holes + right, freed + u32::from(run.length)), before + inter);
            self.follow(number + 1, (holes + right, freed), before + intra);
            self.follow(number + 1, (right, 0), before + self.fill(stretch));
        }
    }

    /// Checks all `3^runs` choices: 400 segments of up to 8 runs, or up to 16 if rounds are
    /// requested.
    #[test]
    fn the_optimum_is_that_of_all_choices() {
        let rounds = std::env::var("NANDKIT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
        let most = if rounds > 400 { 16 } else { 8 };
        let mut random = Random::new(1, "segments with holes");
        for round in 0..rounds {
            let (mut runs, times) = (segment(&mut random), device(&mut random));
            runs.truncate(most);
            let draw = |random: &mut Random| 1.0 + random.below(5_120) as f64 / 10.0;
            let means = MeanHoles { inter: draw(&mut random), intra: draw(&mut random) };
            let plan = Plan::of(&runs, &times, means, Method::Optimal);
            let least = Brute::least(&runs, &times, means);
            assert!((plan.predicted_ns() - least).abs() <= 1e-9 * least, "round {round}: {plan:?}, least {least}");
            let by_run = Plan::of(&runs, &times, means, Method::RunByRun);
            assert!(plan.predicted_ns() <= by_run.predicted_ns() * (1.0 + 1e-12), "round {round}");
            assert!(plan.gain_ns >= -1e-6, "round {round}: {plan:?}");
        }
    }

    /// The search for runs whose blocks cost alike, that for any costs, and both without bounds:
    /// the same choices, among equals too.
    #[test]
    fn both_searches_choose_alike() {
        let mut random = Random::new(1, "moves that cost alike");
        for round in 0..300 {
            let (runs, times) = (segment(&mut random), device(&mut random));
            let pair_ns = random.below(3_000) as f64;
            let remaps: Vec<[f64; 2]> = runs.iter().map(|run| [f64::from(run.length) * pair_ns; 2]).collect();
            let each = unbounded(&runs, &times, &remaps, None);
            assert_eq!(cheapest(&runs, &times, &remaps, |_| Some(0.0)), each, "round {round}: {runs:?}");
            assert_eq!(cheapest(&runs, &times, &remaps, |_| None), each);
            assert_eq!(unbounded(&runs, &times, &remaps, Some(0.0)), each);
            // Some runs are copied, others remapped; and all are copied.
            let written = [0, 1].map(|_| random.below(50_000) as f64);
            let copies: Vec<[f64; 2]> =
                runs.iter().map(|run| written.map(|written_ns| copy(&times, run.length.into(), written_ns))).collect();
            let pick = |(run, (remap, copy)): (&ValidRun, _)| if run.length.is_multiple_of(4) { remap } else { copy };
            let mixed: Vec<[f64; 2]> =
                runs.iter().zip(remaps.into_iter().zip(copies.iter().copied())).map(pick).collect();
            assert_eq!(cheapest(&runs, &times, &mixed, |_| None), unbounded(&runs, &times, &mixed, None));
            let block_ns = Some(written[0] - written[1]);
            let bounded = cheapest(&runs, &times, &copies, |_| block_ns);
            assert_eq!(bounded, unbounded(&runs, &times, &copies, block_ns), "round {round}: {runs:?}");
        }
    }

    /// The choices of a search that follows all paths.
    fn unbounded(runs: &[ValidRun], times: &RequestTimes, moves: &[[f64; 2]], block_ns: Option<f64>) -> Vec<Choice> {
        let search = |at: Range<usize>| {
            let (runs, moves) = (&runs[at.clone()], &moves[at]);
            let bounds = Bounds { known_ns: f64::INFINITY, ..Bounds::new(runs, times, moves) };
            match block_ns {
                Some(block_ns) => optimal_island(runs, times, (moves, block_ns), &bounds),
                None => each_its_own(runs, times, moves, &bounds),
            }
        };
        islands(runs).flat_map(search).collect()
    }

    fn islands(runs: &[ValidRun]) -> impl Iterator<Item = Range<usize>> {
        let starts: Vec<usize> = (0..runs.len()).filter(|&at| !runs[at].shares_left).chain([runs.len()]).collect();
        (1..starts.len()).map(move |at| starts[at - 1]..starts[at])
    }

    /// A request costs 100 whatever its size, and copying a run 110. Each run alone saves a request
    /// and a fifth of one; the second saves only a request and a twentieth, as it joins a larger
    /// stretch.
    #[test]
    fn a_run_is_not_worth_moving_where_its_neighbour_is_moved() {
        let times = RequestTimes::new(512, |_| 0, |_| 100);
        let means = MeanHoles { inter: 100.0 / 55.0, intra: 1.0 };
        let run = |shares_left| ValidRun { start: 0, length: 2, left: 4, right: 4, shares_left };
        let runs = [run(false), run(true)];
        let by_run = Plan::of(&runs, &times, means, Method::RunByRun);
        assert_eq!(by_run.choices, [Choice::Inter; 2]);
        let best = Plan::of(&runs, &times, means, Method::Optimal);
        assert_eq!(best.choices.iter().filter(|choice| **choice == Choice::Ssr).count(), 1);
        assert!((by_run.predicted_ns() - 295.0).abs() < 1e-9 && (best.predicted_ns() - 290.0).abs() < 1e-9);
        assert_eq!(Plan::of(&[], &times, means, Method::Optimal), Plan::default());
    }
}
