//! Power cuts by the thousand in FAT on the block-mapped translation layer.
//!
//! `cargo run --release -p nandkit-stack --example soak_fat -- [--cuts N] [--seed S] [--replay seed:S]`
//!
//! A seed is a workload, a cache, a sector size and barriers or none; it is cut at each of its programs, copies and erases, and the repair after every other cut once more. Ends with a table of
//! cuts by cause and torn state. At the first failure it says what `--replay` takes, and exits with 1; also where a cause got fewer than one cut in 35: then the soak no longer reaches what it is for.

#[path = "../tests/fat_cuts/mod.rs"]
mod fat_cuts;

use std::process::ExitCode;

use fat_cuts::{Case, Cut, KINDS};
use nandkit_flash::Operation;
use nandkit_flash::wrap::CutMoment;
use nandkit_testkit::soak::{self, Arguments, Table};

/// The cuts of a seed; `Err` says how to repeat what went wrong, which the panic has described.
fn cut(seed: u64, before: usize) -> Result<Vec<Cut>, String> {
    std::panic::catch_unwind(|| Case::of(seed).cut_everywhere(before as u64))
        .map_err(|_| format!("replay with: --replay seed:{seed}"))
}

fn show(cuts: &[Cut]) -> Table {
    let mut table = Table::new(&KINDS.map(|(name, _)| name), CutMoment::ALL);
    for cut in cuts {
        let column = CutMoment::ALL.iter().position(|moment| *moment == cut.moment).unwrap_or(usize::MAX);
        for (row, _) in KINDS.iter().enumerate().filter(|(_, (_, is))| is(cut)) {
            table.count(row, column, 1);
        }
    }
    print!("{table}");
    for operation in [Operation::Program, Operation::Copy, Operation::Erase] {
        println!("{operation:?}: {}", cuts.iter().filter(|cut| cut.operation == operation).count());
    }
    println!("{} cuts; what was synced is there, and the repaired volume is clean", cuts.len());
    table
}

fn run_all() -> Result<(), String> {
    let arguments = Arguments::of_process(&[])?;
    if let Some(seed) = arguments.replayed_seed()? {
        println!("{:?}", Case::of(seed));
        show(&cut(seed, 0)?);
        return Ok(());
    }
    let (mut cuts, mut seed) = (Vec::new(), arguments.seed);
    while (cuts.len() as u64) < arguments.cuts {
        cuts.extend(cut(seed, cuts.len())?);
        seed += 1;
    }
    println!("seeds {} to {}", arguments.seed, seed - 1);
    show(&cuts).reaches_all()
}

fn main() -> ExitCode {
    soak::close(run_all())
}
