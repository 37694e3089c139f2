//! The page-mapped layer across power cuts: a model with remap, share and trim says what may be
//! read after each cut.

use crate::common::page_causes::CauseFlash;
use crate::common::page_model::Script;
use crate::common::page_recovery::survives_cut_recoveries;
use crate::common::page_runs::{NONE, Shape, chip, shapes, survives, survives_on};
use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_nand_sim::FailureScript;
use nandkit_testkit::durability::cut;

#[test]
fn restarts_without_cuts_keep_everything() {
    for (seed, shape) in (0..).zip(&shapes()) {
        for round in 0..3 {
            let script = Script { seed: seed * 10 + round, commands: 1500, restart_every: 200, durable_every: 5 };
            survives(shape, &script, &CutPlan::None).unwrap_or_else(|what| panic!("{what} with {shape:?}, {script:?}"));
        }
    }
}

#[test]
fn every_single_cut_is_survived() {
    let shapes = shapes();
    let later = shapes[7..].iter().filter(|shape| shape.cached > 0 || shape.care != NONE || shape.idle.after_us > 0);
    for (seed, shape) in (0..).zip(shapes[..7].iter().chain(later)) {
        let script = Script { seed, commands: 30, restart_every: 0, durable_every: 5 };
        let steps = survives(shape, &script, &CutPlan::None).unwrap();
        let plans = (1..=steps)
            .flat_map(|step| CutMoment::ALL.into_iter().map(move |moment| CutPlan::List(vec![Cut { step, moment }])));
        let count = cut::search(plans, |plan| survives(shape, &script, plan).map(|_| ()));
        let count = count.unwrap_or_else(|failure| panic!("{failure} with {shape:?}, {script:?}"));
        println!("{shape:?}: {steps} steps, {count} cuts");
    }
}

/// All shapes with longer scripts: the soak's `--recovery`.
#[test]
fn every_cut_during_the_recovery_from_every_cut_is_survived() {
    let (mut firsts, mut seconds) = (0, 0);
    let shapes = shapes();
    for (seed, shape) in (70..).zip([&shapes[0], &shapes[2], &shapes[5]]) {
        let counts = survives_cut_recoveries(shape, &Script { seed, commands: 12, restart_every: 0, durable_every: 5 });
        let (first, second) = counts.unwrap_or_else(|what| panic!("{what}"));
        (firsts, seconds) = (firsts + first, seconds + second);
    }
    println!("{firsts} cuts, {seconds} cuts during recovery behind them");
    assert!(seconds > firsts, "{seconds} cuts during recovery behind {firsts}");
}

#[test]
fn sampled_cuts_of_depth_up_to_six_are_survived() {
    for (seed, shape) in (0..).zip(&shapes()) {
        let script = Script { seed: seed + 50, commands: 400, restart_every: 0, durable_every: 5 };
        let steps = survives(shape, &script, &CutPlan::None).unwrap();
        for (depth, count) in [(2, 25), (6, 60)] {
            let plans = cut::sampled(seed, steps, 25, depth, count);
            cut::search(plans, |plan| survives(shape, &script, plan).map(|_| ()))
                .unwrap_or_else(|failure| panic!("{failure} with {shape:?}, {script:?}"));
        }
    }
}

/// Copies of a finished cleaning before the start, and copies after it of a cleaning with the same
/// number out of the same superblock, are told apart. The copies of the first cleaning used to be
/// taken back to slots that had been erased.
#[test]
fn copies_of_a_cleaning_before_the_start_are_not_those_of_one_behind_it() {
    let plan = "list:1112@nothing-nothing,1116@prefix-half,1130@after,1143@prefix-half,1153@nothing-nothing,1176@after";
    let script = Script { seed: 67, commands: 400, restart_every: 0, durable_every: 0 };
    survives(&shapes()[17], &script, &plan.parse().unwrap()).unwrap();
}

/// A finished cleaning is the last thing on flash, and a cut comes while its victim is erased. The
/// copies used to be taken back to where older versions lay.
#[test]
fn copies_of_a_finished_cleaning_stay_when_the_erase_of_its_victim_is_cut() {
    let plan = "list:1150@garbage-weak,1171@before,1184@nothing-nothing,1192@prefix-half,1212@before,1220@whole-whole";
    let script = Script { seed: 55, commands: 400, restart_every: 0, durable_every: 0 };
    survives(&shapes()[5], &script, &plan.parse().unwrap()).unwrap();
}

/// In one run each, an erase fails, then the program after it, which writes the journal's lines
/// about the block, and the power is cut at one of the following steps. In the middle of a
/// cleaning, a snapshot then lies between its copies. The copies before the snapshot, which were
/// taken back, were aliases before they were copied and are not aliases in the snapshot.
#[test]
fn a_cut_behind_an_erase_that_failed_in_the_middle_of_a_cleaning_loses_no_alias() {
    let shape = Shape { failures: 0, bad: 0, buffer: 0, ..shapes()[22] };
    for seed in 25..33 {
        let script = Script { seed, commands: 220, restart_every: 0, durable_every: 0 };
        let mut flash = CauseFlash::new(chip(&shape));
        let mut formatted = 0;
        survives_on(&mut flash, &shape, &script, |flash| formatted = flash.erases.len()).unwrap();
        for (erase, step) in (1u64..).zip(flash.erases).skip(formatted) {
            for behind in (4..=28).step_by(4) {
                let mut chip = chip(&shape);
                let (erases, programs) = ([erase].into(), [step - erase + 1].into());
                chip.script_failures(FailureScript { erases, programs, ..FailureScript::default() });
                let mut flash = CauseFlash::new(chip);
                let plan = CutPlan::at(step + behind, CutMoment::Before);
                survives_on(&mut flash, &shape, &script, |flash| flash.inner.set_plan(plan.clone()))
                    .unwrap_or_else(|what| panic!("{what}: erase {erase} fails, cut {plan}, {script:?}"));
            }
        }
    }
}
