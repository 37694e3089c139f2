//! One die under Poisson arrivals compared with queueing theory: in order of time, reads first, and
//! with suspension.

use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_nand_sim::{ChipSpec, DieOrder, PageTimes, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Described, Nanos, Pacing, PageAddress, Payload, ReadInto, Ticket};

const REQUESTS: u32 = 1_000_000;
const READ_NS: f64 = 60_000.0;
const PROGRAM_NS: f64 = 200_000.0;
const PAGES: u32 = 64;
/// Number of blocks that are only read.
const READ_BLOCKS: u32 = 4;

/// Mean waits in nanoseconds: of reads, of programs as reported when they were issued, and of
/// programs as they turned out.
struct Waits {
    reads: f64,
    told: f64,
    programs: f64,
}

fn chip(order: DieOrder, suspend: bool) -> ShadowChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.dies, geometry.channels, geometry.planes) = (1, 1, 1);
    (geometry.pages_per_block, geometry.blocks) = (PAGES, REQUESTS / PAGES);
    let timing = &mut spec.timing;
    (timing.bus_ps_per_byte, timing.command_ns) = (0, 0);
    (timing.read_ns, timing.program_ns) = (PageTimes::All(READ_NS as u64), PageTimes::All(PROGRAM_NS as u64));
    timing.order = order;
    timing.program_suspend_ns = suspend.then_some(0);
    spec.bad_blocks.enabled = false;
    ShadowChip::new(&spec, 1).unwrap()
}

fn program(chip: &mut ShadowChip, context: &Context, number: u32) -> Nanos {
    let data = Payload::Described(Described { length: chip.geometry().page_size, ..Described::default() });
    let at = BlockIndex(number / PAGES).page(number % PAGES);
    chip.program(context, at, PageProgram::new(data, &[])).unwrap().completed
}

/// Issues reads and programs at random, half of each; the die is busy for `load` of the time.
fn run(order: DieOrder, suspend: bool, load: f64) -> Waits {
    let mut chip = chip(order, suspend);
    for page in 0..READ_BLOCKS * PAGES {
        program(&mut chip, &Context::default(), page);
    }
    let mut random = Random::new(11, "arrivals");
    let gap = (READ_NS + PROGRAM_NS) / 2.0 / load;
    // After the programs that fill the blocks at the beginning.
    let mut arrival = 1e9;
    let mut next_page = READ_BLOCKS * PAGES;
    let (mut waited, mut counts) = ([0.0; 3], [0u32; 2]);
    let mut outstanding = std::collections::VecDeque::new();
    let length = chip.geometry().page_size;
    for request in 0..REQUESTS {
        arrival -= (1.0 - random.fraction()).ln() * gap;
        let issued = Nanos(arrival as u64);
        if let Some(pacing) = chip.pacing() {
            pacing.quiet_until(issued);
        }
        while let Some(&(ticket, since, told)) = outstanding.front() {
            let end = chip.end_of(ticket, told);
            if end > issued {
                break;
            }
            outstanding.pop_front();
            waited[2] += end.since(since).0 as f64 - PROGRAM_NS;
        }
        if random.chance(0.5) {
            let at: PageAddress = BlockIndex(random.below(READ_BLOCKS.into()) as u32).page(random.below(64) as u32);
            let read = PageRead { column: 0, data: ReadInto::Nothing { length }, oob: &mut [] };
            let done = chip.read(&Context::at(issued), at, read).unwrap();
            waited[0] += done.completed.since(issued).0 as f64 - READ_NS;
            counts[0] += 1;
        } else {
            let ticket = Ticket((request % 60_000) as u16 + 1);
            let told = program(&mut chip, &Context { ticket, ..Context::at(issued) }, next_page);
            next_page += 1;
            waited[1] += told.since(issued).0 as f64 - PROGRAM_NS;
            counts[1] += 1;
            outstanding.push_back((ticket, issued, told));
        }
    }
    for (ticket, since, told) in outstanding {
        waited[2] += chip.end_of(ticket, told).since(since).0 as f64 - PROGRAM_NS;
    }
    let [reads, told, programs] = waited;
    let [of_reads, of_programs] = counts.map(f64::from);
    Waits { reads: reads / of_reads, told: told / of_programs, programs: programs / of_programs }
}

fn near(found: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((found / wanted - 1.0).abs() < tolerance, "{what}: {found} ns, theory {wanted} ns");
}

/// Load of reads, total load, and the mean remaining work of the operation that an arrival finds in
/// progress (half the sum of rate times second moment).
fn theory(load: f64) -> (f64, f64, f64) {
    let rate = load / (READ_NS + PROGRAM_NS);
    (rate * READ_NS, load, rate * (READ_NS.powi(2) + PROGRAM_NS.powi(2)) / 2.0)
}

/// Pollaczek and Khinchine: all requests have the same mean wait.
#[test]
fn in_order_of_time_all_wait_as_long_as_the_work_before_them() {
    for (load, tolerance) in [(0.6, 0.02), (0.8, 0.04)] {
        let (_, all, begun) = theory(load);
        let waits = run(DieOrder::ByTime, false, load);
        near(waits.reads, begun / (1.0 - all), tolerance, "reads");
        near(waits.programs, begun / (1.0 - all), tolerance, "programs");
        let asked = run(DieOrder::Asked, false, load);
        assert_eq!((asked.reads, asked.told), (waits.reads, waits.told), "one die, no gaps: the same");
    }
}

/// Cobham's priorities without interruption: the time reported to programs is what they would wait
/// without later reads.
#[test]
fn reads_first_wait_for_what_runs_and_programs_for_all_reads() {
    for (load, tolerance) in [(0.6, 0.02), (0.8, 0.04)] {
        let (reads, all, begun) = theory(load);
        let waits = run(DieOrder::ReadsFirst, false, load);
        near(waits.reads, begun / (1.0 - reads), 0.01, "reads");
        near(waits.told, begun / (1.0 - all), tolerance, "programs as told");
        near(waits.programs, begun / ((1.0 - reads) * (1.0 - all)), tolerance, "programs");
    }
}

/// Interruption without loss of work: reads wait only for reads.
#[test]
fn suspended_programs_hold_up_no_read() {
    let (reads, all, begun) = theory(0.7);
    let waits = run(DieOrder::ReadsFirst, true, 0.7);
    let of_reads = all / (READ_NS + PROGRAM_NS) * READ_NS.powi(2) / 2.0;
    near(waits.reads, of_reads / (1.0 - reads), 0.02, "reads");
    let programs = PROGRAM_NS / (1.0 - reads) - PROGRAM_NS + begun / ((1.0 - reads) * (1.0 - all));
    near(waits.programs, programs, 0.03, "programs");
}
