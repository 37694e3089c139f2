//! Thousands of power cuts in F2FS.
//!
//! `cargo run --release -p nandkit-f2fs --example soak_f2fs -- [--cuts N] [--seed S] [--replay seed:S] [--recovery SEEDS] [--reuse all|MODE]`
//!
//! A seed determines a shape of volume (logs, modes, inline content, how full it is) and random
//! operations on its files or names. Each request to the device is cut before, during or after it,
//! keeping none, all, the first, or any subset of the writes since the last flush; so is each
//! request of the recoveries after every sixth cut. Each volume is recovered, compared with what is
//! known, checked, and mounted again; fsck.f2fs sees every 64th.
//!
//! `--recovery 14` takes short runs of 14 seeds instead: every cut of each in every way, and every
//! cut of the recovery after it. `--reuse all` takes only full volumes, and on each in turn one
//! mode of treating segments before their gaps are filled; `--reuse pgc` takes that mode alone.
//!
//! It ends with a table of cuts by cause. At the first failure it prints the argument for
//! `--replay` and exits with 1. It also exits with 1 if a cause got fewer than one cut in 35: then
//! the soak no longer covers what it is for.

#[path = "../tests/made/mod.rs"]
mod made;
#[path = "../tests/reusing/mod.rs"]
mod reusing;
#[path = "../tests/soaking/mod.rs"]
mod soaking;
#[path = "../tests/writing/mod.rs"]
mod writing;

use std::process::ExitCode;

use nandkit_testkit::soak::{self, Arguments, Table};
use reusing::{MODES, Mode};
use soaking::{CAUSES, Course, MOMENTS, SURVIVALS, Tally};

/// Two tables: cuts by moment, and by what survived.
fn show(tally: &Tally) -> Table {
    let mut moments = Table::new(&CAUSES, MOMENTS.map(|moment| format!("{moment:?}").to_lowercase()));
    let mut survivals = Table::new(&CAUSES, SURVIVALS.map(|kept| format!("kept {kept:?}").to_lowercase()));
    for &(cause, moment, survival) in &tally.cuts {
        moments.count(cause, MOMENTS.iter().position(|known| *known == moment).unwrap_or(usize::MAX), 1);
        survivals.count(cause, SURVIVALS.iter().position(|known| *known == survival).unwrap_or(usize::MAX), 1);
    }
    print!("{moments}\n{survivals}");
    println!(
        "{} cuts, {} with something to recover, {} volumes shown to fsck.f2fs; what was made durable is there, what was renamed is old or new, every volume whole",
        tally.cuts.len(),
        tally.recovered,
        tally.seen_by_fsck
    );
    for (mode, (cuts, treated)) in &tally.by_mode {
        println!("{mode:<14}{cuts:>8} cuts{treated:>8} segments treated");
    }
    moments
}

/// The requested modes.
fn modes(arguments: &Arguments) -> Result<&'static [Mode], String> {
    let Some(name) = arguments.text("--reuse") else { return Ok(&[]) };
    let found = MODES.iter().position(|mode| mode.name == name).map(|at| &MODES[at..=at]);
    let names = || MODES.map(|mode| mode.name).join(", ");
    found.or((name == "all").then_some(&MODES)).ok_or_else(|| format!("--reuse {name}: expected all, {}", names()))
}

/// A mode that treats fewer than one segment per this many cuts is hardly tested: a treatment and
/// its checkpoint have about 30 requests, each of which is cut.
const CUTS_FOR_A_TREATMENT: u64 = 500;

fn reaches_all(tally: &Tally, course: Course) -> Result<(), String> {
    let enough = |(cuts, treated): &(u64, u64)| *treated > 0 && treated * CUTS_FOR_A_TREATMENT >= *cuts;
    let treats = |name: &str| tally.by_mode.get(name).is_some_and(enough);
    match course.modes.iter().find(|mode| mode.treats_without_time() && !treats(mode.name)) {
        Some(mode) => Err(format!("{}: fewer than one segment was treated in {CUTS_FOR_A_TREATMENT} cuts", mode.name)),
        None => Ok(()),
    }
}

fn one(seed: u64, course: Course, tally: &mut Tally) -> Result<(), String> {
    soak::attempt(seed, || soaking::soak(seed, course, tally))
}

fn run() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--recovery", "--reuse"])?;
    let modes = modes(&arguments)?;
    let (course, exhaustive) = (Course { modes, ..Course::USUAL }, Course { modes, ..Course::EXHAUSTIVE });
    let mut tally = Tally::default();
    if let Some(seeds) = arguments.number("--recovery")? {
        (arguments.seed..arguments.seed + seeds).try_for_each(|seed| one(seed, exhaustive, &mut tally))?;
        show(&tally);
        return Ok(());
    }
    if let Some(seed) = arguments.replayed_seed()? {
        println!("{:?}", soaking::shapes::shape_in(seed, modes));
        one(seed, course, &mut tally)?;
        show(&tally);
        return Ok(());
    }
    let mut seed = arguments.seed;
    while (tally.cuts.len() as u64) < arguments.cuts {
        one(seed, course, &mut tally)?;
        seed += 1;
    }
    println!("seeds {} to {}", arguments.seed, seed - 1);
    show(&tally).reaches_all()?;
    reaches_all(&tally, course)
}

fn main() -> ExitCode {
    soak::close(run())
}
