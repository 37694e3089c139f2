//! The page-mapped layer on several dies, cut at instants: one operation in each die is torn, and
//! later ones may be complete before earlier ones.

use crate::common::page_model::bytes_of;
use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_cleaning::separation::Separation;
use nandkit_flash::{Flash, TornErase, TornPage};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, FailureScript};
use nandkit_testkit::record::{ChangeReplay, RecordingFlash};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos, Payload, ReadInto};

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: u32,
    dies: u32,
    stripe: u32,
    parts: u32,
    scheme: &'static str,
    user: u64,
    /// Map pages in the map's cache; 0: the whole map is in memory.
    cached: u64,
    /// Whether data are refreshed and levelled, as often as the script allows.
    cares: bool,
    /// Whether the device works in idle times, of which there are then some.
    idle: bool,
    /// Number of programs that fail in a run.
    failures: u64,
}

const PLAIN: Shape = Shape {
    blocks: 64,
    dies: 4,
    stripe: 1,
    parts: 1,
    scheme: "user-moved",
    user: 150,
    cached: 0,
    cares: false,
    idle: false,
    failures: 0,
};

const SHAPES: [Shape; 10] = [
    // Copies out of a superblock with a failed block, and the mark of that block, are on different
    // dies.
    Shape { blocks: 96, failures: 12, ..PLAIN },
    Shape { blocks: 160, stripe: 2, parts: 2, scheme: "none", user: 200, failures: 8, ..PLAIN },
    Shape { stripe: 4, ..PLAIN },
    Shape { scheme: "none", ..PLAIN },
    Shape { blocks: 80, dies: 8, stripe: 2, parts: 2, user: 200, ..PLAIN },
    Shape { blocks: 96, stripe: 2, scheme: "chain", ..PLAIN },
    Shape { blocks: 128, dies: 8, user: 500, cached: 2, ..PLAIN },
    Shape { blocks: 128, dies: 8, stripe: 2, parts: 2, scheme: "none", user: 900, cached: 2, cares: true, ..PLAIN },
    Shape { user: 200, idle: true, ..PLAIN },
    Shape {
        blocks: 128,
        dies: 8,
        stripe: 2,
        parts: 2,
        scheme: "none",
        user: 900,
        cached: 2,
        cares: true,
        idle: true,
        ..PLAIN
    },
];

fn chip(shape: &Shape) -> ContentChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    let size = SECTOR as u32 * shape.parts;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (size, size, 16 * shape.parts);
    (geometry.blocks, geometry.pages_per_block) = (shape.blocks, 8);
    (geometry.dies, geometry.channels) = (shape.dies, shape.dies.min(2));
    (spec.timing.overlap, spec.timing.bus_ps_per_byte) = (true, 25_000);
    ContentChip::new(&spec, 1).unwrap()
}

fn options(shape: &Shape) -> PageMapOptions {
    PageMapOptions {
        spare: Spare::Capacity(SECTOR as u64 * shape.user),
        sector_size: SECTOR as u32,
        separation: shape.scheme.parse::<Separation>().unwrap(),
        stripe: shape.stripe,
        mapping_cache: match shape.cached {
            0 => 0,
            cached => SECTOR as u64 * cached + 4 * shape.user.div_ceil(SECTOR as u64 / 4),
        },
        journal: Some(JournalOptions { checkpoint_every: 200, aliases: 24 }),
        read_refresh: if shape.cares { 4 } else { 0 },
        retention_refresh: Nanos(if shape.cares { 60_000_000 } else { 0 }),
        leveling_threshold: u32::from(shape.cares),
        idle_after: Nanos(if shape.idle { 300_000 } else { 0 }),
        idle_gain: if shape.idle { 0.1 } else { 0.0 },
        ..PageMapOptions::default()
    }
}

/// A request for a sector: when it was issued, what the sector then holds, and from when on a cut
/// cannot undo it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    issued: Nanos,
    durable: Option<Nanos>,
    version: Option<u64>,
}

struct Run {
    /// On a chip on which nothing fails.
    replay: ChangeReplay<ContentChip>,
    history: Vec<Vec<Asked>>,
    /// When formatting ended.
    made: Nanos,
}

/// A chip on which programs fail at distances that the seed determines.
fn failing_chip(shape: &Shape, seed: u64) -> ContentChip {
    let mut flash = chip(shape);
    let mut random = Random::new(seed, "failures");
    let mut program = 20;
    let programs = (0..shape.failures).map(|_| {
        program += random.between(10, 100);
        program
    });
    flash.script_failures(FailureScript { programs: programs.collect(), ..FailureScript::default() });
    flash
}

/// Issues writes, trims, remaps and flushes, several in flight at once.
fn run(shape: &Shape, seed: u64, commands: u64) -> Run {
    let (flash, changes) = RecordingFlash::new(failing_chip(shape, seed));
    let mut device = PageMapFtl::format(flash, options(shape)).unwrap();
    let sectors = device.geometry().sectors;
    let made = device.flush(&Context::default()).unwrap().completed;
    let mut history = vec![Vec::<Asked>::new(); sectors as usize];
    let mut random = Random::new(seed, "instants");
    let (mut now, mut next) = (made, 0);
    for _ in 0..commands {
        if shape.idle {
            now += Nanos(if random.below(6) == 0 { random.below(12_000_000) } else { 0 });
            if random.below(2) == 0 {
                device.pacing().unwrap().quiet_until(now);
            }
        }
        let context = Context::at(now);
        let reach = if random.below(2) == 0 { sectors } else { 20 };
        let first = random.below(reach);
        let count = random.between(1, 6).min(sectors - first);
        let completed = match random.below(100) {
            0..70 => {
                next += 1;
                let data = bytes_of(Some(next), SECTOR).repeat(count as usize);
                let done = device.write(&context, Lba(first), Payload::Bytes(&data)).unwrap();
                let asked = Asked { issued: now, durable: Some(done.completed), version: Some(next) };
                (first..first + count).for_each(|sector| history[sector as usize].push(asked));
                done.completed
            }
            70..82 => {
                let done = device.trim().unwrap().trim(&context, Lba(first), count).unwrap();
                let asked = Asked { issued: now, durable: None, version: None };
                (first..first + count).for_each(|sector| history[sector as usize].push(asked));
                done.completed
            }
            82..92 => {
                let target = random.below(sectors);
                let holds = |sector: u64| history[sector as usize].last().and_then(|asked: &Asked| asked.version);
                let Some(version) = holds(first).filter(|_| target != first) else { continue };
                let moves = random.below(2) == 0;
                let pairs = [(Lba(first), Lba(target))];
                let remap = device.remap().unwrap();
                let done = if moves { remap.remap_move(&context, &pairs) } else { remap.share(&context, &pairs) };
                let done = match done {
                    Ok(done) => done,
                    Err(error) if error.kind == ErrorKind::Full => continue,
                    Err(error) => panic!("{error}"),
                };
                flushed(&mut history, done.completed);
                let asked = Asked { issued: now, durable: Some(done.completed), version: Some(version) };
                history[target as usize].push(asked);
                if moves {
                    history[first as usize].push(Asked { version: None, ..asked });
                }
                done.completed
            }
            _ => {
                let done = device.flush(&context).unwrap();
                flushed(&mut history, done.completed);
                done.completed
            }
        };
        // Often long before the last command is done.
        now = Nanos(now.0.max(completed.0.saturating_sub(random.below(1_500_000))));
    }
    device.check().unwrap();
    assert!(device.counters().retired_blocks * 2 >= shape.failures, "{:?}", device.counters());
    let idle = device.idle_counters().unwrap_or_default();
    assert!(!shape.idle || idle.cleanings + idle.moves > 10, "{idle:?}");
    Run { replay: ChangeReplay::new(chip(shape), changes.take()), history, made }
}

fn flushed(history: &mut [Vec<Asked>], at: Nanos) {
    history.iter_mut().flatten().for_each(|asked| asked.durable = asked.durable.or(Some(at)));
}

/// Checks the device cut at an instant: each sector holds the last content that was durable then,
/// or a later one. The device can be changed, and attached again.
fn survives(shape: &Shape, run: &Run, instant: Nanos, seed: u64) -> Result<u32, String> {
    let mut random = Random::new(seed ^ instant.0, "torn");
    let torn = |_: usize| {
        let kind = random.below(4) as usize;
        let pages = [TornPage::Nothing, TornPage::Whole, TornPage::Prefix, TornPage::Garbage];
        let erases = [TornErase::Nothing, TornErase::Whole, TornErase::Half, TornErase::Weak];
        (pages[kind], erases[kind])
    };
    let (mut flash, count) = run.replay.cut_at(instant, torn).map_err(|error| error.to_string())?;
    let mut device = PageMapFtl::attach(&mut flash, options(shape)).map_err(|error| format!("attach: {error}"))?;
    device.check().map_err(|what| format!("after the cut: {what}"))?;
    let mut held = Vec::new();
    for (sector, asked) in (0..).zip(&run.history) {
        let found = read(&device, sector)?;
        let durable = |asked: &Asked| asked.durable.is_some_and(|durable| durable <= instant);
        let from = asked.iter().rposition(durable);
        let before = if from.is_none() { Some(None) } else { None };
        let later = asked.iter().skip(from.unwrap_or(0)).filter(|asked| asked.issued <= instant);
        let allowed: Vec<Option<u64>> = before.into_iter().chain(later.map(|asked| asked.version)).collect();
        if !allowed.iter().any(|version| bytes_of(*version, SECTOR) == found) {
            return Err(format!("sector {sector} holds {:02x?}..., allowed are {allowed:?}", &found[..8]));
        }
        held.push(found);
    }
    // The device continues: half of it is rewritten, and all of it is there after another start.
    for _ in 0..held.len() / 2 {
        let sector = random.below(held.len() as u64);
        held[sector as usize] = bytes_of(Some(sector << 20), SECTOR);
        device
            .write(&Context::default(), Lba(sector), Payload::Bytes(&held[sector as usize]))
            .map_err(|error| format!("going on: {error}"))?;
    }
    device.flush(&Context::default()).map_err(|error| error.to_string())?;
    device.check().map_err(|what| format!("going on: {what}"))?;
    drop(device);
    let device = PageMapFtl::attach(&mut flash, options(shape)).map_err(|error| format!("second start: {error}"))?;
    device.check().map_err(|what| format!("second start: {what}"))?;
    for (sector, expected) in (0..).zip(&held) {
        if read(&device, sector)? != *expected {
            return Err(format!("sector {sector} reads differently after a second start"));
        }
    }
    Ok(count)
}

fn read<F: Flash>(device: &PageMapFtl<F>, sector: u64) -> Result<Vec<u8>, String> {
    let mut found = vec![0xEE; SECTOR];
    device
        .read(&Context::default(), Lba(sector), ReadInto::Bytes(&mut found))
        .map_err(|error| format!("sector {sector}: {error}"))?;
    Ok(found)
}

#[test]
fn cuts_at_instants_are_survived() {
    for (seed, shape) in (0..).zip(SHAPES.iter().filter(|shape| shape.failures == 0)) {
        instants(shape, seed);
    }
}

/// A mark that was on flash before the copies, or before the line after which no start takes them
/// back, lost the block's content, as a start does not read a marked block.
#[test]
fn cuts_at_instants_lose_nothing_while_failed_blocks_are_emptied_marked_and_replaced() {
    for (seed, shape) in (0..).zip(SHAPES.iter().filter(|shape| shape.failures > 0).cycle().take(4)) {
        instants(shape, seed);
    }
}

/// Of so many instants one is tried; the seed says which is the first.
const EVERY: usize = 3;

fn instants(shape: &Shape, seed: u64) {
    let run = run(shape, seed, 300);
    let instants = run.replay.instants().into_iter().filter(|at| *at > run.made);
    let instants: Vec<Nanos> = instants.skip(seed as usize % EVERY).step_by(EVERY).collect();
    let mut torn = [0u32; 9];
    for &instant in &instants {
        let count = survives(shape, &run, instant, seed)
            .unwrap_or_else(|what| panic!("{what}; at {} ns with seed {seed}, {shape:?}", instant.0));
        torn[count.min(8) as usize] += 1;
    }
    println!("{shape:?}: {} instants; by torn operations: {torn:?}", instants.len());
    assert!(torn[2..].iter().sum::<u32>() > 15, "few instants tear several operations: {torn:?}");
}
