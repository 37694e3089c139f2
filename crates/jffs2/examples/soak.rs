//! Thousands of power cuts in JFFS2.
//!
//! `cargo run --release -p nandkit-jffs2 --example soak -- [--cuts N] [--seed S] [--replay seed:S]`
//!
//! Runs random operations on small NAND and NOR, under Linux's victims and others, in one log and
//! in several, with and without summaries, background collector and failing programs. A run is cut
//! at some of its programs and erases: before, in every torn form, and after. The state after every
//! third cut, and after every cut of an erase, is written to and cut again. After each cut the
//! volume is mounted and compared with the model. Ends with a table of cuts by cause and torn
//! state.
//!
//! At the first failure it prints what `--replay` takes and exits with 1. It also exits with 1 if a
//! cause got fewer than one cut in 35, as the soak then no longer covers it.

#[path = "../tests/promise.rs"]
mod promise;

use std::process::ExitCode;

use nandkit_cleaning::separation::Separation;
use nandkit_codec::compression::Compression;
use nandkit_flash::Operation;
use nandkit_flash::wrap::CutMoment;
use nandkit_jffs2::MountOptions;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_testkit::durability::flash_cuts::{Cut, Run};
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_testkit::soak::{self, Table};
use nandkit_units::random::Random;
use nandkit_units::{Cause, FlashGeometry, Nanos};
use promise::{Mount, formatted, run};

/// A name, and the cuts that it applies to.
type Kind = (&'static str, fn(&Cut) -> bool);

/// The kinds of cuts: data and metadata of the user; the collector's moves; erases of blocks that
/// it emptied; and recovery, which is erasing what an earlier cut left half erased and rewriting
/// elsewhere what a failed program did not store.
const KINDS: [Kind; 5] = [
    ("user_data", |cut| cut.1 == Cause::UserData),
    ("metadata", |cut| cut.1 == Cause::Metadata),
    ("cleaning, moves", |cut| cut.1 == Cause::Cleaning && cut.0 == Operation::Program),
    ("cleaning, erases", |cut| cut.1 == Cause::Cleaning && cut.0 == Operation::Erase),
    ("recovery", |cut| cut.1 == Cause::Recovery),
];

/// The run of a seed, and the device on which it starts.
fn drawn(seed: u64) -> (Run<Mount>, StrictFlash) {
    let mut random = Random::new(seed, "soak");
    let mut draw = |bound: usize| random.below(bound as u64) as usize;
    let geometries = [
        FlashGeometry::nand(512, 16, 32, 32),
        FlashGeometry::nand(2048, 64, 8, 32),
        FlashGeometry::nand(512, 16, 64, 26),
        nor(16 << 10, 32),
    ];
    let compressions = [CompressionMode::None, CompressionMode::Priority, CompressionMode::Only(Compression::Zlib)];
    let separations = ["none", "none", "dac:regions=2", "dac:regions=3", "dac:regions=3,promote-below=50ms"];
    // Every other seed uses Linux's victims; the others use each policy in turn.
    let names: Vec<&str> = nandkit_cleaning::victim::names().collect();
    let policy = if draw(2) == 0 { "jffs2-lists" } else { names[draw(names.len())] };
    let write = WriteOptions {
        compression: compressions[draw(4).min(2)],
        summaries: draw(3) > 0,
        policy: policy.parse().unwrap_or_default(),
        separation: separations[draw(5)].parse().unwrap_or(Separation::None),
        background: (draw(2) == 0).then_some(Nanos::from_millis(50)),
        seed,
        ..WriteOptions::default()
    };
    let failing =
        if draw(3) == 0 { (1..4).map(|number| number * (60 + draw(900) as u64)).collect() } else { Vec::new() };
    let options = MountOptions { write, ..MountOptions::default() };
    let mut start = formatted(geometries[draw(4)], &options).into_flash();
    start.fail_programs(failing);
    (run(options, seed, 300, 60), start)
}

fn cut(seed: u64) -> Vec<Cut> {
    let (run, start) = drawn(seed);
    run.cut(start)
}

fn show(cuts: &[Cut]) -> Table {
    let mut table = Table::new(&KINDS.map(|(name, _)| name), CutMoment::ALL);
    for cut in cuts {
        let column = CutMoment::ALL.iter().position(|moment| *moment == cut.2).unwrap_or(usize::MAX);
        for (row, _) in KINDS.iter().enumerate().filter(|(_, (_, is))| is(cut)) {
            table.count(row, column, 1);
        }
    }
    print!("{table}");
    for operation in [Operation::Program, Operation::Erase] {
        println!("{:?}: {}", operation, cuts.iter().filter(|cut| cut.0 == operation).count());
    }
    println!("{} cuts; what was synced is there, and nothing is torn", cuts.len());
    table
}

fn main() -> ExitCode {
    soak::close(soak::run_lists(|seed| format!("{:?}", drawn(seed).0), |seed, _| cut(seed), show))
}
