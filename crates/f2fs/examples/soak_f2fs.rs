//! Power cuts by the thousand in F2FS.
//!
//! `cargo run --release -p nandkit-f2fs --example soak_f2fs -- [--cuts N] [--seed S] [--replay seed:S] [--recovery SEEDS] [--reuse all|MODE]`
//!
//! A seed is a shape of volume (logs, modes, what inodes hold, how full it is) and random
//! operations on files or names in it. Each request to the device is cut, before, inside or after,
//! and keeps none, all, the first ones, or any subset of the writes since the last flush; so is
//! each request of the recoveries behind every sixth cut. Each volume is recovered, held against
//! what was known, checked, and mounted again; fsck.f2fs sees every 64th. `--recovery 14` takes
//! short runs of 14 seeds instead: every cut of each in every way, and every cut of the recovery
//! behind it. `--reuse all` takes full volumes only, with a way of treating segments before their
//! gaps are filled on each in turn, `--reuse pgc` that way alone. Ends with a table of cuts by
//! cause. At the first failure it says what `--replay` takes, and exits with 1; also where a cause
//! got fewer than one cut in 35: then the soak no longer reaches what it is for.

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

/// Two tables: by when the power went, and by what was kept.
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

/// The modes that are asked for.
fn modes(arguments: &Arguments) -> Result<&'static [Mode], String> {
    let Some(name) = arguments.text("--reuse") else { return Ok(&[]) };
    let found = MODES.iter().position(|mode| mode.name == name).map(|at| &MODES[at..=at]);
    let names = || MODES.map(|mode| mode.name).join(", ");
    found.or((name == "all").then_some(&MODES)).ok_or_else(|| format!("--reuse {name}: expected all, {}", names()))
}

/// A mode that treats a segment less than once in so many cuts is hardly tested: a treatment and
/// its checkpoint have some 30 requests, each of which is cut.
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
