//! Runs of the page-mapped layer on small chips, with power cuts: shared by the tests and the soak.

use nandkit_block::BlockDevice;
use nandkit_cleaning::separation::Separation;
use nandkit_flash::Flash;
use nandkit_flash::wrap::{Cut, CutFlash, CutPlan};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Nanos};

use super::page_causes::CauseFlash;
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
    /// Number of the host's logical pages; 0: as many as the layer allows.
    pub user: u64,
    /// Map pages in the map's cache; 0: the whole map is in memory.
    pub cached: u64,
    pub care: Care,
    /// Work in idle times; none if the time is 0.
    pub idle: Idle,
    /// Number of blocks that the factory marked bad, all on the second die.
    pub bad: usize,
    /// Number of programs that fail in a run; half as many erases fail.
    pub failures: u64,
}

/// Idle work starts after this many microseconds and ends when this many superblocks are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    pub after_us: u64,
    pub free: u32,
}

const BUSY: Idle = Idle { after_us: 0, free: 0 };

/// When data are moved for their own sake; 0: never.
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
    bad: 0,
    failures: 0,
};

const STRIPED: Shape = Shape { dies: 4, stripe: 2, ..SMALL };

const OF_PARTS: Shape = Shape { parts: 4, user: 250, dies: 2, ..STRIPED };

const TEN_MAP_PAGES: Shape = Shape { blocks: 220, user: 1250, ..SMALL };

/// Spare blocks of one die replace those that fail on it. On the others each failure costs a
/// superblock, whose other block then becomes a spare one.
const FAILING: Shape = Shape { blocks: 88, bad: 3, failures: 6, ..STRIPED };

const SHAPES: [Shape; 25] = [
    SMALL,
    Shape { blocks: 64, scheme: "none", ..STRIPED },
    Shape { blocks: 56, ..OF_PARTS },
    Shape { blocks: 96, dies: 4, stripe: 1, parts: 2, scheme: "sepbit", ..OF_PARTS },
    Shape { blocks: 72, buffer: 12, ..OF_PARTS },
    // The fullest device possible, on which every superblock that a cut costs is missed.
    Shape { blocks: 24, user: 0, ..SMALL },
    Shape { pages: 4, scheme: "none", user: 0, ..SMALL },
    // Ten map pages, so that checkpoints clean.
    TEN_MAP_PAGES,
    // With the map on demand: nearly every command writes a map page.
    Shape { cached: 2, ..TEN_MAP_PAGES },
    Shape { blocks: 160, dies: 4, scheme: "sepbit", buffer: 12, user: 1250, cached: 3, care: BOTH, ..OF_PARTS },
    Shape { blocks: 124, scheme: "none", user: 640, cached: 2, ..SMALL },
    Shape { user: 160, care: READS, ..SMALL },
    Shape { blocks: 24, user: 0, care: AGE, ..SMALL },
    // The fullest device possible, with one more open superblock.
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
    // Blocks fail.
    FAILING,
    Shape { blocks: 56, failures: 6, ..SMALL },
    Shape { blocks: 120, bad: 4, failures: 8, buffer: 12, ..OF_PARTS },
    Shape { blocks: 152, stripe: 4, dies: 4, bad: 2, failures: 6, care: WEAR, ..STRIPED },
    Shape { blocks: 240, bad: 2, failures: 8, cached: 2, dies: 2, ..TEN_MAP_PAGES },
];

pub fn chip(shape: &Shape) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = SECTOR * shape.parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * shape.parts);
    (geometry.blocks, geometry.pages_per_block) = (shape.blocks, shape.pages);
    (geometry.dies, geometry.channels) = (shape.dies, shape.dies.min(2));
    let mut chip = ContentChip::new(&spec, 1).unwrap();
    let geometry = *chip.geometry();
    let of_second = (0..shape.blocks).rev().map(BlockIndex).filter(|block| geometry.die_of(*block) == 1);
    for block in of_second.take(shape.bad) {
        chip.mark_bad(&Context::default(), block).unwrap();
    }
    chip
}

/// The chip of a run, on which programs and erases fail as the shape says, at distances that the
/// seed determines.
pub fn failing_chip(shape: &Shape, seed: u64) -> ContentChip {
    let mut chip = chip(shape);
    let mut random = Random::new(seed, "failures");
    // No failure while the device is being formatted.
    let (mut program, mut erase) = (40, u64::from(shape.blocks));
    let programs = (0..shape.failures).map(|_| {
        program += random.between(20, 200);
        program
    });
    let programs = programs.collect();
    let erases = (0..shape.failures / 2).map(|_| {
        erase += random.between(4, 40);
        erase
    });
    chip.script_failures(FailureScript { programs, erases: erases.collect(), ..FailureScript::default() });
    chip
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

/// A chip whose power is cut and comes back.
pub trait Powered: Flash {
    fn is_off(&self) -> bool;
    fn power_on(&mut self);
    /// Called before a device is attached to the chip.
    fn start(&mut self) {}
}

impl Powered for CutFlash<ContentChip> {
    fn is_off(&self) -> bool {
        self.is_off()
    }
    fn power_on(&mut self) {
        self.power_on();
    }
}

impl Powered for CauseFlash {
    fn is_off(&self) -> bool {
        self.inner.is_off()
    }
    fn power_on(&mut self) {
        self.power_on();
    }
    fn start(&mut self) {
        self.start();
    }
}

#[allow(dead_code, reason = "the soak cuts by lot")]
/// Runs a script and cuts the power as often as the plan says. After each cut, everything must be
/// as the model allows, and stay so. Returns the number of steps.
pub fn survives(shape: &Shape, script: &Script, plan: &CutPlan) -> Result<u64, String> {
    let mut flash = CutFlash::new(failing_chip(shape, script.seed), CutPlan::None);
    let mut formatted = 0;
    survives_on(&mut flash, shape, script, |flash| {
        formatted = flash.steps();
        flash.set_plan(shifted(plan, formatted));
    })?;
    Ok(flash.steps() - formatted)
}

/// As [`survives`], on a chip that cuts by itself, from `begin` on.
pub fn survives_on<F: Powered>(
    flash: &mut F,
    shape: &Shape,
    script: &Script,
    begin: impl FnOnce(&mut F),
) -> Result<(), String> {
    let options = options(shape);
    let device = PageMapFtl::format(&mut *flash, options).map_err(|e| e.to_string())?;
    let mut model = Model::new(device.geometry().sectors, shape.buffer > 0);
    model.pauses = shape.idle.after_us > 0;
    drop(device);
    begin(flash);
    let mut random = Random::new(script.seed, "script");
    let mut left = script.commands;
    for _ in 0..STARTS_MAX {
        flash.start();
        // Nothing is written before the first change: a start cannot be cut.
        let device = PageMapFtl::attach(&mut *flash, options);
        let mut device = device.map_err(|error| format!("attach: {error}"))?;
        check_all(&device, &mut model).map_err(|what| format!("after a start: {what}"))?;
        device.check().map_err(|what| format!("after a start: {what}"))?;
        let result = model.run(&mut device, script, &mut random, &mut left);
        drop(device);
        match result {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) if flash.is_off() => {
                flash.power_on();
                continue;
            }
            // After many failed blocks the device may be full; its content must still be there.
            Err(error) if shape.failures > 0 && error.contains(FULL) => {}
            Err(error) => return Err(error),
        }
        let device = PageMapFtl::attach(&mut *flash, options).map_err(|error| format!("at the end: {error}"))?;
        check_all(&device, &mut model).map_err(|what| format!("at the end: {what}"))?;
        return device.check().map_err(|what| format!("at the end: {what}"));
    }
    Err("the script did not end".into())
}

/// The message of a device without a good free block.
const FULL: &str = "no good free block is left";

/// More starts than any plan has cuts.
const STARTS_MAX: usize = 50;

#[allow(dead_code, reason = "the soak cuts by lot")]
/// The plan with `by` added to each step.
pub fn shifted(plan: &CutPlan, by: u64) -> CutPlan {
    match plan {
        CutPlan::List(cuts) => CutPlan::List(cuts.iter().map(|cut| Cut { step: cut.step + by, ..*cut }).collect()),
        CutPlan::None => CutPlan::None,
        other => panic!("a plan that is no list: {other}"),
    }
}
