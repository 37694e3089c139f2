//! Thousands of power cuts under the page-mapped layer.
//!
//! `cargo run --release -p nandkit-ftl --example soak_page_map -- [--cuts N] [--seed S] [--replay STRING] [--recovery COMMANDS]`
//!
//! Each seed is a script of writes, trims, flushes, remaps and reads on one of the chip shapes in
//! `page_runs.rs`, in turn. On some of them programs and erases fail, and blocks are bad from the
//! factory. Steps are cut at random, up to thirty in a run, rare causes more often, and also the
//! first step after a start. After each cut every sector is compared with the model, and the whole
//! state is checked. Ends with a table of cuts by cause and torn state.
//!
//! `--recovery 20` makes other cuts: scripts of 20 commands on every shape, with a cut at every
//! step, and after each of them one at every step of the recovery; before the step, in each torn
//! state, and after it.
//!
//! At the first failure it prints a string for `--replay` and exits with 1. It also exits with 1 if
//! a cause got fewer than one cut in 35, as the soak then no longer covers it.

#[path = "../tests/common/page_causes.rs"]
mod page_causes;
#[path = "../tests/common/page_model.rs"]
mod page_model;
#[path = "../tests/common/page_recovery.rs"]
mod page_recovery;
#[path = "../tests/common/page_runs.rs"]
mod page_runs;

use std::process::ExitCode;

use nandkit_flash::Operation;
use nandkit_flash::wrap::{CutMoment, CutPlan};
use nandkit_testkit::soak::{self, Arguments, Table};
use page_causes::{CauseFlash, Why};
use page_model::Script;
use page_runs::{Shape, failing_chip, shapes, survives_on};

/// Most cuts of one run.
const CUTS_MAX: usize = 30;
const COMMANDS: u64 = 1000;

type Cuts = Vec<(Operation, Why, CutMoment)>;

/// Does the run of a seed, cut at random or by plan, with steps counted from the first one of the
/// chip. `Err` has what was wrong, and the cuts as a plan.
fn run(seed: u64, shapes: &[Shape], plan: Option<CutPlan>) -> Result<Cuts, (String, String)> {
    let shape = &shapes[(seed % shapes.len() as u64) as usize];
    let script = Script { seed, commands: COMMANDS, restart_every: 0, durable_every: 5 };
    let mut flash = CauseFlash::new(failing_chip(shape, seed));
    let survived = survives_on(&mut flash, shape, &script, |flash| match plan {
        Some(plan) => flash.inner.set_plan(plan),
        None => flash.draw(seed, CUTS_MAX),
    });
    match survived {
        Ok(()) => Ok(flash.cuts),
        Err(what) => Err((format!("{what}\n  with {shape:?}"), CutPlan::replaying(flash.inner.outcomes()).to_string())),
    }
}

fn soak(arguments: &Arguments) -> Result<Cuts, String> {
    let shapes = shapes();
    if let Some(replay) = &arguments.replay {
        let (seed, plan) = replay.split_once('/').ok_or("--replay: expected seed:NUMBER/PLAN")?;
        let seed =
            seed.trim_start_matches("seed:").parse().map_err(|_| format!("\"{replay}\": expected seed:NUMBER/PLAN"))?;
        let plan = plan.parse().map_err(|error| format!("{error}"))?;
        return run(seed, &shapes, Some(plan)).map_err(|(what, _)| what);
    }
    let (mut cuts, mut seed) = (Cuts::new(), arguments.seed);
    while (cuts.len() as u64) < arguments.cuts {
        let made = run(seed, &shapes, None);
        cuts.extend(made.map_err(|(what, plan)| format!("{what}\nreplay with: --replay seed:{seed}/{plan}"))?);
        seed += 1;
    }
    println!("seeds {} to {}", arguments.seed, seed - 1);
    Ok(cuts)
}

/// Makes every cut, and every cut in the recovery after it, on every shape.
fn every_recovery(seed: u64, commands: u64) -> Result<(), String> {
    let (mut firsts, mut seconds) = (0, 0);
    for (seed, shape) in (seed..).zip(&shapes()) {
        let counts = page_recovery::survives_cut_recoveries(
            shape,
            &Script { seed, commands, restart_every: 0, durable_every: 5 },
        )?;
        (firsts, seconds) = (firsts + counts.0, seconds + counts.1);
    }
    println!("{firsts} cuts and {seconds} during recovery behind them, nothing torn, lost or older than it may be");
    Ok(())
}

fn show(cuts: &Cuts) -> Table {
    let mut table = Table::new(&Why::ALL.map(|why| why.name()), CutMoment::ALL);
    for (_, why, moment) in cuts {
        let row = Why::ALL.iter().position(|known| known == why).unwrap_or(usize::MAX);
        table.count(row, CutMoment::ALL.iter().position(|known| known == moment).unwrap_or(usize::MAX), 1);
    }
    print!("{table}");
    for operation in [Operation::Program, Operation::Erase] {
        println!("{:?}: {}", operation, cuts.iter().filter(|cut| cut.0 == operation).count());
    }
    println!("{} cuts, no sector torn, lost or older than it may be, no remap in part, every state whole", cuts.len());
    table
}

fn run_all() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--recovery"])?;
    if let Some(commands) = arguments.number("--recovery")? {
        return every_recovery(arguments.seed, commands);
    }
    let table = show(&soak(&arguments)?);
    // One replayed run is too short to reach every cause.
    if arguments.replay.is_some() { Ok(()) } else { table.reaches_all() }
}

fn main() -> ExitCode {
    soak::close(run_all())
}
