//! Power cuts by the thousand in FAT on the block-mapped translation layer.
//!
//! `cargo run --release -p nandkit-stack --example soak_fat -- [--cuts N] [--seed S] [--replay seed:S]`
//!
//! A seed is a workload, a cache, a sector size and barriers or none; it is cut at each of its
//! programs, copies and erases, and the repair after every other cut once more. Ends with a table
//! of cuts by cause and torn state. At the first failure it says what `--replay` takes, and exits
//! with 1; also where a cause got fewer than one cut in 35: then the soak no longer reaches what it
//! is for.

#[path = "../tests/fat_cuts/mod.rs"]
mod fat_cuts;

use std::process::ExitCode;

use fat_cuts::{Case, Cut, KINDS};
use nandkit_flash::Operation;
use nandkit_flash::wrap::CutMoment;
use nandkit_testkit::soak::{self, Table};

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

fn main() -> ExitCode {
    let cut = |seed, before| Case::of(seed).cut_everywhere(before as u64);
    soak::close(soak::run_lists(|seed| format!("{:?}", Case::of(seed)), cut, show))
}
