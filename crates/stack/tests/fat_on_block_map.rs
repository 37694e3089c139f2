//! FAT on the block-mapped translation layer on a chip: power cuts at programs, copies and erases, torn in every way that the chip knows.
//! What was synced is there after each.

#[path = "../../fat/tests/common/mod.rs"]
mod common;

use common::workload::{Oracle, judge, step, tree};
use common::*;
use nandkit_fat::{Cache, Fat, FormatOptions, MountOptions, check, format};
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, PageOrder};
use nandkit_units::Context;
use nandkit_units::random::Random;
use nandkit_vfs::ErrorKind;

fn options(sector_size: u32) -> BlockMapOptions {
    BlockMapOptions { sector_size, log_blocks: 4, ..BlockMapOptions::default() }
}

/// A formatted volume on a chip of 4 MiB: pages of 2 KiB, 16 to the block.
fn chip(sector_size: u32) -> ContentChip {
    let mut spec = ChipSpec::default();
    spec.geometry.page_size = 2048;
    spec.geometry.oob_size = 64;
    spec.geometry.pages_per_block = 16;
    spec.geometry.blocks = 128;
    spec.rules.order = PageOrder::Consecutive;
    let chip = ContentChip::new(&spec, 1).unwrap();
    let mut device = BlockMapFtl::attach(chip, options(sector_size)).unwrap();
    format(&mut device, &clock(), &FormatOptions::default()).unwrap();
    device.close(&Context::default()).unwrap().0
}

fn moment(random: &mut Random) -> CutMoment {
    CutMoment::ALL[random.below(CutMoment::ALL.len() as u64) as usize]
}

/// Runs the workload under a plan; the chip as it was left, how many steps it took, what may be found.
fn run(
    chip: ContentChip,
    sector_size: u32,
    mount: MountOptions,
    seed: u64,
    plan: CutPlan,
) -> (CutFlash<ContentChip>, Oracle) {
    let mut flash = CutFlash::new(chip, plan);
    let mut oracle = Oracle::default();
    if let Ok(device) = BlockMapFtl::attach(&mut flash, options(sector_size)) {
        let mut random = Random::new(seed, "cuts");
        if let Ok(mut fat) = Fat::mount(device, clock(), mount) {
            for _ in 0..60 {
                if let Err(error) = step(&mut fat, &mut oracle, &mut random) {
                    assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
                    break;
                }
            }
        }
    }
    (flash, oracle)
}

fn survives(sector_size: u32, mount: MountOptions, seed: u64) -> u64 {
    let base = chip(sector_size);
    let (flash, _) = run(base.clone(), sector_size, mount, seed, CutPlan::None);
    let steps = flash.steps();
    for at in 1..=steps {
        let mut random = Random::new(seed * 1_000_000 + at, "moment");
        let plan = CutPlan::at(at, moment(&mut random));
        let what = format!("sectors of {sector_size}, {:?}, seed {seed}, {plan}", mount.cache);
        let (mut flash, oracle) = run(base.clone(), sector_size, mount, seed, plan);
        flash.power_on();
        flash.set_plan(CutPlan::None);
        let device =
            BlockMapFtl::attach(&mut flash, options(sector_size)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut fat = Fat::mount(device, clock(), mount).unwrap_or_else(|error| panic!("{what}: {error}"));
        judge(&tree(&fat), &oracle, &what);
        fat.unmount().unwrap();
        let mut device = fat.into_device();
        let report = check(&mut device, &clock()).unwrap();
        assert!(report.is_clean(), "{what}: {:?}", report.findings);
        if at % 200 == 0 {
            assert_clean(&device, &what);
        }
    }
    steps
}

#[test]
fn what_was_synced_is_there_after_each_cut() {
    // More by `NANDKIT_FAT_FTL_ROUNDS=20 cargo test -p nandkit-stack --test fat_on_block_map`.
    let rounds = std::env::var("NANDKIT_FAT_FTL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let metadata_only = match WRITE_BACK.cache {
        Cache::Sectors { sectors, write_back, .. } => Cache::Sectors { sectors, write_back, data: false },
        Cache::None => Cache::None,
    };
    let mut cuts = 0;
    for round in 0..rounds {
        for (number, mount) in
            [WRITE_THROUGH, WRITE_BACK, MountOptions { cache: metadata_only, ..WRITE_BACK }].into_iter().enumerate()
        {
            let seed = 10 * round + number as u64;
            // Without barriers too: this layer is durable in order of issue.
            cuts += survives(2048, MountOptions { barriers: round % 2 == 0, ..mount }, seed);
            cuts += survives(512, MountOptions { barriers: round % 2 == 1, ..mount }, seed + 5);
        }
    }
    println!("{cuts} cuts");
    assert!(rounds < 6 || cuts >= 5_000, "{cuts} cuts");
}
