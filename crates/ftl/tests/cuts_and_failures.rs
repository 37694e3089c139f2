//! A power cut while the layer handles a failed program or erase: every pair of both on small
//! workloads, sampled pairs on longer ones.
//!
//! The chip makes the operations fail: the page is garbage, and everything on its block fails from
//! then on, also after the cut.

use crate::common::cuts::run;
use crate::common::model::{Mix, Op, Ops};
use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_cleaning::recycling::RecyclingPolicy;
use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::{ContentChip, FailureScript};
use nandkit_units::random::Random;

fn block_map() -> BlockMapOptions {
    let capacity = LogicalCapacity::Bytes(4 * 4 * 512);
    BlockMapOptions { capacity, log_blocks: 2, policy: RecyclingPolicy::CostBased, ..BlockMapOptions::default() }
}

fn fast() -> FastOptions {
    FastOptions { capacity: LogicalCapacity::Bytes(4 * 4 * 512), log_blocks: 2, ..FastOptions::default() }
}

fn w(at: u64, sectors: u64) -> Op {
    Op::Write { at, sectors }
}

/// Fills in order, rewrites page by page, uses more blocks than logs, and trims: every kind of
/// recycling on four blocks of four pages.
fn short() -> Vec<Op> {
    let mut ops = vec![w(0, 4), w(0, 4), w(1, 1), w(1, 2), w(4, 3), w(0, 1), Op::Trim { at: 5, sectors: 1 }];
    ops.extend([w(8, 2), w(13, 1), w(2, 1), w(6, 1), w(9, 1), w(12, 4), w(0, 2), w(3, 1)]);
    ops
}

/// A chip on which these programs (copies count) and erases fail.
fn failing(chip: &ContentChip, programs: &[u64], erases: &[u64]) -> ContentChip {
    let mut chip = chip.clone();
    let (programs, erases) = (programs.iter().copied().collect(), erases.iter().copied().collect());
    chip.script_failures(FailureScript { programs, erases, ..FailureScript::default() });
    chip
}

/// The number of runs, and how many of them ended with a block marked bad.
#[derive(Default)]
struct Tried {
    runs: u64,
    with_bad_blocks: u64,
}

fn check<L: Layer>(chip: ContentChip, options: &L::Options, ops: &[Op], plan: &CutPlan, what: &str, tried: &mut Tried) {
    let run = run::<L>(chip, options, ops, plan.clone()).unwrap_or_else(|error| panic!("{what}, cut {plan}: {error}"));
    tried.runs += 1;
    tried.with_bad_blocks += u64::from(run.bad_blocks > 0);
}

/// Makes every program, copy and erase fail, and for each cuts the power at every step, in every
/// state.
fn every_pair<L: Layer>(chip: &ContentChip, options: &L::Options, ops: &[Op]) -> Tried {
    let whole = run::<L>(chip.clone(), options, ops, CutPlan::None).unwrap();
    let programs = (1..=whole.programs).map(|number| (vec![number], vec![]));
    let erases = (1..=whole.erases).map(|number| (vec![], vec![number]));
    let mut tried = Tried::default();
    for (programs, erases) in programs.chain(erases) {
        let chip = failing(chip, &programs, &erases);
        let what = format!("programs {programs:?} and erases {erases:?} fail");
        let steps = run::<L>(chip.clone(), options, ops, CutPlan::None).unwrap_or_else(|e| panic!("{what}: {e}")).steps;
        for step in 1..=steps {
            for moment in CutMoment::ALL {
                check::<L>(chip.clone(), options, ops, &CutPlan::at(step, moment), &what, &mut tried);
            }
        }
    }
    tried
}

#[test]
fn block_map_every_failure_with_every_cut() {
    let tried = every_pair::<BlockMap>(&chip(&spec(512, 16, 4, 13), 1), &block_map(), &short());
    assert!(
        tried.runs > 5_000 && tried.with_bad_blocks > tried.runs / 2,
        "{} of {}",
        tried.with_bad_blocks,
        tried.runs
    );
}

#[test]
fn fast_every_failure_with_every_cut() {
    let tried = every_pair::<Fast>(&chip(&spec(512, 16, 4, 14), 1), &fast(), &short());
    assert!(
        tried.runs > 5_000 && tried.with_bad_blocks > tried.runs / 2,
        "{} of {}",
        tried.with_bad_blocks,
        tried.runs
    );
}

/// Two failures and three cuts, each within a few steps of the previous one, with longer blocks and
/// longer workloads.
fn sampled<L: Layer>(blocks: u32, options: &L::Options, seeds: u64) -> Tried {
    let mut tried = Tried::default();
    for seed in 0..seeds {
        let mut random = Random::new(seed, "cuts and failures");
        let chip = chip(&spec(512, 16, 8, blocks), seed);
        let ops: Vec<Op> = Ops::new(seed, Mix::WRITES, 32).take(100).collect();
        let whole = run::<L>(chip.clone(), options, &ops, CutPlan::None).unwrap();
        let first = random.between(1, whole.programs);
        let programs = [first, first + random.between(1, 6)];
        let erases = if random.chance(0.5) { vec![random.between(1, whole.erases)] } else { vec![] };
        // Steps are programs and erases, so the failed program is about here.
        let mut step = first * whole.steps / whole.programs.max(1);
        let cuts = (0..3).map(|_| {
            step += random.between(1, 8);
            Cut { step, moment: CutMoment::ALL[random.below(6) as usize] }
        });
        let plan = CutPlan::List(cuts.collect());
        let what = format!("seed {seed}: programs {programs:?} and erases {erases:?} fail");
        check::<L>(failing(&chip, &programs, &erases), options, &ops, &plan, &what, &mut tried);
    }
    tried
}

#[test]
fn sampled_failures_with_cuts_one_after_another() {
    let capacity = LogicalCapacity::Bytes(4 * 8 * 512);
    let tried = sampled::<BlockMap>(16, &BlockMapOptions { capacity, partial_merge: true, ..block_map() }, 200);
    assert!(tried.with_bad_blocks > 150, "{}", tried.with_bad_blocks);
    let tried = sampled::<Fast>(17, &FastOptions { capacity, ..fast() }, 200);
    assert!(tried.with_bad_blocks > 150, "{}", tried.with_bad_blocks);
}
