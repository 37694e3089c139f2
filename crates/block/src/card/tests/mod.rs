//! The cost of a card's requests.

mod measured;
mod p5;
mod reference;
mod specs;

use std::collections::BTreeMap;

use nandkit_units::{Context, Described, Description, Done, Lba, Nanos, Payload, ReadInto, StatisticValue, Statistics};

use super::*;
use crate::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use crate::{ErrorKind, ServiceTime};

const KIB: u64 = 1024;
/// Size of a unit of the test card in bytes.
const UNIT: u64 = 64 * KIB;

/// A card of 4 MiB with round figures: two open units of 64 KiB, 1 ms to merge a whole one, 100 ns
/// per command.
fn round_spec() -> CardSpec {
    let line = |base: u64| Curve::new(vec![(4096, base), (8192, base + 4096)]);
    CardSpec {
        geometry: CardGeometry { capacity: 4 << 20, ..CardGeometry::default() },
        curves: CurveSpec {
            read_sequential: line(10_000),
            read_random: line(20_000),
            write_sequential: line(30_000),
            write_random: line(40_000),
        },
        timing: CardTiming { command_ns: 100, bus_ps_per_byte: 0, trim_ns: 5_000 },
        open_units: OpenUnitSpec { size: UNIT, count: 2, merge_ns: 1_000_000 },
        ..CardSpec::default()
    }
}

fn card() -> Card<RamDevice> {
    Card::in_memory(&round_spec()).unwrap()
}

fn described(bytes: u64) -> Payload<'static> {
    Payload::Described(Described { description: Description::default(), length: bytes as u32 })
}

/// The time of a write at a byte address, as soon as the card is free.
fn write<D: BlockDevice>(card: &mut Card<D>, at: u64, bytes: u64) -> u64 {
    let context = Context::at(card.busy_until());
    let done = card.write(&context, Lba(at / 512), described(bytes)).unwrap();
    assert_eq!(done.completed.since(context.issued), done.busy);
    done.busy.0
}

fn read<D: BlockDevice>(card: &Card<D>, at: u64, bytes: u64) -> u64 {
    let context = Context::at(card.busy_until());
    card.read(&context, Lba(at / 512), ReadInto::Nothing { length: bytes as u32 }).unwrap().busy.0
}

#[test]
fn reads_are_sequential_where_the_last_read_ended() {
    let mut card = card();
    let (sequential, random) = (10_100, 20_100);
    assert_eq!(read(&card, 0, 4096), random, "nothing was read before");
    assert_eq!(read(&card, 4096, 4096), sequential);
    assert_eq!(read(&card, 4096, 4096), random, "the same once more");
    assert_eq!(read(&card, 16_384, 4096), random);
    assert_eq!(read(&card, 12_288, 4096), random, "backwards");
    write(&mut card, 0, 4096);
    assert_eq!(read(&card, 16_384, 8192), sequential + 4096, "a write between does not matter");
    let counters = card.counters();
    assert_eq!((counters.reads_sequential.requests, counters.reads_random.requests), (2, 4));
    assert_eq!((counters.reads_sequential.bytes, counters.reads_random.time), (12_288, Nanos(4 * random)));
}

#[test]
fn writes_are_sequential_where_an_open_unit_ends_or_one_begins() {
    let mut card = card();
    let (sequential, random) = (30_100, 40_100);
    assert_eq!(write(&mut card, 0, 4096), sequential, "the start of a unit");
    assert_eq!(write(&mut card, 4096, 4096), sequential);
    assert_eq!(write(&mut card, 16_384, 4096), random, "a gap");
    assert_eq!(write(&mut card, 20_480, 4096), sequential);
    assert_eq!(write(&mut card, 20_480, 4096), random, "the same once more");
    assert_eq!(write(&mut card, 0, 4096), random, "the start of a unit that has been begun");
    assert_eq!(write(&mut card, UNIT + 4096, 4096), random, "the middle of a unit that is not open");
    assert_eq!(write(&mut card, 4096, 4096), sequential, "the first unit goes on");
    assert_eq!(write(&mut card, UNIT + 8192, 4096), sequential, "and so does the second");
    let counters = card.counters();
    assert_eq!((counters.writes_sequential.requests, counters.writes_random.requests), (5, 4));
    assert_eq!((counters.units_opened, card.open_units()), (2, 2));
}

#[test]
fn a_write_across_units_begins_each() {
    let mut card = card();
    // Half of unit 0, all of 1 and 2, half of 3: a single request, with the pattern of its start.
    let time = write(&mut card, UNIT / 2, 3 * UNIT);
    assert_eq!(time, 40_100 + 3 * UNIT - 4096);
    let counters = card.counters();
    assert_eq!((counters.units_opened, counters.units_closed_whole, counters.merge_time), (4, 2, Nanos::ZERO));
    assert_eq!(card.open_units(), 2);
}

#[test]
fn closing_costs_what_has_to_be_copied() {
    // Written completely in order: no cost.
    let mut whole = card();
    for unit in 0..20 {
        for at in (0..UNIT).step_by(8192) {
            assert_eq!(write(&mut whole, unit * UNIT + at, 8192), 34_196);
        }
    }
    assert_eq!((whole.counters().units_closed_whole, whole.open_units()), (20, 0));
    // Written in ascending order: the cost of the unwritten part.
    let mut part = card();
    write(&mut part, 0, 16_384);
    write(&mut part, 32_768, 16_384);
    write(&mut part, UNIT, 4096);
    assert_eq!(write(&mut part, 2 * UNIT, 4096), 30_100 + 500_000);
    assert_eq!(write(&mut part, 3 * UNIT, 4096), 30_100 + 937_500);
    // Something written below the highest written byte: the full cost.
    let mut all = card();
    write(&mut all, 4096, 4096);
    write(&mut all, 0, 4096);
    write(&mut all, UNIT, 4096);
    assert_eq!(write(&mut all, 2 * UNIT, 4096), 30_100 + 1_000_000);
    let counters = all.counters();
    assert_eq!((counters.units_merged_whole, counters.units_merged_in_part), (1, 0));
    assert_eq!((part.counters().units_merged_in_part, part.counters().merge_time), (2, Nanos(1_437_500)));
    // The last write overwrote a part, so the unit was never complete.
    let mut over = card();
    write(&mut over, 0, UNIT - 4096);
    write(&mut over, 0, 4096);
    write(&mut over, UNIT - 4096, 4096);
    assert_eq!((over.counters().units_closed_whole, over.open_units()), (0, 1));
}

/// flashbench's test: 4 KiB to each of several units in turn is fast up to the number of open
/// units, and slow beyond.
#[test]
fn streams_are_fast_up_to_the_open_units() {
    let interleaved = |streams: u64, count: u32| {
        let mut spec = round_spec();
        spec.open_units.count = count;
        let mut card = Card::in_memory(&spec).unwrap();
        for at in (0..UNIT).step_by(4096) {
            for stream in 0..streams {
                write(&mut card, 2 * stream * UNIT + at, 4096);
            }
        }
        (card.busy_until(), card.counters())
    };
    for count in [1, 2, 5] {
        let streams = u64::from(count);
        let (fast, counters) = interleaved(streams, count);
        assert_eq!((fast, counters.units_opened), (Nanos(16 * streams * 30_100), streams));
        let (slow, counters) = interleaved(streams + 1, count);
        assert!(slow > fast.times(10), "{count} open: {fast} for {streams} streams, {slow} for one more");
        assert_eq!(counters.units_opened, 16 * (streams + 1), "each write opens its unit anew");
    }
}

#[test]
fn the_unit_written_longest_ago_is_closed() {
    let mut card = card();
    write(&mut card, 0, 4096);
    write(&mut card, UNIT, 4096);
    write(&mut card, 4096, 4096);
    assert_eq!(write(&mut card, 2 * UNIT, 4096), 30_100 + 937_500, "unit 1 makes room");
    assert_eq!(write(&mut card, 8192, 4096), 30_100, "unit 0 is open");
    assert_eq!(write(&mut card, UNIT + 4096, 4096), 40_100 + 937_500, "unit 1 is not");
}

#[test]
fn a_trimmed_unit_needs_no_merge() {
    let mut card = card();
    write(&mut card, 0, 4096);
    write(&mut card, UNIT, 4096);
    let trim = |card: &mut Card<RamDevice>, at: u64, bytes: u64| {
        let context = Context::at(card.busy_until());
        Trim::trim(card, &context, Lba(at / 512), bytes / 512).unwrap().busy
    };
    assert_eq!(trim(&mut card, UNIT, UNIT - 512), Nanos(5_100));
    assert_eq!(card.open_units(), 2, "a part of a unit");
    trim(&mut card, UNIT, UNIT);
    assert_eq!(card.open_units(), 1);
    assert_eq!(write(&mut card, 2 * UNIT, 4096), 30_100);
    assert_eq!((card.counters().trims.requests, card.counters().trims.bytes), (2, 2 * UNIT - 512));
}

#[test]
fn requests_are_served_one_at_a_time() {
    let mut card = card();
    let context = Context::at(Nanos(1_000));
    let first = card.write(&context, Lba(0), described(4096)).unwrap();
    assert_eq!(first, Done { completed: Nanos(31_100), busy: Nanos(30_100), corrected_bits: 0 });
    let second = card.read(&context, Lba(0), ReadInto::Nothing { length: 4096 }).unwrap();
    assert_eq!((second.completed, second.busy), (Nanos(51_200), Nanos(20_100)));
    let flush = card.flush(&Context::at(Nanos(2_000))).unwrap();
    assert_eq!((flush.completed, flush.busy), (Nanos(51_200), Nanos::ZERO));
    let later = card.read(&Context::at(Nanos(60_000)), Lba(8), ReadInto::Nothing { length: 4096 }).unwrap();
    assert_eq!(later.completed, Nanos(70_100));
    let counters = card.counters();
    assert_eq!(counters.waiting_time, Nanos(30_100 + 49_200));
    assert_eq!((counters.writes_random.time + counters.writes_sequential.time, counters.flushes), (Nanos(30_100), 1));
    assert_eq!(counters.reads_random.time + counters.reads_sequential.time, Nanos(20_100 + 10_100));
}

#[test]
fn empty_and_failed_requests_take_no_time() {
    let fault = DeviceFault::new(Operation::Write, DeviceFaultWhen::Nth(2), ErrorKind::Io);
    let below = FaultDevice::new(RamDevice::new(round_spec().geometry()).unwrap(), [fault]);
    let mut card = Card::new(&round_spec(), below).unwrap();
    assert_eq!(write(&mut card, 0, 4096), 30_100);
    let before = (card.busy_until(), card.counters(), card.open_units());
    let context = Context::at(Nanos(1));
    assert_eq!(card.write(&context, Lba(900), described(4096)).unwrap_err().kind, ErrorKind::Io);
    assert_eq!(card.write(&context, Lba(8192), described(512)).unwrap_err().kind, ErrorKind::OutOfRange);
    let read = card.read(&context, Lba(8192), ReadInto::Nothing { length: 512 });
    assert_eq!(read.unwrap_err().kind, ErrorKind::OutOfRange);
    assert_eq!(Trim::trim(&mut card, &context, Lba(8192), 1).unwrap_err().kind, ErrorKind::OutOfRange);
    card.write(&context, Lba(900), described(0)).unwrap();
    card.read(&context, Lba(900), ReadInto::Nothing { length: 0 }).unwrap();
    Trim::trim(&mut card, &context, Lba(0), 0).unwrap();
    assert_eq!((card.busy_until(), card.counters(), card.open_units()), before);
    assert_eq!(write(&mut card, 4096, 4096), 30_100, "the unit goes on where it was");
}

#[test]
fn no_request_is_faster_than_the_bus_or_than_the_device_below() {
    let mut spec = round_spec();
    spec.timing.bus_ps_per_byte = 40_000;
    let card = Card::in_memory(&spec).unwrap();
    assert_eq!(read(&card, 0, 4096), 100 + 4096 * 40, "25 MB/s");
    assert_eq!(spec.write_time(Pattern::Random, 512), Nanos(40_100), "the card is slower");
    let service = ServiceTime { per_request: Nanos(7_000_000), per_byte_ps: 0 };
    let below = RamDevice::new(spec.geometry()).unwrap().with_service_time(service);
    let mut slow = Card::new(&spec, below).unwrap();
    assert_eq!(write(&mut slow, 0, 4096), 7_000_000);
    assert_eq!(read(&slow, 0, 4096), 7_000_000);
}

#[test]
fn a_copy_of_a_card_goes_its_own_way() {
    let mut card = card();
    write(&mut card, 0, 4096);
    let mut copy = card.clone();
    write(&mut card, UNIT, 4096);
    write(&mut card, 2 * UNIT, 4096);
    assert_eq!((copy.open_units(), copy.counters().units_opened, copy.busy_until()), (1, 1, Nanos(30_100)));
    assert_eq!(write(&mut copy, 4096, 4096), 30_100);
}

#[test]
fn what_does_not_fit_the_device_is_told() {
    let mut spec = round_spec();
    spec.open_units.size = 20 * KIB;
    let wide = || RamDevice::with_sectors(8192, 64).unwrap();
    let error = Card::new(&spec, wide()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unfit);
    assert_eq!(
        error.to_string(),
        "open_units.size is 20480, expected whole sectors of the device, which are of 8192 bytes"
    );
    spec.open_units.size = 0;
    let error = Card::new(&spec, wide()).unwrap_err();
    assert!(error.to_string().starts_with("impossible card: open_units.size is 0, expected"), "{error}");
    let card = Card::new(&round_spec(), wide()).unwrap();
    let geometry = *card.geometry();
    assert_eq!((geometry.sector_size, geometry.sectors), (8192, 64));
    assert_eq!((geometry.preferred_size, geometry.recycling_size), (16_384, UNIT));
}

#[test]
fn counters_have_names_of_their_own() {
    let mut card = card();
    write(&mut card, 0, 4096);
    write(&mut card, UNIT, 4096);
    write(&mut card, 2 * UNIT, 4096);
    let mut values = BTreeMap::new();
    card.collect(&mut |name, value| assert!(values.insert(name, value).is_none(), "{name} twice"));
    assert_eq!(values["card_writes_sequential"], StatisticValue::Count(3));
    assert_eq!(values["card_written_sequential_bytes"], StatisticValue::Count(3 * 4096));
    assert_eq!(values["card_merge_ns"], StatisticValue::Count(937_500));
    assert!(values.keys().all(|name| name.starts_with("card_")));
}
