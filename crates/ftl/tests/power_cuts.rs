//! Power cuts at every program, copy and erase of small workloads, in every torn state, and during
//! the recovery from them.

use crate::common::cuts::run;
use crate::common::model::{Mix, Op, Ops};
use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_cleaning::recycling::RecyclingPolicy;
use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_units::random::Random;

fn options() -> BlockMapOptions {
    BlockMapOptions {
        capacity: LogicalCapacity::SpareBlocks(6),
        log_blocks: 2,
        policy: RecyclingPolicy::CostBased,
        ..BlockMapOptions::default()
    }
}

fn tiny() -> ChipSpec {
    spec(512, 16, 8, 10)
}

/// Cuts at every step in every state. Returns the number of cuts.
fn exhaustive<L: Layer>(chip: &ContentChip, options: &L::Options, ops: &[Op]) -> u64 {
    let steps = run::<L>(chip.clone(), options, ops, CutPlan::None).unwrap().steps;
    for step in 1..=steps {
        for moment in CutMoment::ALL {
            check::<L>(chip, options, ops, CutPlan::at(step, moment));
        }
    }
    steps * CutMoment::ALL.len() as u64
}

fn check<L: Layer>(chip: &ContentChip, options: &L::Options, ops: &[Op], plan: CutPlan) -> usize {
    match run::<L>(chip.clone(), options, ops, plan.clone()) {
        Ok(run) => run.cut.len(),
        Err(what) => panic!("cut {plan}: {what}"),
    }
}

fn w(at: u64, sectors: u64) -> Op {
    Op::Write { at, sectors }
}

fn t(at: u64, sectors: u64) -> Op {
    Op::Trim { at, sectors }
}

/// Fill in order (swap), then open a fresh log on it.
fn swap() -> Vec<Op> {
    vec![w(0, 8), w(0, 8), w(2, 1), w(8, 3), w(0, 8), w(11, 5), w(3, 2)]
}

/// Rewrites a few pages repeatedly (migration), then so many that they are merged, then reuses the
/// freed blocks.
fn migrate_and_merge() -> Vec<Op> {
    let mut ops = vec![w(0, 8)];
    ops.extend((0..30).map(|n| w(n % 3, 1)));
    ops.extend((0..20).map(|n| w((n * 5) % 8, 1)));
    ops.extend([w(8, 8), w(8, 2), w(0, 8)]);
    ops
}

/// More logical blocks than logs.
fn contention() -> Vec<Op> {
    (0..24).map(|n| w((n * 11) % 32, 1 + n % 3)).collect()
}

/// Trims of pages in logs, in data blocks and in both, before each kind of recycling.
fn trims() -> Vec<Op> {
    let mut ops = vec![w(0, 8), w(3, 1), t(3, 1)];
    ops.extend((0..16).map(|n| w(n % 2, 1)));
    ops.extend([t(0, 8), Op::Flush, w(5, 1)]);
    ops.extend((0..9).map(|_| w(5, 1)));
    ops.extend([
        w(8, 2),
        w(16, 8),
        t(9, 1),
        t(18, 1),
        Op::Flush,
        t(8, 16),
        w(24, 1),
        w(8, 1),
        t(0, 32),
        w(1, 1),
        w(9, 1),
        w(17, 1),
    ]);
    ops
}

#[test]
fn exhaustive_to_depth_one() {
    let chip = chip(&tiny(), 1);
    let mut cuts = 0;
    for ops in [swap(), migrate_and_merge(), contention(), trims()] {
        cuts += exhaustive::<BlockMap>(&chip, &options(), &ops);
    }
    assert!(cuts > 2_000, "{cuts}");
}

#[test]
fn exhaustive_with_other_options() {
    let chip = chip(&tiny(), 2);
    let variants = [
        BlockMapOptions { map_pages_per_recycling: 0, ..options() },
        BlockMapOptions { partial_merge: true, copyback: false, ..options() },
        BlockMapOptions { policy: RecyclingPolicy::Merge, map_pages_per_recycling: 3, log_blocks: 1, ..options() },
    ];
    for options in variants {
        for ops in [swap(), migrate_and_merge(), trims()] {
            exhaustive::<BlockMap>(&chip, &options, &ops);
        }
    }
}

#[test]
fn exhaustive_during_recovery() {
    let chip = chip(&spec(512, 16, 4, 8), 3);
    let options = BlockMapOptions { capacity: LogicalCapacity::SpareBlocks(5), log_blocks: 1, ..options() };
    let ops = [w(0, 4), w(1, 1), w(1, 1), w(0, 2), w(5, 1), t(1, 1), w(2, 1), w(0, 4)];
    let mut cuts = 0;
    let steps = run::<BlockMap>(chip.clone(), &options, &ops, CutPlan::None).unwrap().steps;
    for step in 1..=steps {
        for moment in CutMoment::ALL {
            let first = Cut { step, moment };
            for later in 1..=14 {
                for second in CutMoment::ALL {
                    let plan = CutPlan::List(vec![first, Cut { step: step + later, moment: second }]);
                    cuts += check::<BlockMap>(&chip, &options, &ops, plan);
                }
            }
        }
    }
    assert!(cuts > 5_000, "{cuts}");
}

/// Twelve cuts at distances that the seed determines.
fn random_cuts(seed: u64) -> CutPlan {
    let mut random = Random::new(seed, "cuts");
    let mut step = 0;
    let cuts = (0..12).map(|_| {
        step += 1 + if random.chance(0.5) { random.below(12) } else { random.below(80) };
        Cut { step, moment: CutMoment::ALL[random.below(6) as usize] }
    });
    CutPlan::List(cuts.collect())
}

fn random_writes(seed: u64) -> Vec<Op> {
    Ops::new(seed, Mix::WRITES, 32).take(150).collect()
}

#[test]
fn random_cuts_one_after_another() {
    for seed in 0..250 {
        let options = BlockMapOptions { map_pages_per_recycling: seed as u32 % 3, ..options() };
        check::<BlockMap>(&chip(&tiny(), seed), &options, &random_writes(seed), random_cuts(seed));
    }
    for seed in 0..150 {
        let options = FastOptions { map_pages_per_recycling: seed as u32 % 3, ..fast_options() };
        check::<Fast>(&chip(&spec(512, 16, 8, 11), seed), &options, &random_writes(seed), random_cuts(seed));
    }
}

fn fast_options() -> FastOptions {
    FastOptions { capacity: LogicalCapacity::SpareBlocks(7), log_blocks: 2, ..FastOptions::default() }
}

#[test]
fn fast_exhaustive_to_depth_one() {
    let chip = chip(&spec(512, 16, 8, 11), 4);
    for options in [fast_options(), FastOptions { map_pages_per_recycling: 0, copyback: false, ..fast_options() }] {
        for ops in [swap(), migrate_and_merge(), contention(), trims()] {
            exhaustive::<Fast>(&chip, &options, &ops);
        }
    }
}
