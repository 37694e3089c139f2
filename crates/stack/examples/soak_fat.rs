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

/// Each cause has at least one cut in so many: 1,000 of 35,000.
const CUTS_PER_CAUSE: usize = 35;

struct Arguments {
    cuts: usize,
    seed: u64,
    replay: Option<u64>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { cuts: 35_000, seed: 1, replay: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word}: expected a value after it"))?;
        let number =
            value.trim_start_matches("seed:").parse().map_err(|_| format!("{word} \"{value}\": expected a number"))?;
        match word.as_str() {
            "--cuts" => arguments.cuts = number as usize,
            "--seed" => arguments.seed = number,
            "--replay" => arguments.replay = Some(number),
            _ => return Err(format!("unknown option {word}: expected --cuts, --seed or --replay")),
        }
    }
    Ok(arguments)
}

/// The cuts of a seed; `Err` says how to repeat what went wrong, which the panic has described.
fn cut(seed: u64, before: usize) -> Result<Vec<Cut>, String> {
    std::panic::catch_unwind(|| Case::of(seed).cut_everywhere(before as u64))
        .map_err(|_| format!("replay with: --replay seed:{seed}"))
}

fn table(cuts: &[Cut]) {
    print!("{:<18}", "cause");
    CutMoment::ALL.iter().for_each(|moment| print!("{:>17}", moment.to_string()));
    println!("{:>10}", "all");
    for (name, is) in KINDS {
        print!("{name:<18}");
        let of_kind: Vec<&Cut> = cuts.iter().filter(|cut| is(cut)).collect();
        for moment in CutMoment::ALL {
            print!("{:>17}", of_kind.iter().filter(|cut| cut.moment == moment).count());
        }
        println!("{:>10}", of_kind.len());
    }
    for operation in [Operation::Program, Operation::Copy, Operation::Erase] {
        println!("{operation:?}: {}", cuts.iter().filter(|cut| cut.operation == operation).count());
    }
    println!("{} cuts; what was synced is there, and the repaired volume is clean", cuts.len());
}

fn soak() -> Result<(), String> {
    let arguments = arguments()?;
    if let Some(seed) = arguments.replay {
        println!("{:?}", Case::of(seed));
        table(&cut(seed, 0)?);
        return Ok(());
    }
    let (mut cuts, mut seed) = (Vec::new(), arguments.seed);
    while cuts.len() < arguments.cuts {
        cuts.extend(cut(seed, cuts.len())?);
        seed += 1;
    }
    println!("seeds {} to {}", arguments.seed, seed - 1);
    table(&cuts);
    let bar = cuts.len() / CUTS_PER_CAUSE;
    let of = |is: fn(&Cut) -> bool| cuts.iter().filter(|cut| is(cut)).count();
    let few = KINDS.iter().filter(|(_, is)| of(*is) < bar);
    let few: Vec<String> = few.map(|(name, is)| format!("{name}: {} cuts, expected at least {bar}", of(*is))).collect();
    if few.is_empty() { Ok(()) } else { Err(few.join("\n")) }
}

fn main() -> ExitCode {
    match soak() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}
