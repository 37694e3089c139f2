//! A run of copies that a merge hands to the chip gives the same pages, tags, counts and times as
//! copying page by page.

use crate::common::model::{Mix, Model, Ops};
use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_block::BlockDevice;
use nandkit_cleaning::recycling::RecyclingPolicy;
use nandkit_flash::wrap::FaultFlash;
use nandkit_flash::{Flash, PageRead};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::ContentChip;
use nandkit_units::{Context, Nanos};

/// Every page of the chip with its OOB, and whether it could be read.
fn pages(chip: &ContentChip) -> Vec<(bool, Vec<u8>)> {
    let geometry = *chip.geometry();
    let mut all = Vec::new();
    for at in (0..geometry.blocks).flat_map(|block| (0..geometry.pages_per_block).map(move |page| (block, page))) {
        let mut bytes = vec![0; (geometry.page_size + geometry.oob_size) as usize];
        let (data, oob) = bytes.split_at_mut(geometry.page_size as usize);
        let mut read = PageRead::bytes(0, data);
        read.oob = oob;
        let at = nandkit_units::PageAddress::new(at.0, at.1);
        let readable = chip.read(&Context::at(Nanos(u64::MAX / 2)), at, read).is_ok();
        all.push((readable, bytes));
    }
    all
}

/// A [`FaultFlash`] without faults copies page by page.
fn agree<L: Layer>(options: &L::Options, mix: Mix, seed: u64) -> u64 {
    let whole = chip(&spec(512, 16, 16, 24), seed);
    let mut runs = L::attach(whole.clone(), options).unwrap();
    let mut single = L::attach(FaultFlash::new(whole, []), options).unwrap();
    let (mut model, mut twin) = (Model::new(&runs), Model::new(&single));
    let sectors = runs.geometry().sectors;
    for op in Ops::new(seed, mix, sectors).take(1500) {
        model.apply(&mut runs, op).unwrap();
        twin.apply(&mut single, op).unwrap();
    }
    // The time at which the device is free shows the total time of all operations.
    let probe = Context::at(Nanos::ZERO);
    assert_eq!(runs.flush(&probe).unwrap(), single.flush(&probe).unwrap(), "seed {seed}");
    let (runs, single) = (L::into_flash(runs), L::into_flash(single).into_inner());
    assert_eq!(runs.write_counters(), single.write_counters(), "seed {seed}");
    assert!(pages(&runs) == pages(&single), "seed {seed}");
    runs.write_counters().copies
}

#[test]
fn runs_leave_the_same_pages_as_single_copies() {
    let mut copies = 0;
    for (seed, mix) in (1..).zip([Mix::WRITES, Mix::ALL, Mix::WRITES, Mix::ALL]) {
        let policy = if seed < 3 { RecyclingPolicy::Merge } else { RecyclingPolicy::CostBased };
        let capacity = LogicalCapacity::Bytes(12 * 16 * 512);
        let options =
            BlockMapOptions { capacity, log_blocks: 3, policy, partial_merge: seed == 4, ..Default::default() };
        copies += agree::<BlockMap>(&options, mix, seed);
        // Sources in more blocks than a run keeps open.
        let options = FastOptions { capacity, log_blocks: 5, ..FastOptions::default() };
        copies += agree::<Fast>(&options, mix, seed);
    }
    assert!(copies > 20_000, "{copies}");
}
