//! The page-mapped layer on dies that serve reads first: when a completion time already reported to
//! the host moves, and when it does not.

use nandkit_block::BlockDevice;
use nandkit_ftl::page_map::Spare;
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{ChipSpec, DescribedChip, DieOrder, PageTimes};
use nandkit_units::{Context, Described, Done, Lba, Nanos, Payload, ReadInto, Ticket};

const PAGE: u32 = 512;
const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const HOST_PAGES: u64 = 32;

type Device = PageMapFtl<DescribedChip>;

/// One die with blocks of eight pages, and every page of the host written once.
fn device(write_buffer: u64) -> (Device, Nanos) {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE, PAGE, 16);
    (geometry.blocks, geometry.pages_per_block) = (12, 8);
    (spec.timing.read_ns, spec.timing.program_ns) = (PageTimes::All(READ), PageTimes::All(PROGRAM));
    (spec.timing.bus_ps_per_byte, spec.timing.command_ns) = (0, 0);
    spec.timing.order = DieOrder::ReadsFirst;
    let options = PageMapOptions {
        spare: Spare::Capacity(HOST_PAGES * u64::from(PAGE)),
        separation: "none".parse().unwrap(),
        journal: None,
        write_buffer,
        ..PageMapOptions::default()
    };
    let mut device = PageMapFtl::format(DescribedChip::new(&spec, 1).unwrap(), options).unwrap();
    let mut now = device.opened();
    for page in 0..HOST_PAGES {
        now = write(&mut device, now, page, Ticket::NONE).completed;
    }
    let flushed = device.flush(&Context::at(now)).unwrap().completed;
    (device, flushed)
}

fn write(device: &mut Device, now: Nanos, page: u64, ticket: Ticket) -> Done {
    let data = Payload::Described(Described { length: PAGE, ..Described::default() });
    device.write(&Context { ticket, ..Context::at(now) }, Lba(page), data).unwrap()
}

fn read(device: &mut Device, now: Nanos, page: u64) -> Nanos {
    device.read(&Context::at(now), Lba(page), ReadInto::Nothing { length: PAGE }).unwrap().completed
}

#[test]
fn a_write_that_waits_ends_later_by_the_read_that_goes_before_it() {
    let (mut device, now) = device(0);
    // The first one may open a block.
    let begun = write(&mut device, now, 0, Ticket::NONE).completed;
    let first = write(&mut device, begun, 1, Ticket(1)).completed;
    let second = write(&mut device, begun, 2, Ticket(2)).completed;
    assert_eq!((first, second), (begun + Nanos(PROGRAM), begun + Nanos(2 * PROGRAM)));
    assert_eq!(read(&mut device, begun + Nanos(10_000), 20), first + Nanos(READ), "behind the one that runs");
    let pacing = device.pacing().unwrap();
    assert_eq!(pacing.end_of(Ticket(1), first), first);
    assert_eq!(pacing.end_of(Ticket(2), second), second + Nanos(READ));
}

#[test]
fn a_write_into_the_buffer_ends_when_it_was_told_whatever_happens_to_the_programs() {
    let (mut device, now) = device(8 * u64::from(PAGE));
    let told: Vec<Nanos> =
        (0..8).map(|page| write(&mut device, now, page, Ticket(1 + page as u16)).completed).collect();
    assert_eq!(told, [now; 8], "there is room");
    // The first half is being programmed; the reads come before most of it.
    (20..24).for_each(|page| {
        read(&mut device, now + Nanos(10_000), page);
    });
    let pacing = device.pacing().unwrap();
    let ends: Vec<Nanos> = (1..=8).map(|ticket| pacing.end_of(Ticket(ticket), now)).collect();
    assert_eq!(ends, told);
}

#[test]
fn a_write_that_cleans_ends_with_its_own_program() {
    let (mut device, mut now) = device(0);
    let mut cleaned = 0;
    for page in (0..HOST_PAGES).cycle().map(|page| page * 7 % HOST_PAGES).take(200) {
        let before = device.counters().cleanings;
        let told = write(&mut device, now, page, Ticket(9)).completed;
        cleaned += device.counters().cleanings - before;
        assert_eq!(device.pacing().unwrap().end_of(Ticket(9), told), told);
        device.pacing().unwrap().quiet_until(told);
        now = told;
    }
    assert!(cleaned > 10, "{cleaned}");
}
