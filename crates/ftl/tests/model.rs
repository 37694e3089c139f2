//! Random operations compared with a model, for many geometries. Now and then the device is closed,
//! or dropped without a close, and opened again.

use crate::common::model::{Mix, Model, Ops};
use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_cleaning::log_victim::VictimRule;
use nandkit_cleaning::recycling::{AlphaEstimator, RecyclingPolicy};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::{ChipSpec, CopybackReach};
use nandkit_testkit::rounds;

/// How many operations per geometry: 60,000, or what the environment says.
fn operations() -> usize {
    rounds::count(40_000) as usize
}

/// Operations after which the device is dropped or closed, in turn, and opened again.
const BETWEEN_REOPENINGS: usize = 5_000;

fn check<L: Layer>(spec: &ChipSpec, options: &L::Options, seed: u64) {
    let mut device = L::attach(chip(spec, seed), options).unwrap();
    let mut model = Model::new(&device);
    let sectors = model.sectors.len() as u64;
    let mut ways = [0; 2];
    for (index, op) in Ops::new(seed, Mix::ALL, sectors).take(operations()).enumerate() {
        model.apply(&mut device, op).unwrap();
        if (index + 1) % BETWEEN_REOPENINGS == 0 {
            model.verify(&device);
            let leave = (index + 1) / BETWEEN_REOPENINGS % 2 == 1;
            ways[usize::from(leave)] += 1;
            let flash = if leave { L::into_flash(device) } else { L::close(device).unwrap() };
            device = L::attach(flash, options).unwrap();
            model.settle(&device).unwrap();
        }
    }
    assert!(ways.iter().all(|&count| count >= operations() / BETWEEN_REOPENINGS / 2), "closed, left: {ways:?}");
    model.verify(&device);
}

fn options(blocks: u32) -> BlockMapOptions {
    BlockMapOptions { capacity: LogicalCapacity::SpareBlocks(blocks), log_blocks: 3, ..BlockMapOptions::default() }
}

const MACROSCOPIC: RecyclingPolicy = RecyclingPolicy::Macroscopic { estimator: AlphaEstimator::Origin, cap: None };

#[test]
fn small_pages_and_blocks() {
    check::<BlockMap>(&spec(512, 16, 4, 16), &BlockMapOptions { policy: RecyclingPolicy::CostBased, ..options(7) }, 1);
}

#[test]
fn small_pages() {
    let options =
        BlockMapOptions { policy: RecyclingPolicy::Limit { max: Some(3) }, partial_merge: true, ..options(7) };
    check::<BlockMap>(&spec(512, 16, 32, 14), &options, 2);
}

#[test]
fn sub_page_sectors() {
    let options = BlockMapOptions { sector_size: 512, policy: MACROSCOPIC, victim: VictimRule::Fifo, ..options(7) };
    check::<BlockMap>(&spec(2048, 64, 16, 14), &options, 3);
}

#[test]
fn half_page_sectors_without_map_pages() {
    let options = BlockMapOptions { sector_size: 2048, map_pages_per_recycling: 0, policy: MACROSCOPIC, ..options(8) };
    check::<BlockMap>(&spec(4096, 128, 8, 20), &options, 4);
}

#[test]
fn planes_and_dies() {
    let mut spec = spec(2048, 64, 8, 24);
    (spec.geometry.planes, spec.geometry.dies, spec.geometry.channels) = (2, 2, 2);
    let options = BlockMapOptions { policy: RecyclingPolicy::CostBased, victim: VictimRule::RoundRobin, ..options(7) };
    check::<BlockMap>(&spec, &options, 5);
}

#[test]
fn large_pages_without_copyback() {
    let mut spec = spec(16_384, 1024, 16, 10);
    spec.rules.copyback = CopybackReach::None;
    let options = BlockMapOptions { log_blocks: 1, map_pages_per_recycling: 2, ..options(5) };
    check::<BlockMap>(&spec, &BlockMapOptions { policy: RecyclingPolicy::CostBased, ..options }, 6);
}

#[test]
fn large_blocks() {
    let options =
        BlockMapOptions { policy: MACROSCOPIC, victim: VictimRule::FewestValid, wear_threshold: Some(8), ..options(7) };
    check::<BlockMap>(&spec(512, 16, 256, 11), &options, 7);
}

fn fast(spare: u32) -> FastOptions {
    FastOptions { capacity: LogicalCapacity::SpareBlocks(spare), log_blocks: 3, ..FastOptions::default() }
}

#[test]
fn fast_small_pages_and_blocks() {
    check::<Fast>(&spec(512, 16, 4, 18), &fast(8), 11);
}

#[test]
fn fast_sub_page_sectors() {
    check::<Fast>(&spec(2048, 64, 16, 16), &FastOptions { sector_size: 512, ..fast(9) }, 12);
}

#[test]
fn fast_planes_without_map_pages() {
    let mut spec = spec(4096, 128, 32, 16);
    spec.geometry.planes = 2;
    check::<Fast>(&spec, &FastOptions { map_pages_per_recycling: 0, log_blocks: 1, ..fast(7) }, 13);
}
