//! Runs of the page-mapped layer on small chips, with power cuts: shared by the tests and the soak.

use nandkit_block::BlockDevice;
use nandkit_cleaning::separation::Separation;
use nandkit_flash::wrap::{Cut, CutFlash, CutPlan};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_units::Nanos;
use nandkit_units::random::Random;

use super::page_model::{Model, Script, check_all};

const SECTOR: u32 = 512;

/// A chip and a device on it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub blocks: u32,
    pub pages: u32,
    pub dies: u32,
    pub stripe: u32,
    pub parts: u32,
    pub scheme: &'static str,
    /// Logical pages of the write buffer.
    pub buffer: u64,
    /// Logical pages of the host; 0: as many as the layer takes.
    pub user: u64,
    /// Map pages in the cache of the map; 0: the whole map is in memory.
    pub cached: u64,
    pub care: Care,
    /// Work in idle times; none where the time is 0.
    pub idle: Idle,
}

/// When the layer works by itself: after so many microseconds, until so many superblocks are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    pub after_us: u64,
    pub free: u32,
}

const BUSY: Idle = Idle { after_us: 0, free: 0 };

/// What is moved for its own sake; 0: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Care {
    pub reads: u32,
    pub age_ms: u64,
    pub difference: u32,
}

pub const NONE: Care = Care { reads: 0, age_ms: 0, difference: 0 };
const READS: Care = Care { reads: 1, ..NONE };
const AGE: Care = Care { age_ms: 100, ..NONE };
const WEAR: Care = Care { difference: 1, ..NONE };
const BOTH: Care = Care { reads: 6, age_ms: 300, ..NONE };

const SMALL: Shape = Shape {
    blocks: 40,
    pages: 8,
    dies: 1,
    stripe: 1,
    parts: 1,
    scheme: "user-moved",
    buffer: 0,
    user: 100,
    cached: 0,
    care: NONE,
    idle: BUSY,
};

const STRIPED: Shape = Shape { dies: 4, stripe: 2, ..SMALL };

const OF_PARTS: Shape = Shape { parts: 4, user: 250, dies: 2, ..STRIPED };

const TEN_MAP_PAGES: Shape = Shape { blocks: 220, user: 1250, ..SMALL };

const SHAPES: [Shape; 20] = [
    SMALL,
    Shape { blocks: 64, scheme: "none", ..STRIPED },
    Shape { blocks: 56, ..OF_PARTS },
    Shape { blocks: 96, dies: 4, stripe: 1, parts: 2, scheme: "sepbit", ..OF_PARTS },
    Shape { blocks: 72, buffer: 12, ..OF_PARTS },
    // As full as it gets: each superblock that a cut costs is missed.
    Shape { blocks: 24, user: 0, ..SMALL },
    Shape { pages: 4, scheme: "none", user: 0, ..SMALL },
    // Ten map pages, so that checkpoints clean.
    TEN_MAP_PAGES,
    // The same on demand: nearly every command writes a map page.
    Shape { cached: 2, ..TEN_MAP_PAGES },
    Shape { blocks: 160, dies: 4, scheme: "sepbit", buffer: 12, user: 1250, cached: 3, care: BOTH, ..OF_PARTS },
    Shape { blocks: 124, scheme: "none", user: 640, cached: 2, ..SMALL },
    Shape { user: 160, care: READS, ..SMALL },
    Shape { blocks: 24, user: 0, care: AGE, ..SMALL },
    // As full as it gets, with one more superblock open.
    Shape { blocks: 24, user: 0, care: WEAR, ..SMALL },
    Shape { blocks: 40, user: 0, care: WEAR, ..OF_PARTS },
    // The layer works whenever the script pauses.
    Shape { user: 160, idle: Idle { after_us: 200, free: 8 }, ..SMALL },
    Shape { blocks: 64, scheme: "none", user: 120, idle: Idle { after_us: 900, free: 7 }, ..STRIPED },
    Shape { user: 160, care: READS, idle: Idle { after_us: 100, free: 0 }, ..SMALL },
    Shape {
        blocks: 160,
        dies: 4,
        scheme: "sepbit",
        buffer: 12,
        user: 1250,
        cached: 3,
        care: BOTH,
        idle: Idle { after_us: 300, free: 0 },
        ..OF_PARTS
    },
    Shape { user: 120, care: WEAR, idle: Idle { after_us: 150, free: 0 }, ..SMALL },
];

pub fn chip(shape: &Shape) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = SECTOR * shape.parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * shape.parts);
    (geometry.blocks, geometry.pages_per_block) = (shape.blocks, shape.pages);
    (geometry.dies, geometry.channels) = (shape.dies, shape.dies.min(2));
    ContentChip::new(&spec, 1).unwrap()
}

/// The shapes, with their capacities.
pub fn shapes() -> Vec<Shape> {
    let takes = |shape: &Shape, user: u64| PageMapFtl::format(chip(shape), options(&Shape { user, ..*shape })).is_ok();
    let most = |shape: &Shape| (1..1200).rev().find(|user| takes(shape, *user)).unwrap_or(1);
    SHAPES.iter().map(|shape| Shape { user: if shape.user > 0 { shape.user } else { most(shape) }, ..*shape }).collect()
}

pub fn options(shape: &Shape) -> PageMapOptions {
    PageMapOptions {
        spare: Spare::Capacity(u64::from(SECTOR) * shape.user),
        sector_size: SECTOR,
        separation: shape.scheme.parse::<Separation>().unwrap(),
        stripe: shape.stripe,
        write_buffer: shape.buffer * u64::from(SECTOR),
        mapping_cache: match shape.cached {
            0 => 0,
            cached => u64::from(SECTOR) * cached + 4 * shape.user.div_ceil(u64::from(SECTOR) / 4),
        },
        journal: Some(JournalOptions { checkpoint_every: 150, aliases: 24 }),
        read_refresh: shape.care.reads,
        retention_refresh: Nanos(shape.care.age_ms * 1_000_000),
        leveling_threshold: shape.care.difference,
        idle_after: Nanos::from_micros(shape.idle.after_us),
        idle_free: shape.idle.free,
        idle_gain: if shape.idle.after_us > 0 { 0.2 } else { 0.0 },
        ..PageMapOptions::default()
    }
}

/// Runs a script until the power goes, comes back, and goes on, as often as the plan says; then everything must be as the model allows, and stay so.
pub fn survives(shape: &Shape, script: &Script, plan: &CutPlan) -> Result<u64, String> {
    let options = options(shape);
    let device = PageMapFtl::format(CutFlash::new(chip(shape), CutPlan::None), options).map_err(|e| e.to_string())?;
    let mut model = Model::new(device.geometry().sectors, shape.buffer > 0);
    model.pauses = shape.idle.after_us > 0;
    let mut flash = device.into_flash();
    let formatted = flash.steps();
    flash.set_plan(shifted(plan, formatted));
    let mut random = Random::new(script.seed, "script");
    let mut left = script.commands;
    for _ in 0..40 {
        // Nothing is written before the first change: a start cannot be cut.
        let device = PageMapFtl::attach(&mut flash, options);
        let mut device = device.map_err(|error| format!("attach: {error}"))?;
        check_all(&device, &mut model).map_err(|what| format!("after a start: {what}"))?;
        device.check().map_err(|what| format!("after a start: {what}"))?;
        let result = model.run(&mut device, script, &mut random, &mut left);
        drop(device);
        match result {
            Ok(false) => {}
            Ok(true) => {
                let device = PageMapFtl::attach(&mut flash, options).map_err(|error| format!("at the end: {error}"))?;
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
        CutPlan::List(cuts) => CutPlan::List(cuts.iter().map(|cut| Cut { step: cut.step + by, ..*cut }).collect()),
        CutPlan::None => CutPlan::None,
        other => panic!("a plan that is no list: {other}"),
    }
}
