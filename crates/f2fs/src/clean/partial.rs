//! Partial garbage collection (P1): applies the plan of `cleaning::partial` to the segment that SSR
//! fills next, weighed against the time of a checkpoint.

use std::ops::Range;
use std::sync::Arc;

use nandkit_cleaning::partial::{Choice, LearnedTimes, MeanHoles, Method, Plan, RequestTimes, ValidRun};
use nandkit_units::Nanos;

use super::partial_counters::Published;
use super::review::{CheckpointRequests, HoleRun, Measured, ReuseFacts, ReusePlan, ReuseReview, Treatment};
use crate::ids::{Log, SegmentIndex};
use crate::segments::sit::BLOCKS;

/// The most segments whose times are still awaited.
const WATCHED_MOST: usize = 32;

/// P1's review of a segment before its holes are filled.
#[derive(Debug)]
pub struct PartialCollection {
    times: RequestTimes,
    /// The source of request times, updated for each segment; `None` if a card file gives them.
    learned: Option<LearnedTimes>,
    /// The card's own times, with which the statistics compare the learned times; they decide
    /// nothing.
    beside: Option<RequestTimes>,
    method: Method,
    segments_per_checkpoint: u32,
    watched: Vec<Watched>,
    published: Arc<Published>,
}

/// A reviewed segment and what was expected of it.
#[derive(Clone, Copy, Debug)]
struct Watched {
    segment: SegmentIndex,
    log: Log,
    is_treated: bool,
    /// Blocks in its holes at the review.
    holes: u32,
    predicted_ns: f64,
    copied: Nanos,
    filled: (u32, Nanos),
}

impl PartialCollection {
    /// A review based on the device's times of random requests. `segments_per_checkpoint` segments
    /// are treated before a checkpoint; P1 treats one, since cleaning in idle time may free
    /// segments before more are used (section 4.2).
    pub fn new(times: RequestTimes, method: Method, segments_per_checkpoint: u32) -> Self {
        Self {
            times,
            learned: None,
            beside: None,
            method,
            segments_per_checkpoint: segments_per_checkpoint.max(1),
            watched: Vec::new(),
            published: Arc::default(),
        }
    }

    /// A review based on the measured times of the volume's own requests. It leaves segments as
    /// they are until a read and a write have been measured.
    pub fn learning(learned: LearnedTimes, method: Method, segments_per_checkpoint: u32) -> Self {
        let nothing = RequestTimes::new(1, |_| 0, |_| 0);
        Self { learned: Some(learned), ..Self::new(nothing, method, segments_per_checkpoint) }
    }

    /// Makes the review also tell how far the learned times are from `times`.
    pub fn beside(self, times: RequestTimes) -> Self {
        Self { beside: Some(times), ..self }
    }

    /// The decisions and measured times, for concurrent readers.
    pub fn statistics(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Publishes the times of segments that the log has left since.
    fn settle(&mut self, log: Log, current: SegmentIndex) {
        let published = &self.published;
        self.watched.retain(|watched| {
            let has_ended = watched.log == log && watched.filled.0 > 0 && watched.segment != current;
            if has_ended {
                published.change(|counters| {
                    counters.ended(watched.simulated_ns(), watched.predicted_ns, watched.is_treated)
                });
            }
            !has_ended
        });
        let surplus = self.watched.len().saturating_sub(WATCHED_MOST);
        self.watched.drain(..surplus);
    }

    /// `TCheck`: the time of a checkpoint's requests, by the curve.
    fn checkpoint_ns(&self, requests: &[u32]) -> f64 {
        requests.iter().map(|blocks| self.times.write(*blocks)).sum()
    }
}

impl Watched {
    /// The time to copy and to fill all holes, scaled up from the blocks filled so far.
    fn simulated_ns(&self) -> f64 {
        let (blocks, time) = self.filled;
        self.copied.0 as f64 + time.0 as f64 * f64::from(self.holes) / f64::from(blocks.max(1))
    }
}

impl ReuseReview for PartialCollection {
    fn learns(&self) -> bool {
        self.learned.is_some()
    }

    fn segments_per_checkpoint(&self) -> u32 {
        self.segments_per_checkpoint
    }

    fn review(&mut self, holes: &[HoleRun], facts: &ReuseFacts, checkpoint: CheckpointRequests<'_>) -> ReusePlan {
        self.settle(facts.log, facts.current);
        // Copies go to the cold log, so treating a segment for the cold log would only cause more
        // of them.
        if facts.log == Log::ColdData {
            return ReusePlan::AsIs;
        }
        if let Some(learned) = &self.learned {
            let Some(times) = learned.times(BLOCKS.into()) else { return ReusePlan::AsIs };
            self.times = times;
            let distance = self.beside.as_ref().and_then(|beside| learned.write_distance(beside));
            self.published.change(|counters| counters.learned_write_distance = distance);
        }
        let runs = valid_runs(holes, &facts.valid);
        let intra = mean(holes).unwrap_or(1.0);
        let means = MeanHoles { inter: mean(&facts.cold_holes).unwrap_or(BLOCKS.into()), intra };
        let plan = Plan::of(&runs, &self.times, means, self.method);
        let moves = plan.choices.iter().any(|choice| *choice != Choice::Ssr);
        let check_ns = if moves { self.checkpoint_ns(&checkpoint()) } else { 0.0 };
        // The segments treated before a checkpoint share its cost.
        let pays = plan.gain_ns > check_ns / f64::from(self.segments_per_checkpoint);
        let is_treated = moves && (pays || self.method == Method::Everything);
        let left =
            Plan { fill_ns: holes.iter().map(|hole| self.times.write(hole.length.into())).sum(), ..Plan::default() };
        let predicted_ns = if is_treated { plan.predicted_ns() } else { left.predicted_ns() };
        self.published.change(|counters| counters.reviewed(&runs, &plan, is_treated, check_ns));
        self.watched.retain(|watched| watched.segment != facts.segment);
        self.watched.push(Watched {
            segment: facts.segment,
            log: facts.log,
            is_treated,
            holes: holes.iter().map(|hole| u32::from(hole.length)).sum(),
            predicted_ns,
            copied: Nanos::ZERO,
            filled: (0, Nanos::ZERO),
        });
        if is_treated { ReusePlan::Treat(treatments(&runs, &plan.choices)) } else { ReusePlan::AsIs }
    }

    fn measured(&mut self, what: Measured) {
        match what {
            Measured::Treated(segment, time) => {
                self.published.change(|counters| counters.copied(time));
                if let Some(watched) = self.watched.iter_mut().find(|watched| watched.segment == segment) {
                    watched.copied = time;
                }
            }
            Measured::Request(seen) => {
                let learn = if seen.is_write { LearnedTimes::wrote } else { LearnedTimes::read };
                self.learned.iter_mut().for_each(|learned| learn(learned, seen.blocks, seen.time.0));
            }
            Measured::Checkpoint(time) => self.published.change(|counters| counters.checkpointed(time)),
            Measured::Filled(segment, blocks, time) => {
                if let Some(watched) = self.watched.iter_mut().find(|watched| watched.segment == segment) {
                    watched.filled.0 += blocks;
                    watched.filled.1 += time;
                }
            }
        }
    }
}

/// The mean length of holes, in blocks.
pub(super) fn mean(holes: &[HoleRun]) -> Option<f64> {
    let blocks: u32 = holes.iter().map(|hole| u32::from(hole.length)).sum();
    (!holes.is_empty()).then(|| f64::from(blocks) / holes.len() as f64)
}

fn treatments(runs: &[ValidRun], choices: &[Choice]) -> Vec<(Range<u16>, Treatment)> {
    let treatment = |choice: &Choice| match choice {
        Choice::Ssr => None,
        Choice::Inter => Some(Treatment::Inter),
        Choice::Intra => Some(Treatment::Intra),
    };
    let each = runs.iter().zip(choices);
    each.filter_map(|(run, choice)| Some((run.start..run.start + run.length, treatment(choice)?))).collect()
}

/// Runs of valid blocks with the holes next to them, both ascending. Blocks that are valid only in
/// the last checkpoint separate a run from a hole.
pub fn valid_runs(holes: &[HoleRun], valid: &[Range<u16>]) -> Vec<ValidRun> {
    let mut rest = holes.iter().copied().peekable();
    let mut before: Option<HoleRun> = None;
    let mut shared = false;
    let mut runs = Vec::with_capacity(valid.len());
    for run in valid {
        while let Some(hole) = rest.next_if(|hole| hole.start < run.start) {
            (before, shared) = (Some(hole), false);
        }
        let touches = before.filter(|hole| hole.start + hole.length == run.start);
        let right = rest.peek().filter(|hole| hole.start == run.end);
        runs.push(ValidRun {
            start: run.start,
            length: run.end - run.start,
            left: touches.map_or(0, |hole| hole.length),
            right: right.map_or(0, |hole| hole.length),
            shares_left: shared && touches.is_some(),
        });
        (before, shared) = match rest.next_if(|hole| hole.start == run.end) {
            Some(hole) => (Some(hole), true),
            None => (None, false),
        };
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::SeenRequest;

    #[test]
    fn runs_have_the_holes_that_touch_them() {
        let hole = |start, length| HoleRun { start, length };
        // 0..3 hole, 3..5 valid, 5..9 hole, 9..10 valid, 10..12 of the checkpoint, 12..20 hole,
        // 20..21 valid.
        let runs = valid_runs(&[hole(0, 3), hole(5, 4), hole(12, 8)], &[3..5, 9..10, 20..21]);
        let run = |start, length, left, right, shares_left| ValidRun { start, length, left, right, shares_left };
        assert_eq!(runs, [run(3, 2, 3, 4, false), run(9, 1, 4, 0, true), run(20, 1, 8, 0, false)]);
        assert_eq!(valid_runs(&[], std::slice::from_ref(&(0..512))), [run(0, 512, 0, 0, false)]);
    }

    fn facts(valid: Vec<Range<u16>>) -> ReuseFacts {
        ReuseFacts {
            segment: SegmentIndex(7),
            log: Log::WarmData,
            valid,
            cold_holes: Vec::new(),
            current: SegmentIndex(1),
            pages: Vec::new(),
            remaps: Default::default(),
        }
    }

    /// A segment with 100 holes of 4 blocks separated by single blocks, on a device with 1 ms per
    /// request.
    #[test]
    fn a_segment_is_treated_where_that_is_worth_its_checkpoint() {
        let times = || RequestTimes::new(512, |_| 0, |blocks| 1_000_000 + u64::from(blocks));
        let holes: Vec<HoleRun> = (0..100).map(|number| HoleRun { start: number * 5, length: 4 }).collect();
        let valid: Vec<Range<u16>> = (0..99).map(|number| number * 5 + 4..number * 5 + 5).collect();
        let facts = facts(valid);
        let mut review = PartialCollection::new(times(), Method::RunByRun, 1);
        let ReusePlan::Treat(runs) = review.review(&holes, &facts, &mut || vec![1, 2, 3]) else {
            panic!("it is treated")
        };
        assert_eq!((runs.len(), runs[0].1), (99, Treatment::Inter));
        // Each run saves a request; a checkpoint of 200 requests costs more.
        assert_eq!(review.review(&holes, &facts, &mut || vec![1; 200]), ReusePlan::AsIs);
        // Shared by two segments the checkpoint does not; and whole segments are emptied at any
        // price.
        let mut pair = PartialCollection::new(times(), Method::RunByRun, 3);
        assert_ne!(pair.review(&holes, &facts, &mut || vec![1; 200]), ReusePlan::AsIs);
        let mut whole = PartialCollection::new(times(), Method::Everything, 1);
        assert_ne!(whole.review(&holes, &facts, &mut || vec![1; 2000]), ReusePlan::AsIs);
        // If nothing is worth moving, the size of the checkpoint is not asked for.
        let even = RequestTimes::new(512, |_| 0, |blocks| 1_000 * u64::from(blocks));
        let mut idle = PartialCollection::new(even, Method::RunByRun, 1);
        assert_eq!(idle.review(&holes, &facts, &mut || unreachable!("asked")), ReusePlan::AsIs);
        let counters = review.statistics().now();
        assert_eq!((counters.segments, counters.treated, counters.left_for_checkpoint), (2, 1, 1));
    }

    /// Nothing is treated before any request was seen; after that it works with the measured times.
    #[test]
    fn what_was_seen_decides() {
        let holes: Vec<HoleRun> = (0..100).map(|number| HoleRun { start: number * 5, length: 4 }).collect();
        let valid: Vec<Range<u16>> = (0..99).map(|number| number * 5 + 4..number * 5 + 5).collect();
        let mut review = PartialCollection::learning(LearnedTimes::default(), Method::RunByRun, 1);
        let facts = facts(valid);
        let ask = |review: &mut PartialCollection| review.review(&holes, &facts, &mut || vec![1, 2, 3]);
        assert!(review.learns() && ask(&mut review) == ReusePlan::AsIs);
        let see = |review: &mut PartialCollection, is_write, blocks, ns| {
            review.measured(Measured::Request(SeenRequest { is_write, blocks, time: Nanos(ns) }));
        };
        see(&mut review, false, 1, 1);
        [4, 512].into_iter().for_each(|blocks| see(&mut review, true, blocks, 1_000_000 + u64::from(blocks)));
        assert!(matches!(ask(&mut review), ReusePlan::Treat(runs) if runs.len() == 99));
        // The measured device has no cost per request.
        for blocks in [4, 512] {
            (0..2000).for_each(|_| see(&mut review, true, blocks, 1_000 * u64::from(blocks)));
        }
        assert_eq!(ask(&mut review), ReusePlan::AsIs);
    }
}
