//! Compares with times worked out by hand.

use nandkit_units::{Context, Lba, Nanos, Payload, ReadInto};

use super::*;
use crate::{RamDevice, ServiceTime};

/// 1 us a command, 10 us for a read, 4 us for a write, 1 ns a byte: 4,096 ns for 4 KiB.
fn spec() -> HostLinkSpec {
    HostLinkSpec {
        queue_depth: 2,
        command_ns: 1_000,
        read_latency_ns: 10_000,
        write_latency_ns: 4_000,
        link_ps_per_byte: 1_000,
        full_duplex: false,
    }
}

fn drive(spec: &HostLinkSpec) -> HostLink<RamDevice> {
    HostLink::new(spec, RamDevice::with_sectors(4096, 1024).unwrap()).unwrap()
}

fn read(drive: &HostLink<RamDevice>, issued: u64) -> u64 {
    drive.read(&Context::at(Nanos(issued)), Lba(0), ReadInto::Nothing { length: 4096 }).unwrap().completed.0
}

fn write(drive: &mut HostLink<RamDevice>, issued: u64) -> u64 {
    drive.write(&Context::at(Nanos(issued)), Lba(0), Payload::Bytes(&[7; 4096])).unwrap().completed.0
}

#[test]
fn a_command_on_an_idle_drive_takes_the_sum_of_its_parts() {
    assert_eq!(read(&drive(&spec()), 500), 500 + 1_000 + 10_000 + 4_096);
    let mut drive = drive(&spec());
    assert_eq!(write(&mut drive, 500), 500 + 1_000 + 4_096 + 4_000);
    let at = Context::at(Nanos(20_000));
    assert_eq!(drive.flush(&at).unwrap().completed, Nanos(21_000));
    let at = Context::at(Nanos(30_000));
    assert_eq!(Trim::trim(&mut drive, &at, Lba(0), 8).unwrap().completed, Nanos(31_000));
    let counters = drive.counters();
    assert_eq!((counters.commands, counters.command_time, counters.link_time), (3, Nanos(3_000), Nanos(4_096)));
}

#[test]
fn latencies_overlap_and_commands_and_transfers_do_not() {
    let drive = drive(&HostLinkSpec { queue_depth: 4, ..spec() });
    // Accepted at 1,000, 2,000, 3,000; ready at 11,000, 12,000, 13,000; each transfer follows its
    // predecessor.
    let ends: Vec<u64> = (0..3).map(|_| read(&drive, 0)).collect();
    assert_eq!(ends, [15_096, 19_192, 23_288]);
}

#[test]
fn a_command_that_finds_the_queue_full_waits_for_the_first_that_completes() {
    let drive = drive(&spec());
    assert_eq!((read(&drive, 0), read(&drive, 0)), (15_096, 19_192));
    // Enters at 15,096, is accepted at 16,096, ready at 26,096.
    assert_eq!(read(&drive, 0), 26_096 + 4_096);
    // Now the second one is the first to complete: 19,192.
    assert_eq!(read(&drive, 0), 19_192 + 1_000 + 10_000 + 4_096);
    let counters = drive.counters();
    assert_eq!((counters.held_back, counters.queue_wait), (2, Nanos(15_096 + 19_192)));
    // By then all have completed.
    assert_eq!(read(&drive, 50_000), 65_096);
    assert_eq!(drive.counters().held_back, 2);
}

#[test]
fn what_is_ready_first_goes_over_the_link_first() {
    let service = ServiceTime { per_request: Nanos(100_000), per_byte_ps: 0 };
    let slow = RamDevice::with_sectors(4096, 8).unwrap().with_service_time(service);
    let mut drive = HostLink::new(&spec(), slow).unwrap();
    // Ready at 111,000.
    let context = Context::default();
    let done = drive.read(&context, Lba(0), ReadInto::Nothing { length: 4096 }).unwrap();
    assert_eq!(done.completed, Nanos(115_096));
    // Its bytes arrive at 2,000 + 4,096, long before the read's leave.
    let done = drive.write(&context, Lba(1), Payload::Bytes(&[1; 4096])).unwrap();
    assert_eq!(done.completed, Nanos(211_000), "the device below takes one after the other");
    assert_eq!(done.busy, Nanos(1_000 + 4_096 + 4_000 + 100_000));
}

#[test]
fn directions_share_the_link_or_do_not() {
    for (full_duplex, expected) in [(false, 11_000 + 4_096 + 4_096), (true, 11_000 + 4_096)] {
        let spec = HostLinkSpec { full_duplex, queue_depth: 8, ..spec() };
        let mut drive = drive(&HostLinkSpec { read_latency_ns: 9_000, ..spec });
        // A write whose bytes are on the link from 10,000 + 1,000 to 15,096.
        write(&mut drive, 10_000);
        // A read that is taken at 2,000 and ready at 11,000.
        assert_eq!(read(&drive, 1_000), expected, "full duplex: {full_duplex}");
    }
}

#[test]
fn empty_and_failed_requests_leave_no_command_behind() {
    let mut drive = drive(&spec());
    let context = Context::at(Nanos(5));
    assert_eq!(drive.read(&context, Lba(3), ReadInto::Bytes(&mut [])).unwrap().completed, Nanos(5));
    assert_eq!(drive.write(&context, Lba(3), Payload::Bytes(&[])).unwrap().completed, Nanos(5));
    assert_eq!(drive.counters(), HostLinkCounters::default());
    for _ in 0..10 {
        drive.write(&context, Lba(1 << 40), Payload::Bytes(&[0; 4096])).unwrap_err();
    }
    assert_eq!(drive.counters().held_back, 0);
}

#[test]
fn figures_that_no_drive_has_are_refused_by_name() {
    for (spec, expected) in [
        (HostLinkSpec { queue_depth: 0, ..spec() }, "queue_depth is 0; expected 1 to 65536"),
        (HostLinkSpec { command_ns: u64::MAX, ..spec() }, "expected at most a second"),
        (HostLinkSpec { link_ps_per_byte: u64::MAX, ..spec() }, "a millisecond a byte"),
    ] {
        let error = HostLink::new(&spec, RamDevice::with_sectors(512, 8).unwrap()).unwrap_err();
        assert!(error.kind == ErrorKind::Unfit && error.to_string().contains(expected), "{error}");
    }
}

/// A memory device that later reports a different end for each ticket.
struct Moving {
    inner: RamDevice,
    ends: [u64; 4],
    quiet: Nanos,
}

impl BlockDevice for Moving {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }
    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.inner.read(context, at, into)
    }
    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.inner.write(context, at, data)
    }
    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.inner.flush(context)
    }
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        Some(self)
    }
}

impl Pacing for Moving {
    fn quiet_until(&mut self, instant: Nanos) {
        self.quiet = instant;
    }
    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        told.max(Nanos(self.ends[usize::from(ticket.0)]))
    }
}

/// 100 us a request, one after the other, and a queue of two.
fn moving() -> HostLink<Moving> {
    let service = ServiceTime { per_request: Nanos(100_000), per_byte_ps: 0 };
    let inner = RamDevice::with_sectors(4096, 8).unwrap().with_service_time(service);
    HostLink::new(&spec(), Moving { inner, ends: [0; 4], quiet: Nanos::ZERO }).unwrap()
}

fn ticketed(number: u16) -> Context {
    Context { ticket: Ticket(number), ..Context::default() }
}

#[test]
fn ends_move_as_far_as_the_device_below_moves_them() {
    let mut drive = moving();
    let read = drive.read(&ticketed(1), Lba(0), ReadInto::Nothing { length: 4096 }).unwrap().completed;
    let write = drive.write(&ticketed(2), Lba(0), Payload::Bytes(&[7; 4096])).unwrap().completed;
    assert_eq!((read, write), (Nanos(111_000 + 4_096), Nanos(211_000)));
    let ends =
        |drive: &mut HostLink<Moving>| [(1, read), (2, write), (3, read)].map(|(n, t)| drive.end_of(Ticket(n), t));
    assert_eq!(ends(&mut drive), [read, write, read]);
    drive.inner_mut().ends = [900_000, 111_500, 211_070, 0];
    assert_eq!(ends(&mut drive), [read + Nanos(500), write + Nanos(70), read]);
    assert_eq!(drive.end_of(Ticket::NONE, Nanos(5)), Nanos(5), "nobody's ticket");
    // If a request was refused in part, the end of the other part is known.
    assert_eq!(drive.end_of(Ticket(2), Nanos(5)), Nanos(211_070));
    drive.quiet_until(Nanos(300_000));
    assert_eq!(drive.inner().quiet, Nanos(300_000));
    assert!(HostLink::new(&spec(), RamDevice::with_sectors(512, 8).unwrap()).unwrap().pacing().is_none());
}

/// Two writes arrive at 5,096 and 9,192, and first report 109,096 and 209,096 as ends; the first
/// one's end moves to 259,096, so that the second one makes room.
#[test]
fn the_queue_holds_commands_until_their_moved_ends() {
    for is_read in [true, false] {
        let mut drive = moving();
        for ticket in [1, 2] {
            let done = drive.write(&ticketed(ticket), Lba(0), Payload::Bytes(&[7; 4096])).unwrap();
            assert_eq!(done.completed, Nanos(9_096 + 100_000 * u64::from(ticket)));
        }
        drive.inner_mut().ends[1] = 259_096;
        // Accepted at 210,096; a read is ready 10,000 and 100,000 later, a write's bytes arrive
        // 4,096 later.
        let (done, expected) = if is_read {
            drive.quiet_until(Nanos::ZERO);
            (drive.read(&ticketed(3), Lba(0), ReadInto::Nothing { length: 4096 }), 320_096 + 4_096)
        } else {
            (drive.write(&ticketed(3), Lba(0), Payload::Bytes(&[7; 4096])), 214_192 + 4_000 + 100_000)
        };
        assert_eq!((done.unwrap().completed, drive.counters().queue_wait), (Nanos(expected), Nanos(209_096)));
    }
}
