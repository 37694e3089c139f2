//! Thousands of power cuts in UBIFS.
//!
//! `cargo run --release -p nandkit-ubifs --example soak_ubifs -- [--cuts N] [--seed S]
//! [--replay seed:S]`
//!
//! Runs random operations, with files that are removed while they are open, on volumes of 44 LEBs
//! that take nothing which UBI on NAND would not. A run is cut at some of the steps of each kind
//! (a write of files, of the log, of a master node ...), whole and torn. The volume behind a cut is
//! mounted for reading and for writing and compared with the model and with itself, and checked;
//! its recovery is cut at each step behind one cut in 16 where pages are small, at some elsewhere.
//! Ends with a table of cuts by kind. These volumes hold too little for the collector to work.
//!
//! At the first failure it prints what `--replay` takes and exits with 1. It also exits with 1 if a
//! kind got fewer than one cut in 35.

#[path = "../tests/built.rs"]
mod built;
#[path = "../tests/cut_runs.rs"]
mod cut_runs;
#[path = "../tests/strict_lebs.rs"]
mod strict_lebs;

use std::process::ExitCode;

use nandkit_codec::compression::Compression;
use nandkit_testkit::durability::{History, State};
use nandkit_testkit::soak::{self, Table};
use nandkit_ubifs::BuildOptions;
use nandkit_ubifs::layout::{HEADER_SIZE, Superblock};
use nandkit_units::Cause;
use nandkit_units::random::Random;
use zerocopy::FromBytes;

use cut_runs::{judged, mount, run};
use strict_lebs::{Cut, StrictLebs};

/// What a step writes.
const KINDS: [&str; 7] = ["files", "names, inodes, index", "log", "properties", "orphans", "master", "recovery"];
const RECOVERY: usize = 6;
/// Cuts of each kind in a run.
const CUTS_OF_KIND: usize = 5;

/// A kind, and whether the step was torn.
type Made = (usize, bool);

/// The volume on which a seed runs.
fn drawn(seed: u64) -> BuildOptions {
    let mut random = Random::new(seed, "soak");
    let shapes = [(2048, 126_976, 8), (512, 15_360, 4), (8, 65_408, 8), (4096, 253_952, 16), (16_384, 229_376, 8)];
    let (min_io_size, leb_size, fanout) = shapes[random.index(shapes.len())];
    let compressions = [Compression::None, Compression::Lzo, Compression::Zlib, Compression::Zstd];
    BuildOptions {
        min_io_size,
        leb_size,
        fanout,
        compression: compressions[random.index(4)],
        leb_count_max: 44,
        journal_size: Some((4 + random.index(5) as u64) * u64::from(leb_size)),
        ..BuildOptions::default()
    }
}

/// The kind of a step by what it is for and the area that it writes to.
fn kind(superblock: &Superblock, cause: Cause, leb: u32) -> usize {
    let log_end = 3 + superblock.log_lebs.get();
    let lpt_end = log_end + superblock.lpt_lebs.get();
    match leb {
        1 | 2 => 5,
        leb if (3..log_end).contains(&leb) => 2,
        leb if (log_end..lpt_end).contains(&leb) => 3,
        leb if (lpt_end..lpt_end + superblock.orphan_lebs.get()).contains(&leb) => 4,
        _ if cause == Cause::UserData => 0,
        _ => 1,
    }
}

/// The steps of a run at which it is cut: some of each kind.
fn chosen(empty: &StrictLebs, seed: u64) -> Vec<(u64, usize)> {
    let image = empty.image();
    let (superblock, _) = Superblock::read_from_prefix(&image.bytes[HEADER_SIZE..]).expect("a superblock");
    let (left, _) = run(empty.copy(Cut::default()), History::new(State::empty()), seed);
    let steps = left.steps.lock().unwrap().clone();
    let mut random = Random::new(seed, "where to cut");
    let mut chosen = Vec::new();
    for wanted in 0..RECOVERY {
        let of_kind = (0..).zip(&steps).filter(|(_, (cause, leb))| kind(&superblock, *cause, *leb) == wanted);
        let mut places: Vec<u64> = of_kind.map(|(at, _)| at).collect();
        for _ in 0..CUTS_OF_KIND.min(places.len()) {
            chosen.push((places.swap_remove(random.index(places.len())), wanted));
        }
    }
    chosen
}

fn cut(seed: u64) -> Vec<Made> {
    let options = drawn(seed);
    let empty = StrictLebs::formatted(&options);
    let mut cuts = Vec::new();
    for (number, (at, kind)) in chosen(&empty, seed).into_iter().enumerate() {
        let is_torn = at % 2 == 0;
        let cut = Cut { left: Some(at), units: (at % 3) as u32, is_torn };
        let (left, history) = run(empty.copy(cut), History::new(State::empty()), seed);
        let history = history.expect("a run that comes to this step");
        judged(&left, &history, &format!("seed {seed}, step {at}"));
        cuts.push((kind, is_torn));
        let is_each = options.min_io_size == 512 && number % 16 == 0;
        let (first, every) = if is_each { (0, 1) } else { (at % 37, 37) };
        for step in (first..).step_by(every) {
            let again = left.copy(Cut { left: Some(step), units: (step % 2) as u32, is_torn: !is_torn });
            let again_left = again.clone();
            if mount(again).is_ok() {
                break;
            }
            judged(&again_left, &history, &format!("seed {seed}, step {at}, again at step {step}"));
            cuts.push((RECOVERY, !is_torn));
        }
    }
    cuts
}

fn show(cuts: &[Made]) -> Table {
    let mut table = Table::new(&KINDS, ["whole", "torn"]);
    cuts.iter().for_each(|(kind, is_torn)| table.count(*kind, usize::from(*is_torn), 1));
    print!("{table}");
    println!("{} cuts; what was synced is there, and each volume is sound", cuts.len());
    table
}

fn main() -> ExitCode {
    soak::close(soak::run_lists(|seed| format!("{:?}", drawn(seed)), |seed, _| cut(seed), show))
}
