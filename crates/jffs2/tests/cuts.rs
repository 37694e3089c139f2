//! Power cuts, and failures of programs and erases, with every policy and separation, under random
//! operations. `cargo xtask soak jffs2` runs thousands of them.

use crate::promise::{Mount, formatted, run};
use nandkit_flash::{Flash, Operation};
use nandkit_jffs2::write::{CompressionMode, Draws, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_testkit::clock;
use nandkit_testkit::durability::flash_cuts::Run;
use nandkit_testkit::durability::{History, State, describe, observe, step};
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, FlashGeometry, Nanos};
use nandkit_vfs::Changes;

fn cut_all(geometry: FlashGeometry, write: WriteOptions, (steps, every): (usize, u64)) {
    let options = MountOptions { write, ..MountOptions::default() };
    let start = || formatted(geometry, &options).into_flash();
    let run = run(options.clone(), 0, steps, every);
    hand_out(&run, start());
    let mut cuts = 0;
    for seed in 0..64 {
        cuts += Run { seed, ..run.clone() }.cut(start()).len();
        if cuts >= CUTS {
            return;
        }
    }
    panic!("{cuts} cuts, expected at least {CUTS}");
}

/// Number of cuts in each of four tests: 5,000 in all.
const CUTS: usize = 1250;

/// Writes images as `nanddump --oob` makes them, for other judges: `NANDKIT_CUT_IMAGES` names a
/// directory, `NANDKIT_CUT_SAMPLE` their number and the seed that chooses them.
fn hand_out(run: &Run<Mount>, start: StrictFlash) {
    let Some(directory) = std::env::var_os("NANDKIT_CUT_IMAGES") else { return };
    let sample = std::env::var("NANDKIT_CUT_SAMPLE").expect("NANDKIT_CUT_SAMPLE=COUNT:SEED");
    let (count, seed) = sample.split_once(':').expect("COUNT:SEED");
    let (count, seed): (usize, u64) = (count.parse().expect("a count"), seed.parse().expect("a seed"));
    let left = run.left(start);
    assert!(count <= left.len(), "{count} of {} images are asked for", left.len());
    let mut random = Random::new(seed, "which cuts");
    let mut numbers: Vec<usize> = (0..left.len()).collect();
    for _ in 0..count {
        let number = numbers.swap_remove(random.below(numbers.len() as u64) as usize);
        let path = std::path::Path::new(&directory).join(format!("cut-{number:05}"));
        std::fs::write(path, left[number].dump()).expect("the image can be written");
    }
}

fn compressed(compression: CompressionMode, summaries: bool) -> WriteOptions {
    WriteOptions { compression, summaries, ..WriteOptions::default() }
}

#[test]
fn cuts_on_nand() {
    cut_all(FlashGeometry::nand(512, 16, 32, 26), compressed(CompressionMode::None, true), (250, 40));
}

/// All cuts of depth 1 on a device of a few blocks.
#[test]
fn every_program_and_erase_of_a_run_is_cut_in_every_way() {
    for geometry in [FlashGeometry::nand(512, 16, 16, 26), nor(8 << 10, 26)] {
        let options =
            MountOptions { write: compressed(CompressionMode::None, geometry.page_size == 512), ..Default::default() };
        let start = formatted(geometry, &options).into_flash();
        let cuts = run(options, 3, 260, 0).cut_everywhere(start);
        let erases = cuts.iter().filter(|cut| cut.0 == Operation::Erase).count();
        assert!(cuts.len() > 2400 && erases > 60, "{} cuts, {erases} in erases", cuts.len());
    }
}

#[test]
fn cuts_on_nand_without_summaries() {
    cut_all(FlashGeometry::nand(2048, 64, 16, 16), compressed(CompressionMode::Priority, false), (2800, 1));
}

#[test]
fn cuts_on_nor() {
    cut_all(nor(16 << 10, 26), compressed(CompressionMode::None, true), (250, 25));
}

#[test]
fn cuts_with_regions() {
    let write = WriteOptions {
        separation: "dac:regions=3".parse().unwrap(),
        policy: "cat".parse().unwrap(),
        ..compressed(CompressionMode::None, true)
    };
    cut_all(FlashGeometry::nand(512, 16, 32, 32), write, (250, 40));
}

/// Asserts that the volume holds what was written, now and after a mount.
fn agrees(mut fs: Jffs2<StrictFlash>, options: &MountOptions, history: &History, what: &str) -> Jffs2<StrictFlash> {
    let state = history.now();
    for round in 0..2 {
        fs.catalogue().recount().unwrap();
        let found = observe(&fs);
        assert!(state.is(&found), "{what}, round {round}: {:?}, expected {state:?}", describe(&found));
        if round == 0 {
            fs.sync(None).unwrap();
            fs = Jffs2::mount(fs.into_flash(), clock(), options.clone()).unwrap();
        }
    }
    fs
}

#[test]
fn blocks_that_fail_are_emptied_and_retired() {
    for geometry in [FlashGeometry::nand(512, 16, 32, 40), FlashGeometry::nand(2048, 64, 8, 40), nor(16 << 10, 40)] {
        let write = WriteOptions { compression: CompressionMode::None, ..WriteOptions::default() };
        let options = MountOptions { write, ..MountOptions::default() };
        let mut fs = formatted(geometry, &options);
        fs.flash_mut().fail_programs((1..8).map(|number| number * 211));
        fs.flash_mut().fail_erases([20, 41]);
        let (mut history, mut random) = (History::new(State::empty()), Random::new(5, "failures"));
        for _ in 0..700 {
            step(&mut fs, &mut history, &mut random).unwrap();
        }
        let counters = *fs.counters().unwrap();
        assert!(counters.program_failures >= 3 && counters.retired >= 3, "{geometry:?}: {counters:?}");
        let fs = agrees(fs, &options, &history, &format!("{geometry:?}"));
        let bad = (0..geometry.blocks).filter(|block| fs.flash().is_bad(BlockIndex(*block))).count();
        assert!(bad as u64 >= counters.retired, "{bad}");
    }
}

#[test]
fn every_policy_and_separation_keeps_what_was_written() {
    let keeps = |write: WriteOptions, what: &str| {
        let options = MountOptions { write, ..MountOptions::default() };
        let mut fs = formatted(FlashGeometry::nand(512, 16, 32, 48), &options);
        let (mut history, mut random) = (History::new(State::empty()), Random::new(9, "policies"));
        for _ in 0..700 {
            step(&mut fs, &mut history, &mut random).unwrap();
        }
        assert!(fs.counters().unwrap().erases > 20, "{what}: {:?}", fs.counters());
        agrees(fs, &options, &history, what);
    };
    let plain =
        WriteOptions { compression: CompressionMode::None, draws: Draws::Independent, ..WriteOptions::default() };
    for name in nandkit_cleaning::victim::names() {
        keeps(WriteOptions { policy: name.parse().unwrap(), ..plain }, name);
    }
    for scheme in nandkit_cleaning::separation::names() {
        let background = Some(Nanos::from_millis(50));
        let policy = "cat".parse().unwrap();
        keeps(WriteOptions { separation: scheme.parse().unwrap(), policy, background, ..plain }, scheme);
    }
}
