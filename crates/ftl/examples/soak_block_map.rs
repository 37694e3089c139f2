//! Thousands of power cuts under the block-mapped layer and FAST.
//!
//! `cargo run --release -p nandkit-ftl --example soak_block_map -- [--cuts N] [--seed S] [--layer block-map|fast] [--replay STRING]`
//!
//! Runs random workloads on tiny chips. Each run is cut several times, also during recovery, and
//! after each cut every sector is compared with the model. Ends with a table of cuts by cause and
//! torn state. At the first failure it prints a string for `--replay` and exits with 1. It also
//! exits with 1 if one of the layer's causes got fewer than one cut in 35, as the soak then no
//! longer covers it.

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::cuts::run;
use common::model::{Mix, Op, Ops};
use common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_flash::Operation;
use nandkit_flash::wrap::{Cut, CutMoment, CutPlan};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_testkit::soak::{self, Arguments, Table};
use nandkit_units::Cause;
use nandkit_units::random::Random;

/// A cut: the chip's operation, the layer's cause for it, and the moment.
type Made = (Operation, Cause, CutMoment);

/// The workload of a seed: options, operations, and the shape of the chip.
fn workload(seed: u64) -> (BlockMapOptions, Vec<Op>, common::ChipShape) {
    let mut random = Random::new(seed, "soak");
    let shapes = [(512, 16, 8, 10), (512, 16, 4, 12), (1024, 32, 16, 9), (512, 16, 8, 11)];
    let shape = shapes[random.below(4) as usize];
    let policies = [
        RecyclingPolicy::Merge,
        RecyclingPolicy::CostBased,
        RecyclingPolicy::Limit { max: Some(2) },
        RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Regression, cap: None },
    ];
    let log_blocks = 1 + random.below(3) as u32;
    let options = BlockMapOptions {
        capacity: LogicalCapacity::SpareBlocks(log_blocks + 4),
        sector_size: if random.chance(0.5) { 512 } else { 0 },
        log_blocks,
        policy: policies[random.below(4) as usize],
        partial_merge: random.chance(0.3),
        map_pages_per_recycling: random.below(3) as u32,
        copyback: random.chance(0.7),
        wear_threshold: random.chance(0.4).then_some(1),
        ..BlockMapOptions::default()
    };
    let sectors = u64::from(shape.3 - log_blocks - 4) * u64::from(shape.2) * u64::from(shape.0)
        / u64::from(if options.sector_size == 0 { shape.0 } else { options.sector_size });
    (options, Ops::new(seed, Mix::WRITES, sectors).take(220).collect(), shape)
}

/// The cuts of this run, often including one within the recovery.
fn plan(seed: u64) -> CutPlan {
    let mut random = Random::new(seed, "cuts");
    let mut step = 0;
    let cuts = (0..14).map(|_| {
        step += 1 + if random.chance(0.45) { random.below(10) } else { random.below(60) };
        Cut { step, moment: CutMoment::ALL[random.below(6) as usize] }
    });
    CutPlan::List(cuts.collect())
}

fn one<L: Layer>(
    seed: u64,
    options: &L::Options,
    ops: &[Op],
    shape: common::ChipShape,
    plan: CutPlan,
) -> Result<Vec<Made>, String> {
    let chip = chip(&spec(shape.0, shape.1, shape.2, shape.3), seed);
    run::<L>(chip, options, ops, plan).map(|run| run.cut)
}

fn soak(arguments: &Arguments, layer: &str) -> Result<Vec<Made>, String> {
    let mut cuts = Vec::new();
    let mut seed = arguments.seed;
    if let Some(replay) = &arguments.replay {
        let (replayed, cut) = replay.split_once('/').unwrap_or((replay, ""));
        seed =
            replayed.trim_start_matches("seed:").parse().map_err(|_| format!("\"{replay}\": expected seed:NUMBER"))?;
        let plan = if cut.is_empty() { plan(seed) } else { cut.parse().map_err(|error| format!("{error}"))? };
        return one_of(layer, seed, plan);
    }
    while (cuts.len() as u64) < arguments.cuts {
        let made = one_of(layer, seed, plan(seed))
            .map_err(|what| format!("{what}\nreplay with: --layer {layer} --replay seed:{seed}/{}", plan(seed)))?;
        cuts.extend(made);
        seed += 1;
    }
    Ok(cuts)
}

fn one_of(layer: &str, seed: u64, plan: CutPlan) -> Result<Vec<Made>, String> {
    let (options, ops, shape) = workload(seed);
    match layer {
        "block-map" => one::<BlockMap>(seed, &options, &ops, shape, plan),
        "fast" => {
            // FAST needs one block more.
            let shape = (shape.0, shape.1, shape.2, shape.3 + 1);
            let fast = FastOptions {
                capacity: LogicalCapacity::SpareBlocks(options.log_blocks + 5),
                sector_size: options.sector_size,
                log_blocks: options.log_blocks,
                map_pages_per_recycling: options.map_pages_per_recycling,
                copyback: options.copyback,
                ..FastOptions::default()
            };
            one::<Fast>(seed, &fast, &ops, shape, plan)
        }
        other => Err(format!("unknown layer {other}: expected block-map or fast")),
    }
}

/// The causes with which a layer programs, copies or erases once it is attached.
fn causes(layer: &str) -> Vec<Cause> {
    // Neither layer has checkpoints of its own. The first attach formats an empty device under
    // `Recovery`, and erasing what a chip held (`Format`) is a separate call. FAST moves no block
    // to level wear.
    let without = [Cause::Checkpoint, Cause::Format];
    let is_without = |cause: &Cause| without.contains(cause) || (layer == "fast" && *cause == Cause::WearLevelling);
    Cause::ALL.into_iter().filter(|cause| !is_without(cause)).collect()
}

fn show(layer: &str, cuts: &[Made]) -> Table {
    let causes = causes(layer);
    let mut table = Table::new(&causes.iter().map(|cause| cause.name()).collect::<Vec<_>>(), CutMoment::ALL);
    for (_, cause, moment) in cuts {
        let row = causes.iter().position(|known| known == cause).expect("a cause that the layer has");
        table.count(row, CutMoment::ALL.iter().position(|known| known == moment).unwrap_or(usize::MAX), 1);
    }
    print!("{table}");
    for operation in [Operation::Program, Operation::Copy, Operation::Erase] {
        println!("{:?}: {}", operation, cuts.iter().filter(|cut| cut.0 == operation).count());
    }
    println!("{} cuts, no sector torn, lost or older than it may be", cuts.len());
    table
}

fn run_all() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--layer"])?;
    let layer = arguments.text("--layer").unwrap_or("block-map");
    let table = show(layer, &soak(&arguments, layer)?);
    // One replayed run is too short to reach every cause.
    if arguments.replay.is_some() { Ok(()) } else { table.reaches_all() }
}

fn main() -> ExitCode {
    soak::close(run_all())
}
