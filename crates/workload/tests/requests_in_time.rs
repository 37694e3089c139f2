//! What the driver records of a die that serves reads first: against queueing theory, and against
//! schedules by hand.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_block::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Result};
use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_nand_sim::{ChipSpec, DieOrder, PageTimes, QueueCounters, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Clock, Context, Done, Lba, Nanos, Pacing, Payload, ReadInto, Ticket};
use nandkit_workload::{
    BlockDriver, BlockOperation, BlockOperationKind, BlockWorkload, DriverReport, OperationKind, Phase, PhaseReport,
};

const PAGES: u32 = 64;
/// Blocks that are only read.
const READ_BLOCKS: u32 = 4;

/// One die as a block device: reads are of its first blocks, writes go to the next page wherever
/// they are addressed.
struct OneDie {
    chip: ShadowChip,
    geometry: BlockGeometry,
    next_page: u32,
    /// The latest instant that the host told.
    told: Nanos,
    busy: AtomicU64,
    flushed: Vec<Nanos>,
    tickets: Vec<u16>,
    /// By ticket: the latest end that the device told.
    ends: Mutex<Vec<Nanos>>,
}

fn die(order: DieOrder, suspend: bool, writes: u32, (read_ns, program_ns): (u64, u64)) -> OneDie {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.dies, geometry.channels, geometry.planes) = (1, 1, 1);
    (geometry.pages_per_block, geometry.blocks) = (PAGES, READ_BLOCKS + writes.div_ceil(PAGES));
    let timing = &mut spec.timing;
    (timing.bus_ps_per_byte, timing.command_ns) = (0, 0);
    (timing.read_ns, timing.program_ns) = (PageTimes::All(read_ns), PageTimes::All(program_ns));
    timing.order = order;
    timing.program_suspend_ns = suspend.then_some(0);
    spec.bad_blocks.enabled = false;
    let mut chip = ShadowChip::new(&spec, 1).unwrap();
    let sector_size = chip.geometry().page_size;
    for page in 0..READ_BLOCKS * PAGES {
        let data = Payload::Described(nandkit_units::Described { length: sector_size, ..Default::default() });
        chip.program(&Context::default(), BlockIndex(page / PAGES).page(page % PAGES), PageProgram::new(data, &[]))
            .unwrap();
    }
    let geometry = BlockGeometry { sector_size, sectors: 1 << 20, preferred_size: sector_size, recycling_size: 0 };
    let next_page = READ_BLOCKS * PAGES;
    OneDie {
        chip,
        geometry,
        next_page,
        told: Nanos::ZERO,
        busy: AtomicU64::new(0),
        flushed: Vec::new(),
        tickets: Vec::new(),
        ends: Mutex::new(vec![Nanos::ZERO; 1 << 16]),
    }
}

/// Behind the programs of the beginning.
const START: Nanos = Nanos(1_000_000_000);

impl OneDie {
    /// A host that paces tells the instant of each operation before it, and neither less nor more.
    fn check_told(&self, context: &Context) {
        assert!(context.ticket == Ticket::NONE || self.told == context.issued, "{} {context:?}", self.told);
    }

    fn count(&self, context: &Context, done: Done) -> Done {
        self.ends.lock().unwrap()[usize::from(context.ticket.0)] = done.completed;
        self.busy.fetch_add(done.busy.0, Relaxed);
        done
    }
}

impl BlockDevice for OneDie {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.check_told(context);
        let page = at.0 as u32;
        let read = PageRead { column: 0, data: into, oob: &mut [] };
        Ok(self.count(context, self.chip.read(context, BlockIndex(page / PAGES).page(page % PAGES), read).unwrap()))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.check_told(context);
        let data = data.part(0, self.geometry.sector_size as usize).unwrap();
        if at == BROKEN {
            return Err(BlockError::new(ErrorKind::Io, Operation::Write, at, "broken"));
        }
        self.tickets.push(context.ticket.0);
        let to = BlockIndex(self.next_page / PAGES).page(self.next_page % PAGES);
        self.next_page += 1;
        let done = self.chip.program(context, to, PageProgram::new(data, &[])).unwrap();
        Ok(self.count(context, done))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.check_told(context);
        self.flushed.push(context.issued);
        Ok(Done::immediately(context))
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.chip.pacing().is_some() { Some(self) } else { None }
    }
}

/// A piece of 64 KiB.
const PIECE_SECTORS: u32 = 32;
/// A sector that cannot be written.
const BROKEN: Lba = Lba(999_999);

impl Pacing for OneDie {
    fn quiet_until(&mut self, instant: Nanos) {
        assert!(instant >= self.told, "{instant} behind {}", self.told);
        self.told = instant;
        self.chip.quiet_until(instant);
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        let first_told = self.ends.get_mut().unwrap()[usize::from(ticket.0)];
        assert!(told <= first_told, "{told} was never told, but {first_told}");
        self.chip.end_of(ticket, told)
    }
}

struct Stream<I> {
    operations: I,
    depth: u32,
}

impl<I: Iterator<Item = BlockOperation> + Send> BlockWorkload for Stream<I> {
    fn begin(&mut self, _: Phase) -> Option<u64> {
        None
    }

    fn next_operation(&mut self) -> nandkit_workload::Result<Option<BlockOperation>> {
        Ok(self.operations.next())
    }

    fn queue_depth(&self) -> u32 {
        self.depth
    }
}

fn operation(kind: BlockOperationKind, at: u64, arrival: Option<Nanos>) -> BlockOperation {
    let sectors = u32::from(kind != BlockOperationKind::Flush);
    BlockOperation { kind, at: Lba(at), sectors, bytes: 0, arrival }
}

fn drive(
    device: &mut OneDie,
    depth: u32,
    operations: impl Iterator<Item = BlockOperation> + Send,
) -> (nandkit_workload::Result<()>, DriverReport, Clock) {
    let clock = Clock::default();
    clock.advance_to(START);
    let mut driver = BlockDriver::new(device.geometry, clock.clone(), false);
    let mut stream = Stream { operations, depth };
    let result = driver.run_phase(Phase::Measure, &mut stream, device, &mut |_| ControlFlow::Continue(()));
    (result, driver.report().clone(), clock)
}

const REQUESTS: u32 = 1_000_000;
const READ_NS: f64 = 60_000.0;
const PROGRAM_NS: f64 = 200_000.0;

/// Half of the requests read and half write, at random; the die is busy for `load` of the time.
fn poisson(load: f64) -> impl Iterator<Item = BlockOperation> + Send {
    let mut random = Random::new(11, "arrivals");
    let gap = (READ_NS + PROGRAM_NS) / 2.0 / load;
    let mut arrival = 0.0;
    (0..REQUESTS).map(move |_| {
        arrival -= (1.0 - random.fraction()).ln() * gap;
        let kind = if random.chance(0.5) { BlockOperationKind::Read } else { BlockOperationKind::Write };
        operation(kind, random.below((READ_BLOCKS * PAGES).into()), Some(Nanos(arrival as u64)))
    })
}

fn run(order: DieOrder, suspend: bool, load: f64) -> (PhaseReport, QueueCounters) {
    let mut device = die(order, suspend, REQUESTS, (READ_NS as u64, PROGRAM_NS as u64));
    let (result, report, clock) = drive(&mut device, 1, poisson(load));
    result.unwrap();
    let report = report.phases[0].clone();
    assert_eq!((report.operations_total(), report.ended), (REQUESTS.into(), clock.now()));
    (report, device.chip.queue_counters())
}

fn wait(report: &PhaseReport, kind: OperationKind, service: f64) -> f64 {
    let latency = report.latency(kind).unwrap();
    latency.sum().0 as f64 / latency.count() as f64 - service
}

fn near(found: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((found / wanted - 1.0).abs() < tolerance, "{what}: {found} ns, theory {wanted} ns");
}

/// Load of reads, and the mean work that an arrival finds begun.
fn theory(load: f64) -> (f64, f64) {
    let rate = load / (READ_NS + PROGRAM_NS);
    (rate * READ_NS, rate * (READ_NS.powi(2) + PROGRAM_NS.powi(2)) / 2.0)
}

/// Pollaczek and Khinchine; and whether a device is asked for ends or not, its record is the same
/// where none moves.
#[test]
fn in_order_of_time_asking_for_ends_changes_no_record() {
    for (load, tolerance) in [(0.6, 0.02), (0.8, 0.04)] {
        let (by_time, counters) = run(DieOrder::ByTime, false, load);
        let (_, begun) = theory(load);
        near(wait(&by_time, OperationKind::Write, PROGRAM_NS), begun / (1.0 - load), tolerance, "programs");
        assert_eq!(counters, QueueCounters::default());
        assert_eq!(by_time, run(DieOrder::Asked, false, load).0);
    }
}

/// Cobham's priorities without interruption.
#[test]
fn reads_first_cost_programs_what_theory_says() {
    for (load, tolerance) in [(0.6, 0.02), (0.8, 0.04)] {
        let (report, counters) = run(DieOrder::ReadsFirst, false, load);
        let (reads, begun) = theory(load);
        near(wait(&report, OperationKind::Read, READ_NS), begun / (1.0 - reads), 0.01, "reads");
        let programs = begun / ((1.0 - reads) * (1.0 - load));
        near(wait(&report, OperationKind::Write, PROGRAM_NS), programs, tolerance, "programs");
        assert!(counters.postponements > 100_000, "{counters:?}");
    }
}

/// Interrupted without loss: reads wait for reads only, and programs end later while they run.
#[test]
fn programs_that_are_interrupted_take_as_long_as_theory_says() {
    let load = 0.7;
    let (report, counters) = run(DieOrder::ReadsFirst, true, load);
    let (reads, begun) = theory(load);
    let of_reads = load / (READ_NS + PROGRAM_NS) * READ_NS.powi(2) / 2.0;
    near(wait(&report, OperationKind::Read, READ_NS), of_reads / (1.0 - reads), 0.02, "reads");
    let programs = PROGRAM_NS / (1.0 - reads) - PROGRAM_NS + begun / ((1.0 - reads) * (1.0 - load));
    near(wait(&report, OperationKind::Write, PROGRAM_NS), programs, 0.03, "programs");
    assert!(counters.suspensions > 100_000, "{counters:?}");
}

fn from_letters(letters: &str) -> impl Iterator<Item = BlockOperation> + Send {
    let kinds: Vec<_> = letters.chars().collect();
    kinds.into_iter().map(|letter| match letter {
        'W' => operation(BlockOperationKind::Write, 7, None),
        'R' => operation(BlockOperationKind::Read, 7, None),
        'F' => operation(BlockOperationKind::Flush, 0, None),
        'P' => {
            let sectors = PIECE_SECTORS + 1;
            BlockOperation { sectors, ..operation(BlockOperationKind::Write, BROKEN.0 - u64::from(sectors - 1), None) }
        }
        _ => operation(BlockOperationKind::Write, BROKEN.0, None),
    })
}

/// Reads of 60, programs of 200. Elapsed, sum of the latencies of writes, of reads.
fn by_hand(order: DieOrder, depth: u32, letters: &str) -> (u64, u64, u64, Vec<u64>) {
    let mut device = die(order, false, 100, (60, 200));
    let (result, report, _) = drive(&mut device, depth, from_letters(letters));
    result.unwrap();
    let report = &report.phases[0];
    let sum = |kind| report.latency(kind).map_or(0, |latency| latency.sum().0);
    let flushed = device.flushed.iter().map(|instant| instant.since(START).0).collect();
    (report.elapsed().0, sum(OperationKind::Write), sum(OperationKind::Read), flushed)
}

/// Three programs end at 200, 400, 600. A read issued at 200 runs from 400 to 460 and the third
/// program then to 660; another, issued at 400, from 460 to 520: 720. Programs issued at 460 and
/// 520 follow until 920 and 1,120. The next to end is the third program, at 720: the last read is
/// issued then, runs from 920 to 980, and the last program to 1,180.
#[test]
fn a_closed_loop_waits_for_ends_as_they_come_to_be() {
    let first = by_hand(DieOrder::ReadsFirst, 3, "WWWRRWWR");
    let writes = 200 + 400 + 720 + (920 - 460) + (1180 - 520);
    assert_eq!(first, (1180, writes, (460 - 200) + (520 - 400) + (980 - 720), vec![]));
    // In order: ends at 200, 400, 600, 660, 720, 920, 1,120, 1,180; issued at 0 three times, then
    // at the end third before each.
    let writes = 200 + 400 + 600 + (920 - 600) + (1120 - 660);
    let by_time = by_hand(DieOrder::ByTime, 3, "WWWRRWWR");
    assert_eq!(by_time, (1180, writes, (660 - 200) + (720 - 400) + (1180 - 720), vec![]));
    assert_eq!(by_time, by_hand(DieOrder::Asked, 3, "WWWRRWWR"));
}

/// The third program ends at 660 instead of 600; a flush waits for it, and what follows for the
/// flush. At depth 1 nothing is outstanding.
#[test]
fn a_flush_waits_for_moved_ends_and_depth_1_for_each() {
    assert_eq!(
        by_hand(DieOrder::ReadsFirst, 3, "WWWRFRW"),
        (660 + 60 + 200, 200 + 400 + 660 + 260, 260 + 60, vec![660])
    );
    for order in [DieOrder::Asked, DieOrder::ByTime, DieOrder::ReadsFirst] {
        assert_eq!(by_hand(order, 1, "WRFWWRF"), (3 * 200 + 2 * 60, 600, 120, vec![260, 720]), "{order:?}");
    }
}

/// One die is never idle while two or more operations are outstanding, whatever goes first: all of
/// the work, and nothing but it.
#[test]
fn no_order_does_more_work_than_another() {
    for depth in [2, 3, 8, 64] {
        let work = [(DieOrder::ByTime, false), (DieOrder::ReadsFirst, false), (DieOrder::ReadsFirst, true)].map(
            |(order, suspend)| {
                let mut device = die(order, suspend, 20_000, (60, 200));
                device.busy = 0.into();
                let mut random = Random::new(5, "mix");
                let mix = (0..20_000).map(move |_| {
                    let is_read = random.chance(0.7);
                    let kind = if is_read { BlockOperationKind::Read } else { BlockOperationKind::Write };
                    operation(kind, random.below(256), None)
                });
                let (result, report, _) = drive(&mut device, depth, mix);
                result.unwrap();
                let report = &report.phases[0];
                assert_eq!(report.operations_total(), 20_000);
                assert_eq!(report.elapsed().0, device.busy.load(Relaxed), "depth {depth} {order:?}");
                let moved = device.chip.queue_counters().postponements;
                assert_eq!(moved > 0, order == DieOrder::ReadsFirst && depth > 2 || suspend, "depth {depth} {order:?}");
                report.elapsed()
            },
        );
        assert_eq!((work[0], work[0]), (work[1], work[2]), "depth {depth}");
    }
}

/// The latencies of an unfinished phase go with its report; the clock goes on to where its
/// operations have ended, so that the next phase finds the die idle.
#[test]
fn behind_an_error_nothing_is_outstanding() {
    // With a program of a first piece behind the three.
    for (letters, expected) in [("WWWRX", 660), ("WWWRP", 860)] {
        let mut device = die(DieOrder::ReadsFirst, false, 100, (60, 200));
        assert_eq!(device.geometry.sector_size * PIECE_SECTORS, nandkit_workload::PIECE_BYTES_MAX);
        let (result, report, clock) = drive(&mut device, 3, from_letters(letters));
        assert!(result.unwrap_err().to_string().contains("broken"));
        assert!(report.phases.is_empty());
        assert_eq!(clock.now().since(START), Nanos(expected), "{letters}");
    }
}

/// As many as there are tickets; what arrives then waits in the host, and its latency counts from
/// its arrival all the same.
#[test]
fn arrivals_beyond_all_tickets_wait_in_the_host() {
    let count = 70_000u64;
    let mut device = die(DieOrder::ReadsFirst, false, count as u32, (60, 200));
    let all = (0..count).map(|_| operation(BlockOperationKind::Write, 7, Some(Nanos::ZERO)));
    let (result, report, _) = drive(&mut device, 1, all);
    result.unwrap();
    let latency = report.phases[0].latency(OperationKind::Write).unwrap();
    assert_eq!((latency.count(), latency.sum().0), (count, 200 * count * (count + 1) / 2));
    assert_eq!(device.told.since(START).0, 200 * count);
    let mut first: Vec<u16> = device.tickets[..65_535].to_vec();
    first.sort_unstable();
    first.dedup();
    assert_eq!((first.len(), first[0], device.tickets[65_535]), (65_535, 1, device.tickets[0]));
}
