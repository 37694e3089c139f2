//! Runs random operations against the model file system, on a volume of each configuration: logs,
//! modes, inline content, small and large directories, casefolded or not, nearly full.
//!
//! `cargo run --release -p nandkit-f2fs --example model -- [--operations N] [--seed S] [--only NUMBER] [--look-every N]`
//!
//! Compares each result with the model's, and whole trees after each remount. fsck.f2fs and our
//! check see every tenth image left by a remount, or every `--look-every`th. At the first
//! disagreement it prints the operations that reproduce it and exits with 1.

#[path = "../tests/made/mod.rs"]
mod made;
#[path = "../tests/modelled/mod.rs"]
mod modelled;
#[path = "../tests/writing/mod.rs"]
mod writing;

use std::process::ExitCode;

use modelled::{CONFIGURATIONS, Maker, agree};
use nandkit_testkit::soak::{self, Arguments};

fn run() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--operations", "--only", "--look-every"])?;
    let operations = arguments.number("--operations")?.unwrap_or(200_000) as u32;
    let look_every = arguments.number("--look-every")?.unwrap_or(10).max(1) as u32;
    let only = arguments.number("--only")?;
    for (number, configuration) in (1..).zip(CONFIGURATIONS) {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let maker = Maker::new(configuration, look_every);
        let summary = agree(&maker, arguments.seed, operations)
            .map_err(|disagreement| format!("{number}, {}: {disagreement}", configuration.name))?;
        println!(
            "{number:>2} {:<36} {} operations agree, {} of them errors and {} for want of room; {} trees compared, {} images judged, {} sections collected",
            configuration.name,
            summary.operations,
            summary.errors,
            summary.no_space,
            summary.comparisons,
            maker.checked(),
            maker.collected()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    soak::close(run())
}
