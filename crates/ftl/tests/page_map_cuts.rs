//! The page-mapped layer across power cuts: a model with remap, share and trim says what may be read after each.

mod common;

use common::page_model::{Model, Script, check_all};
use nandkit_block::BlockDevice;
use nandkit_cleaning::separation::Separation;
use nandkit_flash::Interrupt;
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_testkit::cut;
use nandkit_units::random::Random;

const SECTOR: u32 = 512;

#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: u32,
    pages: u32,
    dies: u32,
    stripe: u32,
    parts: u32,
    scheme: &'static str,
}

const SHAPES: [Shape; 4] = [
    Shape { blocks: 40, pages: 8, dies: 1, stripe: 1, parts: 1, scheme: "user-moved" },
    Shape { blocks: 64, pages: 8, dies: 4, stripe: 2, parts: 1, scheme: "none" },
    Shape { blocks: 56, pages: 8, dies: 2, stripe: 2, parts: 4, scheme: "user-moved" },
    Shape { blocks: 96, pages: 8, dies: 4, stripe: 1, parts: 2, scheme: "sepbit" },
];

fn chip(shape: &Shape) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = SECTOR * shape.parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * shape.parts);
    (geometry.blocks, geometry.pages_per_block) = (shape.blocks, shape.pages);
    (geometry.dies, geometry.channels) = (shape.dies, shape.dies.min(2));
    ContentChip::new(&spec, 1).unwrap()
}

fn options(shape: &Shape) -> PageMapOptions {
    PageMapOptions {
        spare: Spare::Capacity(u64::from(SECTOR) * if shape.parts > 1 { 250 } else { 100 }),
        sector_size: SECTOR,
        separation: shape.scheme.parse::<Separation>().unwrap(),
        stripe: shape.stripe,
        journal: Some(JournalOptions { checkpoint_every: 150, aliases: 24 }),
        ..PageMapOptions::default()
    }
}

/// Runs a script until the power goes, comes back, and goes on, as often as the plan says; then everything must be as the model allows, and stay so.
fn survives(shape: &Shape, script: &Script, plan: &CutPlan) -> Result<u64, String> {
    let device =
        PageMapFtl::format(CutFlash::new(chip(shape), CutPlan::None), options(shape)).map_err(|e| e.to_string())?;
    let mut model = Model::new(device.geometry().sectors);
    let mut flash = device.into_flash();
    let formatted = flash.steps();
    flash.set_plan(shifted(plan, formatted));
    let mut random = Random::new(script.seed, "script");
    let mut left = script.commands;
    for _ in 0..40 {
        // Nothing is written before the first change: a start cannot be cut.
        let device = PageMapFtl::attach(&mut flash, options(shape));
        let mut device = device.map_err(|error| format!("attach: {error}"))?;
        check_all(&device, &mut model).map_err(|what| format!("after a start: {what}"))?;
        device.check().map_err(|what| format!("after a start: {what}"))?;
        let result = model.run(&mut device, script, &mut random, &mut left);
        drop(device);
        match result {
            Ok(false) => {}
            Ok(true) => {
                let device =
                    PageMapFtl::attach(&mut flash, options(shape)).map_err(|error| format!("at the end: {error}"))?;
                check_all(&device, &mut model).map_err(|what| format!("at the end: {what}"))?;
                device.check().map_err(|what| format!("at the end: {what}"))?;
                drop(device);
                return Ok(flash.steps() - formatted);
            }
            Err(error) if flash.is_off() => {
                let _ = error;
                flash.power_on();
            }
            Err(error) => return Err(error),
        }
    }
    Err("the script did not end".into())
}

fn shifted(plan: &CutPlan, by: u64) -> CutPlan {
    match plan {
        CutPlan::List(cuts) => {
            CutPlan::List(cuts.iter().map(|cut| nandkit_flash::wrap::Cut { step: cut.step + by, ..*cut }).collect())
        }
        CutPlan::None => CutPlan::None,
        other => panic!("a plan that is no list: {other}"),
    }
}

#[test]
fn restarts_without_cuts_keep_everything() {
    for (seed, shape) in (0..).zip(&SHAPES) {
        for round in 0..3 {
            let script = Script { seed: seed * 10 + round, commands: 1500, restart_every: 200 };
            survives(shape, &script, &CutPlan::None).unwrap_or_else(|what| panic!("{what} with {shape:?}, {script:?}"));
        }
    }
}

#[test]
fn every_single_cut_is_survived() {
    for (seed, shape) in (0..).zip(&SHAPES) {
        let script = Script { seed, commands: 260, restart_every: 0 };
        let steps = survives(shape, &script, &CutPlan::None).unwrap();
        let plans = (1..=steps).flat_map(|step| {
            CutMoment::ALL.into_iter().map(move |moment| CutPlan::List(vec![nandkit_flash::wrap::Cut { step, moment }]))
        });
        let count = cut::search(plans, |plan| survives(shape, &script, plan).map(|_| ()));
        let count = count.unwrap_or_else(|failure| panic!("{failure} with {shape:?}, {script:?}"));
        println!("{shape:?}: {steps} steps, {count} cuts");
    }
}

#[test]
fn sampled_cuts_of_depth_up_to_six_are_survived() {
    for (seed, shape) in (0..).zip(&SHAPES) {
        let script = Script { seed: seed + 50, commands: 400, restart_every: 0 };
        let steps = survives(shape, &script, &CutPlan::None).unwrap();
        for depth in [2, 6] {
            let plans = cut::sampled(seed, steps, 25, depth, 300);
            cut::search(plans, |plan| survives(shape, &script, plan).map(|_| ()))
                .unwrap_or_else(|failure| panic!("{failure} with {shape:?}, {script:?}"));
        }
    }
}

/// The chip is an [`Interrupt`]: what `CutFlash` needs.
const _: fn(&ContentChip) -> &dyn Interrupt = |chip| chip;
