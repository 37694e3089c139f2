//! Thousands of power cuts: each request of a run, and of the recoveries after some of its cuts, is
//! cut once, and the result is mounted and judged.
//!
//! A seed determines a shape of volume and some lives. A life is a mount, random operations, a cut
//! at each of its requests, and one of these cuts from which the next life starts.

#![allow(dead_code, reason = "each user takes its part")]

pub mod shapes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use nandkit_block::wrap::{DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::recover::Recovered;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_testkit::record::{Action, MemoryDisk, RecordingDevice, Request, RequestReplay};
use nandkit_units::random::Random;
use nandkit_units::{Area, Cause};

use crate::made::{clock, complaints};
use crate::reusing::{Mode, slow_requests};
use crate::writing::oracle::{Model, Oracle, image_of, write_image};
use crate::writing::trees::Known;
use crate::writing::{findings, unmount};
use shapes::{Shape, Work};

/// The causes of requests; the rows of the soak's table.
pub const CAUSES: [&str; 8] = [
    "user data",
    "nodes of an fsync",
    "cleaning",
    "checkpoint, nodes",
    "checkpoint, tables",
    "flushes",
    "discards",
    "recovery",
];
pub const MOMENTS: [DeviceCutMoment; 3] = [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After];
pub const SURVIVALS: [Survival; 4] = [Survival::None, Survival::Prefix, Survival::Subset, Survival::All];
const CLEANING: usize = 2;
const CHECKPOINT_NODES: usize = 3;
const CHECKPOINT_TABLES: usize = 4;
const DISCARDS: usize = 6;
const RECOVERY: usize = 7;
/// After every `RAW_EVERY`th cut, the check looks at the volume before it is mounted: it holds the
/// last checkpoint, intact.
const RAW_EVERY: usize = 4;

fn cause_of(request: &Request) -> usize {
    match (&request.action, request.context.cause, request.context.area) {
        (Action::Flush, ..) => 5,
        (Action::Trim { .. }, ..) => 6,
        (_, Cause::UserData, _) => 0,
        (_, Cause::Cleaning, _) => 2,
        (_, Cause::Checkpoint, Area::Main) => 3,
        (_, Cause::Checkpoint, Area::Metadata) => 4,
        _ => 1,
    }
}

/// A cut: its cause as an index in [`CAUSES`], its moment, and what survived.
pub type Cut = (usize, DeviceCutMoment, Survival);

/// The extent of a soak.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    pub lives: u32,
    pub steps: u32,
    /// After every `recovery_every`th cut, each request of the recovery is cut too.
    pub recovery_every: usize,
    /// After every `fsck_every`th cut, counted over all seeds, fsck.f2fs sees the recovered volume.
    pub fsck_every: u64,
    /// Every moment and survival of each request, instead of a random one.
    pub all: bool,
    /// In a life with more requests than this, about this many of them are cut, at even distances,
    /// and also all requests of the rare causes. Otherwise a life with large bursts would be most
    /// of a soak.
    pub life_cuts: u64,
    /// Ways of treating segments before their gaps are filled, which volumes that are full of gaps
    /// take in turn; none: every shape, as Linux does it.
    pub modes: &'static [Mode],
}

impl Course {
    pub const USUAL: Self =
        Self { lives: 3, steps: 90, recovery_every: 6, fsck_every: 64, all: false, life_cuts: 1_000, modes: &[] };
    /// Few operations, and everything that can be cut.
    pub const EXHAUSTIVE: Self =
        Self { lives: 1, steps: 12, recovery_every: 1, fsck_every: 500, all: true, ..Self::USUAL };

    /// The usual one with ways of treating segments. Their bursts make some thousand requests a
    /// life, of which fewer are cut, so that there are more lives.
    pub const fn with_modes(self, modes: &'static [Mode]) -> Self {
        let life_cuts = if modes.is_empty() { self.life_cuts } else { 250 };
        Self { modes, life_cuts, ..self }
    }
}

/// The rarest cause, of which every request is cut.
const NODES_OF_AN_FSYNC: usize = 1;

/// Counts of what a soak did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub cuts: Vec<Cut>,
    /// Cuts that left something to recover.
    pub recovered: u64,
    /// Volumes seen by fsck.f2fs.
    pub seen_by_fsck: u64,
    pub by_mode: BTreeMap<&'static str, ModeTally>,
    scratch: Option<Arc<tempfile::TempDir>>,
}

impl Tally {
    /// Adds the counts of another seed.
    pub fn add(&mut self, other: Self) {
        self.cuts.extend(other.cuts);
        self.recovered += other.recovered;
        self.seen_by_fsck += other.seen_by_fsck;
        for (mode, more) in other.by_mode {
            let sum = self.by_mode.entry(mode).or_default();
            sum.cuts += more.cuts;
            sum.treated += more.treated;
            sum.in_treatments += more.in_treatments;
        }
    }
}

/// Counts for one way of treating segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeTally {
    pub cuts: u64,
    /// Segments that were treated before their gaps were filled.
    pub treated: u64,
    /// Cuts at the copies and checkpoints of operations that treated a segment.
    pub in_treatments: u64,
}

/// What was done to a volume between its mount and the loss of power.
struct Life<O> {
    requests: Vec<Request>,
    snapshots: Snapshots<O>,
    /// Numbers of the requests of operations that treated a segment.
    treating: Vec<Range<u64>>,
}

impl<O> Life<O> {
    /// Whether a request is of the copies or the checkpoint of such an operation.
    fn is_in_treatment(&self, number: u64, cause: usize) -> bool {
        matches!(cause, CLEANING | CHECKPOINT_NODES | CHECKPOINT_TABLES)
            && self.treating.iter().any(|numbers| numbers.contains(&number))
    }
}

/// Cuts a seed's requests. Panics if one loses something, with a message that names it.
pub fn soak(seed: u64, course: Course, tally: &mut Tally) {
    let shape = shapes::shape_in(seed, course.modes);
    let (medium, filler) = shape.base();
    let (soak, before) = (Soak { shape, seed, course }, tally.cuts.len());
    match shape.work {
        Work::Files => {
            let model = if filler > 0 { Model::with_filler(filler).with_bursts(shape.burst) } else { Model::default() };
            soak.lives(medium, if shape.drafts { model.with_drafts() } else { model }, tally);
        }
        Work::Names => {
            let volume = WritableVolume::mount(vec![medium.clone()], clock(), shape.options).unwrap();
            soak.lives(medium, Known::of(&volume), tally);
        }
    }
    if let Some(mode) = shape.mode {
        tally.by_mode.entry(mode.name).or_default().cuts += (tally.cuts.len() - before) as u64;
    }
}

/// The oracle's knowledge, each with the number of requests from which on it holds.
type Snapshots<O> = Vec<(usize, O)>;

/// What may be on the device after a cut at a request: after it, what was acknowledged before
/// anything else began; else what was in progress.
fn known_at<O>(snapshots: &Snapshots<O>, request: u64, moment: DeviceCutMoment) -> &O {
    let acknowledged = snapshots.iter().find(|(count, _)| *count as u64 == request);
    let under_way = snapshots.iter().rev().find(|(count, _)| (*count as u64) < request);
    match (moment, acknowledged, under_way) {
        (DeviceCutMoment::After, Some((_, known)), _) | (_, _, Some((_, known))) => known,
        _ => unreachable!("something is known from the beginning on"),
    }
}

struct Soak {
    shape: Shape,
    seed: u64,
    course: Course,
}

impl Soak {
    fn options(&self) -> WriteOptions {
        self.shape.options
    }

    fn lives<O: Oracle>(&self, mut medium: MemoryDisk, mut oracle: O, tally: &mut Tally) {
        for life in 0..self.course.lives {
            let mut random = Random::new(self.seed * 1000 + u64::from(life), "soak");
            let mut lived = self.live(&medium, oracle.clone(), &mut random, tally);
            let count = lived.requests.len() as u64;
            // Few operations may leave nothing to cut.
            assert!(count > 0 || self.course.all, "seed {}: nothing was written", self.seed);
            if count == 0 {
                return;
            }
            let chosen = random.between(1, count);
            let stride = count / self.course.life_cuts + 1;
            let mut next = None;
            let mut replay = RequestReplay::new(medium.clone(), std::mem::take(&mut lived.requests));
            while let Some((number, request)) = replay.peek() {
                let cause = cause_of(request);
                let in_treatment = lived.is_in_treatment(number, cause);
                let is_rare = in_treatment || cause == NODES_OF_AN_FSYNC;
                let is_cut = number % stride == 0 || number == chosen || is_rare;
                let plans = if is_cut { self.plans(number, cause, &mut random) } else { Vec::new() };
                if let Some(mode) = self.shape.mode.filter(|_| in_treatment) {
                    tally.by_mode.entry(mode.name).or_default().in_treatments += plans.len() as u64;
                }
                for plan in plans {
                    let context = format!("seed {}, {}, life {life}, {plan:?}", self.seed, self.shape.title());
                    let known = known_at(&lived.snapshots, number, plan.moment);
                    let left = replay.cut(plan).unwrap();
                    self.judge(left.clone(), known, &context, tally);
                    tally.cuts.push((cause, plan.moment, plan.survival));
                    if tally.cuts.len().is_multiple_of(self.course.recovery_every) {
                        self.cut_recovery(&left, known, &context, &mut random, tally);
                    }
                    if number == chosen {
                        next = Some((left, known.clone()));
                    }
                }
                replay.advance().unwrap();
            }
            let (left, mut known) = next.unwrap();
            let volume = WritableVolume::mount(vec![left], clock(), self.options()).unwrap();
            known.settle(&volume);
            (medium, oracle) = (unmount(volume).settle(), known);
        }
    }

    /// Operations until their number is reached; what they asked of the device, and what was known
    /// meanwhile.
    fn live<O: Oracle>(&self, medium: &MemoryDisk, mut oracle: O, random: &mut Random, tally: &mut Tally) -> Life<O> {
        let (device, log) = RecordingDevice::new(medium.clone());
        let mut volume = WritableVolume::mount(vec![device], clock(), self.options()).unwrap();
        volume.segments_mut().options.urgent = self.shape.urgent;
        volume.segments_mut().sit_mut().keep_truth();
        let counters = self.shape.mode.and_then(|mode| {
            // One to three segments before each checkpoint.
            let segments = 1 + (self.seed / self.course.modes.len().max(1) as u64 % 3) as u32;
            mode.begin_with(&mut volume, slow_requests(), segments)
        });
        let mut snapshots = vec![(0, oracle.clone())];
        let (mut treating, mut treated) = (Vec::new(), 0);
        for step in 0..self.course.steps {
            let begun = log.count() as u64;
            let mut before = |known: &O| snapshots.push((log.count(), known.clone()));
            let done = oracle.step(&mut volume, random, &mut before);
            done.unwrap_or_else(|error| panic!("seed {}, {}, step {step}: {error}", self.seed, self.shape.title()));
            snapshots.push((log.count(), oracle.clone()));
            let now = counters.as_ref().map_or(0, |counters| counters.now().treated);
            if std::mem::replace(&mut treated, now) < now {
                treating.push(begun + 1..log.count() as u64 + 1);
            }
        }
        drop(volume.abandon());
        if let Some(mode) = self.shape.mode {
            tally.by_mode.entry(mode.name).or_default().treated += treated;
        }
        Life { requests: log.take(), snapshots, treating }
    }

    /// How a request is cut: in every way, or once, more often if its cause is rare.
    fn plans(&self, at: u64, cause: usize, random: &mut Random) -> Vec<DeviceCutPlan> {
        let survivals = self.shape.survivals;
        if self.course.all {
            let mut distinct = survivals.to_vec();
            distinct.dedup();
            let ways = MOMENTS.into_iter().flat_map(|moment| distinct.iter().map(move |&survival| (moment, survival)));
            return ways.map(|(moment, survival)| DeviceCutPlan::at(at, moment, survival, self.seed)).collect();
        }
        let count = match cause {
            1 | 2 => 2,
            DISCARDS => 3,
            _ => 1,
        };
        let mut draw = |count: usize| random.below(count as u64) as usize;
        let plan = |_| {
            let (moment, survival) = (MOMENTS[draw(MOMENTS.len())], survivals[draw(survivals.len())]);
            DeviceCutPlan::at(at, moment, survival, draw(1 << 30) as u64)
        };
        (0..count).map(plan).collect()
    }

    /// Cuts each request of the recovery after a cut.
    fn cut_recovery<O: Oracle>(
        &self,
        left: &MemoryDisk,
        known: &O,
        context: &str,
        random: &mut Random,
        tally: &mut Tally,
    ) {
        let (device, log) = RecordingDevice::new(left.clone());
        drop(WritableVolume::mount(vec![device], clock(), self.options()).unwrap().abandon());
        let mut replay = RequestReplay::new(left.clone(), log.take());
        while let Some((number, _)) = replay.peek() {
            for plan in self.plans(number, RECOVERY, random) {
                let context = format!("{context}, in its recovery {plan:?}");
                self.judge(replay.cut(plan).unwrap(), known, &context, tally);
                tally.cuts.push((RECOVERY, plan.moment, plan.survival));
            }
            replay.advance().unwrap();
        }
    }

    /// Mounts after a cut, compares the volume with what is known, checks it, and mounts it once
    /// more, when nothing is left to recover.
    fn judge<O: Oracle>(&self, left: MemoryDisk, known: &O, context: &str, tally: &mut Tally) {
        if tally.cuts.len().is_multiple_of(RAW_EVERY) {
            assert_eq!(findings(left.clone()), Vec::<String>::new(), "{context}: check, before any mount");
        }
        let mounted = WritableVolume::mount(vec![left], clock(), self.options());
        let volume = mounted.unwrap_or_else(|error| panic!("{context}: {error}"));
        tally.recovered += u64::from(volume.recovered() != Recovered::default());
        known.judge(&volume, context);
        let medium = unmount(volume);
        assert_eq!(findings(medium.clone()), Vec::<String>::new(), "{context}: check");
        let volume = WritableVolume::mount(vec![medium], clock(), self.options()).unwrap();
        assert_eq!(volume.recovered(), Recovered::default(), "{context}");
        known.judge(&volume, context);
        if (tally.cuts.len() as u64).is_multiple_of(self.course.fsck_every) {
            self.show_fsck(&volume.abandon().remove(0), context, tally);
        }
    }

    fn show_fsck(&self, medium: &MemoryDisk, context: &str, tally: &mut Tally) {
        let scratch = tally.scratch.get_or_insert_with(|| tempfile::tempdir().unwrap().into());
        let path = scratch.path().join("image");
        write_image(&path, &image_of(medium));
        assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
        tally.seen_by_fsck += 1;
    }
}
