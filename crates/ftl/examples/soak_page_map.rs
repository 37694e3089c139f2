//! A long run of the page-mapped layer beside its model, with power cuts: `cargo run --release -p nandkit-ftl --example soak_page_map -- [OPERATIONS] [SEED]`.
//!
//! Operations are writes, trims, flushes, remaps and reads of several sectors, 1,000,000 by default, on twenty shapes of chips in turn; the power goes every 40 to 600 programs and erases, in every torn state, also while the device is still
//! recovering from the cut before. After each start all sectors are read, and the whole state is checked. A failure names shape, script and plan.

#[path = "../tests/common/page_model.rs"]
mod page_model;
#[path = "../tests/common/page_runs.rs"]
mod page_runs;

use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_units::random::Random;
use page_model::Script;
use page_runs::{shapes, survives};

/// Operations of one run: a device that is new again now and then finds more than one that is old.
const COMMANDS: u64 = 2500;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let (operations, seed) = (arguments.next().unwrap_or(1_000_000), arguments.next().unwrap_or(1));
    let shapes = shapes();
    let (mut done, mut round, mut cuts) = (0, 0, 0);
    while done < operations {
        let shape = &shapes[(round % shapes.len() as u64) as usize];
        let script = Script { seed: seed.wrapping_mul(1 << 32) + round, commands: COMMANDS, restart_every: 0 };
        let plan = plan(script.seed);
        match survives(shape, &script, &plan) {
            Ok(steps) => cuts += made(&plan, steps),
            Err(what) => {
                eprintln!("{what}\n  with {shape:?}, {script:?}, plan '{plan}'");
                std::process::exit(1);
            }
        }
        done += COMMANDS;
        round += 1;
        if round.is_multiple_of(40) {
            println!("{done} operations, {cuts} cuts");
        }
    }
    println!("{done} operations in {round} runs with {cuts} cuts: nothing lost, every state whole (seed {seed})");
}

/// Cuts at random distances: one in four soon after the one before.
fn plan(seed: u64) -> CutPlan {
    let mut random = Random::new(seed, "soak cuts");
    let mut step = 0;
    let cuts = (0..36).map(|_| {
        step += if random.below(4) == 0 { random.between(1, 30) } else { random.between(40, 600) };
        Cut { step, moment: CutMoment::ALL[random.below(CutMoment::ALL.len() as u64) as usize] }
    });
    CutPlan::List(cuts.collect())
}

fn made(plan: &CutPlan, steps: u64) -> usize {
    match plan {
        CutPlan::List(cuts) => cuts.iter().filter(|cut| cut.step <= steps).count(),
        _ => 0,
    }
}
