//! The page-mapped layer in idle times, and the waits of its host: timelines by hand, and random
//! operations with pauses.

use std::sync::{Arc, Mutex};

use crate::common::page_model::{Model, Script, check_all};
use crate::common::page_runs;
use nandkit_block::BlockDevice;
use nandkit_flash::Flash;
use nandkit_flash::wrap::{CutFlash, CutPlan, FlashEvent, TraceFlash};
use nandkit_ftl::page_map::{JournalOptions, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, ContentChip, DescribedChip};
use nandkit_units::random::Random;
use nandkit_units::{Cause, Context, Described, Lba, Nanos, Payload, ReadInto};

const PAGE: u32 = 512;
const PAGES: u32 = 8;
const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const ERASE: u64 = 1_500_000;
const SECOND: u64 = 1_000_000_000;

fn spec(blocks: u32, dies: u32) -> ChipSpec {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE, PAGE, 16);
    (geometry.blocks, geometry.pages_per_block) = (blocks, PAGES);
    (geometry.dies, geometry.channels) = (dies, dies.min(2));
    (spec.timing.read_ns, spec.timing.program_ns, spec.timing.erase_ns) =
        (nandkit_nand_sim::PageTimes::All(READ), nandkit_nand_sim::PageTimes::All(PROGRAM), ERASE);
    (spec.timing.bus_ps_per_byte, spec.timing.command_ns) = (0, 0);
    spec.timing.overlap = dies > 1;
    spec
}

fn data() -> Payload<'static> {
    Payload::Described(Described { length: PAGE, ..Described::default() })
}

/// The flash operations: when each was issued, its cause, and when it ended.
type Events = Arc<Mutex<Vec<(Nanos, Cause, Nanos)>>>;

fn traced(blocks: u32, dies: u32) -> (impl Flash, Events) {
    let events = Events::default();
    let into = Arc::clone(&events);
    let sink = move |event: FlashEvent| {
        let end = event.result.map_or_else(|(_, end)| end, |done| done.completed);
        into.lock().unwrap().push((event.context.issued, event.context.counted_cause(), end));
    };
    (TraceFlash::new(DescribedChip::new(&spec(blocks, dies), 1).unwrap(), sink), events)
}

/// Options of a device in memory, on one die. Its superblocks are blocks of eight pages, of which
/// four hold the 32 pages of the host.
fn in_memory(idle_after: Nanos, idle_free: u32) -> PageMapOptions {
    PageMapOptions {
        spare: Spare::Capacity(32 * u64::from(PAGE)),
        separation: "none".parse().unwrap(),
        journal: None,
        idle_after,
        idle_free,
        ..PageMapOptions::default()
    }
}

struct Hand<F> {
    device: PageMapFtl<F>,
    now: Nanos,
}

impl<F: Flash> Hand<F> {
    fn new(flash: F, options: PageMapOptions) -> Self {
        let device = PageMapFtl::format(flash, options).unwrap();
        let now = device.opened();
        Self { device, now }
    }

    /// Writes a page now, waits for it, and returns the time that it took.
    fn write(&mut self, page: u64) -> u64 {
        let done = self.device.write(&Context::at(self.now), Lba(page), data()).unwrap();
        let took = done.completed.0 - self.now.0;
        self.now = done.completed;
        took
    }

    fn pause_until(&mut self, instant: Nanos) {
        if let Some(pacing) = self.device.pacing() {
            pacing.quiet_until(instant);
        }
        self.now = instant;
    }
}

/// A device of nine blocks, four of them full. Overwriting the first six pages of each of three
/// others leaves one victim with two valid pages when only the two blocks are free that are kept
/// free.
fn nearly_full(idle_after: Nanos) -> Hand<DescribedChip> {
    let mut hand = Hand::new(
        DescribedChip::new(&spec(9, 1), 1).unwrap(),
        in_memory(idle_after, if idle_after == Nanos::ZERO { 0 } else { 3 }),
    );
    (0..32).for_each(|page| assert_eq!(hand.write(page), PROGRAM));
    // Each of the four superblocks loses six pages.
    (0..24).for_each(|step| assert_eq!(hand.write(step / 6 * 8 + step % 6), PROGRAM));
    assert_eq!(hand.device.counters().cleanings, 0);
    hand
}

#[test]
fn idle_cleaning_removes_exactly_the_stall_that_occurs_without_it() {
    // The next page needs a superblock, and two must stay free, so one of those with two valid
    // pages is cleaned first: its two pages are read, a superblock that was never written is opened
    // for them, and the host's page follows them.
    let clean = 2 * READ + 2 * PROGRAM;
    let mut busy = nearly_full(Nanos::ZERO);
    assert!(busy.device.pacing().is_none(), "drivers keep their fast path");
    busy.pause_until(Nanos(SECOND));
    let without = busy.write(0);
    let mut idle = nearly_full(Nanos(1000));
    let active = idle.now;
    idle.pause_until(Nanos(SECOND));
    let counted = idle.device.idle_counters().unwrap();
    // Two, since the copies of the first one take a free superblock.
    assert_eq!(counted.cleanings, 2, "{counted:?}");
    assert_eq!((counted.worked, counted.overruns.count), (Nanos(2 * clean), 0), "begun at {active:?}");
    let with = idle.write(0);
    println!("without {without} ns, with {with} ns");
    assert_eq!(with, PROGRAM);
    assert_eq!(without - with, clean);
    assert_eq!(busy.device.counters().cleanings, 1);
    idle.device.check().unwrap();
}

/// Idle work starts when there was no request for long enough. No superblock is started at or after
/// the instant that the host announces. The previous one may end later, which is counted.
#[test]
fn no_superblock_is_begun_at_the_instant_or_later_and_what_ends_later_is_counted() {
    let (after, clean) = (1000, 2 * READ + 2 * PROGRAM);
    let done = |device: &PageMapFtl<DescribedChip>| device.idle_counters().unwrap();
    let mut hand = nearly_full(Nanos(after));
    let begins = hand.now.0 + after;
    hand.pause_until(Nanos(begins));
    assert_eq!(done(&hand.device).cleanings, 0);
    hand.pause_until(Nanos(begins + 1));
    let counted = done(&hand.device);
    assert_eq!((counted.cleanings, counted.overruns.count, counted.overruns.longest), (1, 1, Nanos(clean - 1)));
    // Another request within it, or a write entering meanwhile, has the same delay.
    hand.pause_until(Nanos(begins + 2));
    hand.write(31);
    assert_eq!(done(&hand.device), counted);
    // Two more victims, one after the other: the second one starts exactly when the first one has
    // ended.
    let options = PageMapOptions { spare: Spare::Capacity(96 * u64::from(PAGE)), ..in_memory(Nanos(after), 7) };
    let victims = |until: u64| {
        let mut hand = Hand::new(DescribedChip::new(&spec(21, 1), 1).unwrap(), options);
        (0..96).for_each(|page| assert_eq!(hand.write(page), PROGRAM));
        // Every superblock loses four pages.
        (0..48).for_each(|step| assert_eq!(hand.write(step / 4 * 8 + step % 4), PROGRAM));
        let begins = hand.now.0 + after;
        hand.pause_until(Nanos(begins + until));
        (done(&hand.device).cleanings, done(&hand.device).overruns.total.0)
    };
    let clean = 4 * READ + 4 * PROGRAM;
    assert_eq!(victims(0), (0, 0));
    assert_eq!(victims(clean), (1, 0));
    assert_eq!(victims(clean + 1), (2, clean - 1));
    // Seven superblocks are free after five victims, which is enough.
    assert_eq!(victims(SECOND).1, 0);
    assert_eq!(victims(SECOND), victims(100 * SECOND));
}

/// File systems do not announce how long they pause: the next change finds the idle time before it
/// used.
#[test]
fn without_a_word_of_the_driver_the_next_change_uses_what_was_idle() {
    type Change = fn(&mut PageMapFtl<DescribedChip>, &Context);
    let changes: [Change; 3] = [
        |device, context| device.write(context, Lba(0), data()).map(|_| ()).unwrap(),
        |device, context| device.trim().unwrap().trim(context, Lba(0), 1).map(|_| ()).unwrap(),
        |device, context| device.flush(context).map(|_| ()).unwrap(),
    ];
    for change in changes {
        let mut hand = nearly_full(Nanos(1000));
        change(&mut hand.device, &Context::at(hand.now));
        assert_eq!(hand.device.idle_counters().unwrap().cleanings, 0);
        let mut hand = nearly_full(Nanos(1000));
        change(&mut hand.device, &Context::at(Nanos(SECOND)));
        let counted = hand.device.idle_counters().unwrap();
        assert_eq!((counted.cleanings, counted.overruns.count), (2, 0));
    }
}

#[test]
fn a_read_is_activity_from_which_idle_time_counts() {
    let mut hand = nearly_full(Nanos(SECOND));
    let quiet = |hand: &mut Hand<DescribedChip>, until: u64| {
        hand.pause_until(Nanos(until));
        hand.device.idle_counters().unwrap().cleanings
    };
    let mut at = hand.now.0;
    for _ in 0..5 {
        at += SECOND * 9 / 10;
        assert_eq!(quiet(&mut hand, at), 0);
        let read = hand.device.read(&Context::at(Nanos(at)), Lba(3), ReadInto::Nothing { length: PAGE }).unwrap();
        at = read.completed.0;
    }
    assert_eq!(quiet(&mut hand, at + SECOND), 0);
    assert_eq!(quiet(&mut hand, at + SECOND + 1), 1);
}

/// Each request of twenty pages opens two superblocks of eight or three and waits for each. That is
/// one stall, as long as the longest of its waits.
#[test]
fn a_request_that_waits_for_several_superblocks_is_one_stall() {
    let options = PageMapOptions { spare: Spare::Ratio(0.5), ..PageMapOptions::default() };
    let (flash, events) = traced(64, 1);
    let mut hand = Hand::new(flash, options);
    let sectors = hand.device.geometry().sectors;
    let mut random = Random::new(3, "stalls");
    let request = |hand: &mut Hand<_>, random: &mut Random| {
        let payload = Payload::Described(Described { length: 20 * PAGE, ..Described::default() });
        let at = Lba(random.below(sectors - 20));
        let done = hand.device.write(&Context::at(hand.now), at, payload).unwrap();
        let took = done.completed.since(hand.now);
        hand.now = done.completed;
        took
    };
    for _ in 0..200 {
        request(&mut hand, &mut random);
    }
    let before = hand.device.stalls();
    events.lock().unwrap().clear();
    let elapsed: Nanos = (0..100).map(|_| request(&mut hand, &mut random)).sum();
    let counted = hand.device.stalls().since(&before);
    println!("{counted:?} in {elapsed}");
    assert_eq!(counted.erases.count + counted.cleaning.count, 100);
    assert_eq!(counted.by_length.iter().sum::<u64>(), 100);
    assert!(counted.cleaning.count > 80 && counted.cleaning.longest >= Nanos(ERASE));
    // One request at a time: no two stalls overlap, and the waits of a request lie within the
    // longest one, since all its pages are requested at once.
    assert_eq!(counted.stalled, counted.erases.total + counted.cleaning.total);
    assert!(counted.stalled < elapsed);
    let erased = events.lock().unwrap().iter().filter(|(_, cause, _)| *cause == Cause::Cleaning).count();
    assert!(erased > 250, "{erased}");
}

/// Cleaning in one long pause is followed by checkpoints as often as writes of the host are, so
/// that the next start replays no more.
#[test]
fn a_checkpoint_that_is_due_comes_before_the_next_victim() {
    let every = 64;
    let options = PageMapOptions {
        spare: Spare::Ratio(0.6),
        journal: Some(JournalOptions { checkpoint_every: every, aliases: 0 }),
        idle_after: Nanos(1000),
        idle_gain: 0.05,
        ..PageMapOptions::default()
    };
    let mut most = 0;
    for seed in 0..10 {
        let chip = DescribedChip::new(&spec(200, 1), 1).unwrap();
        let most_free = PageMapFtl::format(chip.clone(), PageMapOptions { idle_free: u32::MAX, ..options });
        let text = most_free.unwrap_err().to_string();
        let idle_free = text.split(" to ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        let mut hand = Hand::new(chip, PageMapOptions { idle_free, ..options });
        let sectors = hand.device.geometry().sectors;
        let mut random = Random::new(seed, "checkpoints");
        for page in 0..sectors {
            hand.write(page);
        }
        for _ in 0..2 * sectors {
            hand.write(random.below(sectors));
        }
        let copied = hand.device.counters().copied_pages;
        hand.pause_until(Nanos(hand.now.0 + 1000 * SECOND));
        let (copied, counted) = (hand.device.counters().copied_pages - copied, hand.device.idle_counters().unwrap());
        hand.device.check().unwrap();
        let found = PageMapFtl::attach(hand.device.into_flash(), options).unwrap();
        let replayed = found.recovery().replayed;
        println!("{copied} pages copied, {counted:?}, {replayed} replayed");
        assert!(copied > 3 * every && counted.checkpoints >= copied / (every + 2 * u64::from(PAGES)), "{counted:?}");
        most = most.max(replayed);
    }
    // The excess is one victim, its lines, and the pages of the map.
    assert!(most <= every + 4 * u64::from(PAGES), "{most}");
}

/// Reads disturb what they read, and there are no writes: see `page_map_care.rs`.
#[test]
fn a_device_that_is_only_read_is_refreshed_in_idle_times() {
    for idle_after in [Nanos::ZERO, Nanos(100_000)] {
        let mut spec = spec(96, 1);
        (spec.ecc.code_word_bytes, spec.ecc.correctable_bits, spec.geometry.pages_per_block) = (PAGE, 8, 16);
        let errors = &mut spec.bit_errors;
        errors.enabled = true;
        (errors.base, errors.wear, errors.retention, errors.shape) = (0.0, 0.0, 0.0, 0);
        (errors.disturb, errors.disturb_exponent) = (1.0 / (528.0 * 8.0 * 500.0), 0.0);
        let options =
            PageMapOptions { spare: Spare::Ratio(0.6), read_refresh: 400, idle_after, ..PageMapOptions::default() };
        let chip = ContentChip::new(&spec, 3).unwrap();
        let mut hand = Hand::new(chip, options);
        let sectors = hand.device.geometry().sectors;
        for page in 0..sectors {
            hand.write(page);
        }
        let (mut random, mut failed) = (Random::new(1, "disturb"), 0);
        for round in 0..30_000u32 {
            let length = PAGE;
            let read = hand.device.read(&Context::at(hand.now), Lba(random.below(12)), ReadInto::Nothing { length });
            failed += u32::from(read.is_err());
            let pause = if round % 50 == 0 { 10_000_000 } else { 0 };
            hand.pause_until(Nanos(hand.now.0 + READ + pause));
        }
        let (by_reads, _) = hand.device.refreshed_superblocks();
        println!("idle after {idle_after}: {failed} reads failed, {by_reads} refreshes");
        match idle_after {
            Nanos::ZERO => assert!(failed > 10_000 && by_reads == 0),
            _ => assert!(failed == 0 && (50..=100).contains(&by_reads), "{failed}, {by_reads}"),
        }
        hand.device.check().unwrap();
    }
}

/// In a pause of four hundred days the data are moved every ten days, each superblock when it is
/// due.
#[test]
fn what_rests_in_a_long_pause_is_refreshed_when_it_is_due() {
    let day = 86_400 * SECOND;
    let options = PageMapOptions {
        spare: Spare::Ratio(0.6),
        retention_refresh: Nanos(10 * day),
        idle_after: Nanos(SECOND),
        ..PageMapOptions::default()
    };
    let mut hand = Hand::new(DescribedChip::new(&spec(96, 1), 3).unwrap(), options);
    let sectors = hand.device.geometry().sectors;
    for page in 0..sectors {
        hand.write(page);
    }
    hand.pause_until(Nanos(400 * day));
    let (_, by_age) = hand.device.refreshed_superblocks();
    let holding = sectors.div_ceil(u64::from(PAGES));
    assert!(by_age >= 39 * holding && by_age <= 42 * (holding + 2), "{by_age} of {holding}");
    assert_eq!(hand.device.idle_counters().unwrap().overruns.count, 0);
    hand.device.check().unwrap();
}

/// The same commands and pauses on a device that works in the pauses and on one that does not: both
/// hold what the model says, and so the same.
#[test]
fn content_is_the_same_with_and_without_idle_work() {
    let shapes = page_runs::shapes();
    let mut compared = 0;
    for (seed, shape) in (0..).zip(shapes.iter().filter(|shape| shape.idle.after_us > 0)) {
        let with = page_runs::options(shape);
        let mut without = PageMapOptions { idle_after: Nanos::ZERO, ..with };
        (without.idle_free, without.idle_gain) = (0, 0.0);
        let mut worked = 0;
        let held = [with, without].map(|options| {
            let mut device = PageMapFtl::format(page_runs::chip(shape), options).unwrap();
            let mut model = Model::new(device.geometry().sectors, shape.buffer > 0);
            model.pauses = true;
            let script = Script { seed, commands: 4000, restart_every: 0, durable_every: 5 };
            let mut random = Random::new(seed, "script");
            model.run(&mut device, &script, &mut random, &mut script.commands.clone()).unwrap();
            check_all(&device, &mut model).unwrap();
            device.check().unwrap();
            if let Some(counted) = device.idle_counters() {
                println!("{shape:?}: {counted:?}, WAF {:?}", device.counters().waf());
                worked = counted.cleanings + counted.moves;
            }
            let mut bytes = vec![0; device.geometry().sectors as usize * PAGE as usize];
            device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
            (bytes, model.remaps)
        });
        assert!(worked > 20, "{shape:?}: {worked}");
        // At the limit of aliases, one device may refuse a remap that the other one has room for;
        // the model knows.
        if held[0].1 == held[1].1 {
            assert!(held[0].0 == held[1].0, "{shape:?}");
            compared += 1;
        }
    }
    assert!(compared >= 3, "{compared}");
}

/// A power cut in an idle time is reported by the next operation.
#[test]
fn what_fails_while_nobody_asks_is_told_by_the_next_operation() {
    let shape = page_runs::shapes().into_iter().find(|shape| shape.idle.after_us > 0).unwrap();
    let options = page_runs::options(&shape);
    let mut told = 0;
    for step in 1..40 {
        let device = PageMapFtl::format(CutFlash::new(page_runs::chip(&shape), CutPlan::None), options).unwrap();
        let mut hand = Hand { now: device.opened(), device };
        let sectors = hand.device.geometry().sectors;
        let mut random = Random::new(7, "idle cut");
        for step in 0..3 * sectors {
            hand.write(if step < sectors { step } else { random.below(sectors) });
        }
        let mut flash = hand.device.into_flash();
        flash.set_plan(format!("list:{}@prefix-half", flash.steps() + step).parse().unwrap());
        let mut device = PageMapFtl::attach(&mut flash, options).unwrap();
        device.pacing().unwrap().quiet_until(Nanos(hand.now.0 + SECOND));
        if device.flash().is_off() {
            told += 1;
            let now = Context::at(Nanos(hand.now.0 + SECOND));
            let error = device.write(&now, Lba(0), data()).unwrap_err();
            assert_eq!(error.kind, nandkit_block::ErrorKind::PowerLost, "{error}");
            device.flush(&now).unwrap_err();
            device.pacing().unwrap().quiet_until(Nanos(hand.now.0 + 2 * SECOND));
        }
    }
    assert!(told > 10, "{told}");
}

#[test]
fn options_that_make_no_sense_are_refused_with_what_would() {
    let refused = |options: PageMapOptions| {
        let device = PageMapFtl::format(DescribedChip::new(&spec(21, 1), 1).unwrap(), options);
        device.unwrap_err().to_string()
    };
    let options = PageMapOptions { spare: Spare::Capacity(96 * u64::from(PAGE)), ..in_memory(Nanos(1), 0) };
    let text = refused(PageMapOptions { idle_free: 9, ..options });
    assert!(text.contains("expected 3 to 8 superblocks, or 0"), "{text}");
    assert!(refused(PageMapOptions { idle_free: 2, ..options }).contains("expected 3 to 8"));
    assert!(refused(PageMapOptions { idle_gain: 1.5, ..options }).contains("up to 1"));
    assert!(
        refused(PageMapOptions { idle_after: Nanos::ZERO, idle_free: 3, ..options }).contains("without idle_after")
    );
}

/// Bursts of random writes with pauses between them: the longest waits in a thousand writes, and
/// the extra writes, with and without idle cleaning.
#[test]
fn bursts_wait_less_and_write_more_with_idle_cleaning() {
    for (seed, spare) in [(1, 0.15), (2, 0.15), (3, 0.15), (1, 0.4)] {
        let measured = [None, Some(0.0), Some(0.35)].map(|gain| {
            let options = PageMapOptions {
                spare: Spare::Ratio(spare),
                idle_after: Nanos(if gain.is_some() { 1_000_000 } else { 0 }),
                idle_gain: gain.unwrap_or(0.0),
                ..PageMapOptions::default()
            };
            let mut spec = spec(1024, 4);
            spec.geometry.pages_per_block = 32;
            let mut hand = Hand::new(DescribedChip::new(&spec, 1).unwrap(), options);
            let sectors = hand.device.geometry().sectors;
            let mut random = Random::new(seed, "bursts");
            for page in 0..sectors {
                hand.write(page);
            }
            let mut latencies = Vec::new();
            let (mut before, mut stalls) = (*hand.device.counters(), hand.device.stalls());
            // Three times the device's capacity, and then as much again, measured.
            let bursts = sectors / 100;
            for burst in 0..4 * bursts {
                if burst == 3 * bursts {
                    (before, stalls) = (*hand.device.counters(), hand.device.stalls());
                    latencies.clear();
                }
                latencies.extend((0..100).map(|_| hand.write(random.below(sectors))));
                hand.pause_until(Nanos(hand.now.0 + 40_000_000));
            }
            latencies.sort_unstable();
            let quantile = |share: f64| latencies[(latencies.len() as f64 * share) as usize] / 1000;
            let waf = hand.device.counters().since(&before).waf().unwrap();
            let stalls = hand.device.stalls().since(&stalls);
            let overruns = hand.device.idle_counters().map_or(0, |idle| idle.overruns.longest.0 / 1000);
            println!(
                "seed {seed}, spare {spare}, gain {gain:?}: WAF {waf:.3}, p99 {} us, p99.9 {} us, longest {} us; stalls by erases {}, by cleaning {}, {} in all; longest overrun {overruns} us",
                quantile(0.99), quantile(0.999), latencies[latencies.len() - 1] / 1000, stalls.erases.count, stalls.cleaning.count, stalls.stalled
            );
            (waf, quantile(0.999), stalls.cleaning.count)
        });
        let [without, with, choosy] = measured;
        assert!(with.0 >= without.0 * 0.99 && with.2 < without.2, "{measured:?}");
        assert!(choosy.0 <= with.0 * 1.01, "{measured:?}");
    }
}
