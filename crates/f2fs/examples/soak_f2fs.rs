//! Thousands of power cuts in F2FS.
//!
//! `cargo run --release -p nandkit-f2fs --example soak_f2fs -- [--cuts N] [--seed S] [--replay seed:S] [--recovery SEEDS] [--reuse all|MODE] [--jobs N]`
//!
//! A seed is a shape of volume (logs, modes, what inodes hold, how full it is) and random
//! operations on files or names in it. Each request to the device is cut, before, inside or after,
//! and keeps none, all, the first ones, or any subset of the writes since the last flush; so is
//! each request of the recoveries behind every sixth cut. Each volume is recovered, held against
//! what was known, checked, and mounted again; fsck.f2fs sees every 64th. `--recovery 14` takes
//! short runs of 14 seeds instead: every cut of each in every way, and every cut of the recovery
//! behind it. `--reuse all` takes full volumes only, with a way of treating segments before their
//! gaps are filled on each in turn, `--reuse pgc` that way alone. `--jobs N` works on N seeds at a
//! time; the result is the same. Ends with a table of cuts by cause. At the first failure it says
//! what `--replay` takes, and exits with 1; also where a cause got fewer than one cut in 35: then
//! the soak no longer reaches what it is for.

#[path = "../tests/made/mod.rs"]
mod made;
#[path = "../tests/reusing/mod.rs"]
mod reusing;
#[path = "../tests/soaking/mod.rs"]
mod soaking;
#[path = "../tests/writing/mod.rs"]
mod writing;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use nandkit_testkit::soak::{self, Arguments, Table};
use reusing::{MODES, Mode};
use soaking::{CAUSES, Course, MOMENTS, ModeTally, SURVIVALS, Tally};

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
    for (mode, ModeTally { cuts, treated, in_treatments }) in &tally.by_mode {
        println!("{mode:<14}{cuts:>8} cuts{treated:>8} segments treated{in_treatments:>8} cuts within treatments");
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

/// A mode that treats fewer segments than one in this many cuts is hardly tested.
const CUTS_FOR_A_TREATMENT: u64 = 500;

/// At least one cut of a mode in this many must lie within a treatment or its checkpoint: the share
/// that is asked for each cause.
const CUTS_FOR_ONE_WITHIN: u64 = 35;

fn reaches_all(tally: &Tally, course: Course) -> Result<(), String> {
    for mode in course.modes.iter().filter(|mode| mode.treats_without_time()) {
        let of_mode = tally.by_mode.get(mode.name).copied().unwrap_or_default();
        if of_mode.treated == 0 || of_mode.treated * CUTS_FOR_A_TREATMENT < of_mode.cuts {
            return Err(format!("{}: fewer than one segment was treated in {CUTS_FOR_A_TREATMENT} cuts", mode.name));
        }
        if of_mode.in_treatments * CUTS_FOR_ONE_WITHIN < of_mode.cuts {
            return Err(format!("{}: fewer than one cut in {CUTS_FOR_ONE_WITHIN} lies in a treatment", mode.name));
        }
    }
    Ok(())
}

fn one(seed: u64, course: Course, tally: &mut Tally) -> Result<(), String> {
    soak::attempt(seed, || soaking::soak(seed, course, tally))
}

/// Which seeds are done.
struct Progress {
    next: u64,
    running: u64,
    done: BTreeMap<u64, Tally>,
}

impl Progress {
    /// The next seed, unless those that are done and those that run have as many cuts as are
    /// wanted.
    fn take(&mut self, cuts: u64) -> Option<u64> {
        let made: u64 = self.done.values().map(|tally| tally.cuts.len() as u64).sum();
        let each = made / (self.done.len() as u64).max(1);
        if made + each * self.running >= cuts {
            return None;
        }
        self.running += 1;
        self.next += 1;
        Some(self.next - 1)
    }
}

/// Takes seeds in turn. Each has counts of its own, so that the result does not depend on the
/// number of threads.
fn work(progress: &Mutex<Progress>, cuts: u64, course: Course) -> Result<(), String> {
    let now = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(seed) = now().take(cuts) else { return Ok(()) };
        let mut tally = Tally::default();
        let done = one(seed, course, &mut tally);
        let mut progress = now();
        progress.running -= 1;
        progress.done.insert(seed, tally);
        done?;
    }
}

fn run() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--recovery", "--reuse", "--jobs"])?;
    let modes = modes(&arguments)?;
    let (course, exhaustive) = (Course::USUAL.with_modes(modes), Course::EXHAUSTIVE.with_modes(modes));
    let (mut tally, mut last) = (Tally::default(), arguments.seed);
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
    let first = arguments.seed;
    let progress = Mutex::new(Progress { next: first, running: 0, done: BTreeMap::new() });
    std::thread::scope(|scope| {
        let jobs = arguments.number("--jobs")?.unwrap_or(1).max(1);
        let work = || work(&progress, arguments.cuts, course);
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread has ended".to_owned())?)
    })?;
    let done = progress.into_inner().unwrap_or_else(PoisonError::into_inner).done;
    for (seed, of_seed) in done {
        if tally.cuts.len() as u64 >= arguments.cuts {
            break;
        }
        tally.add(of_seed);
        last = seed;
    }
    println!("seeds {first} to {last}");
    show(&tally).reaches_all()?;
    reaches_all(&tally, course)
}

fn main() -> ExitCode {
    soak::close(run())
}
