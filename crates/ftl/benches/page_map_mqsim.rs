//! The page-mapped layer with the device and load that MQSim was given, for the figures of
//! `docs/guide/mqsim.md`.
//!
//! `cargo bench -p nandkit-ftl --bench page_map_mqsim [-- NAME=NUMBER ...]`. Uniform random
//! overwrites of whole pages of 4 KiB, greedy, in a closed loop: `queue` writes are in flight, and
//! the next one is issued when the first of them completes. Every operation takes its time on its
//! die and channel. The names are those of [`Setting`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nandkit_block::BlockDevice;
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::page_map::{PageMapCounters, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{AddressChip, ChipSpec, PageTimes};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Description, Generator, Lba, Nanos, Payload};

const PAGE: u32 = 4096;
/// Number of writes by which a write is announced to the device in advance.
const ANNOUNCED: usize = 16;

/// The settings. Times are those of MQSim's example configuration.
struct Setting {
    /// Dies, one plane each.
    dies: u64,
    channels: u64,
    blocks_per_die: u64,
    pages_per_block: u64,
    /// Pages of the host in thousandths of `spare_of` blocks a die: 850 is MQSim's
    /// over-provisioning ratio of 0.15.
    user_permille: u64,
    /// The blocks a die from which the host's share is computed; 0 stands for `blocks_per_die`. If
    /// it is larger, the difference acts as held back.
    spare_of: u64,
    /// Blocks of a superblock; 0 stands for the layer's choice.
    stripe: u64,
    /// Writes in flight.
    queue: u64,
    /// Number of writes after the fill that are not measured, and of those that are, in thousandths
    /// of the host's pages.
    settle_permille: u64,
    measure_permille: u64,
    /// Number of measurements.
    rounds: u64,
    seed: u64,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    bus_ps_per_byte: u64,
}

impl Setting {
    const fn new() -> Self {
        Self {
            dies: 16,
            channels: 8,
            blocks_per_die: 256,
            pages_per_block: 256,
            user_permille: 850,
            spare_of: 0,
            stripe: 0,
            queue: 16,
            settle_permille: 2000,
            measure_permille: 2000,
            rounds: 3,
            seed: 798,
            read_ns: 75_000,
            program_ns: 750_000,
            erase_ns: 3_800_000,
            bus_ps_per_byte: 3000,
        }
    }

    fn set(&mut self, name: &str, value: u64) {
        let field = match name {
            "dies" => &mut self.dies,
            "channels" => &mut self.channels,
            "blocks_per_die" => &mut self.blocks_per_die,
            "pages_per_block" => &mut self.pages_per_block,
            "user_permille" => &mut self.user_permille,
            "spare_of" => &mut self.spare_of,
            "stripe" => &mut self.stripe,
            "queue" => &mut self.queue,
            "settle_permille" => &mut self.settle_permille,
            "measure_permille" => &mut self.measure_permille,
            "rounds" => &mut self.rounds,
            "seed" => &mut self.seed,
            "read_ns" => &mut self.read_ns,
            "program_ns" => &mut self.program_ns,
            "erase_ns" => &mut self.erase_ns,
            "bus_ps_per_byte" => &mut self.bus_ps_per_byte,
            _ => panic!("{name}: no such setting"),
        };
        *field = value;
    }

    fn user_pages(&self) -> u64 {
        let blocks = if self.spare_of == 0 { self.blocks_per_die } else { self.spare_of };
        self.dies * blocks * self.pages_per_block * self.user_permille / 1000
    }

    fn chip(&self) -> AddressChip {
        let mut spec = ChipSpec::default();
        let geometry = &mut spec.geometry;
        (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE, PAGE, 224);
        geometry.pages_per_block = self.pages_per_block as u32;
        (geometry.dies, geometry.channels) = (self.dies as u32, self.channels as u32);
        geometry.blocks = (self.dies * self.blocks_per_die) as u32;
        let timing = &mut spec.timing;
        timing.overlap = true;
        (timing.read_ns, timing.program_ns) = (PageTimes::All(self.read_ns), PageTimes::All(self.program_ns));
        (timing.erase_ns, timing.bus_ps_per_byte) = (self.erase_ns, self.bus_ps_per_byte);
        AddressChip::new(&spec, 1).expect("a chip")
    }
}

/// Seconds of processor time of this thread, without the time in which other threads had its core.
fn computed() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let nanoseconds: u64 = statistics.split_whitespace().next().and_then(|field| field.parse().ok()).expect("a number");
    nanoseconds as f64 / 1e9
}

/// Latencies of writes.
#[derive(Default)]
struct Latencies {
    sum: u64,
    most: u64,
}

struct Run {
    device: PageMapFtl<StatsFlash<AddressChip>>,
    pages: u64,
    /// When each of the writes in flight completes.
    in_flight: BinaryHeap<Reverse<Nanos>>,
    latencies: Latencies,
    random: Random,
    version: u32,
}

impl Run {
    fn write(&mut self, page: u64) {
        self.version = (self.version + 1) & 0xFFF;
        let description = Description { record: page, version: self.version, offset: 0, generator: Generator::Record };
        let payload = Payload::Described(Described { description, length: PAGE });
        let Some(mut first) = self.in_flight.peek_mut() else { return };
        let issued = first.0;
        let done = self.device.write(&Context::at(issued), Lba(page), payload).expect("written");
        *first = Reverse(done.completed);
        let latency = done.completed.0.saturating_sub(issued.0);
        self.latencies.sum += latency;
        self.latencies.most = self.latencies.most.max(latency);
    }

    fn now(&self) -> Nanos {
        self.in_flight.peek().map_or(Nanos::ZERO, |first| first.0)
    }

    fn overwrite(&mut self, writes: u64) -> (f64, PageMapCounters) {
        let (before, start) = (*self.device.counters(), computed());
        let mut announced = [0; ANNOUNCED];
        for place in 0..writes as usize + ANNOUNCED {
            let page = std::mem::replace(&mut announced[place % ANNOUNCED], self.random.below(self.pages));
            self.device.expect_write(Lba(announced[place % ANNOUNCED]));
            if place >= ANNOUNCED {
                self.write(page);
            }
        }
        (computed() - start, self.device.counters().since(&before))
    }
}

fn main() {
    let mut setting = Setting::new();
    for argument in std::env::args().skip(1) {
        if let Some((name, value)) = argument.split_once('=') {
            setting.set(name, value.parse().expect("a number"));
        }
    }
    let options = PageMapOptions {
        spare: Spare::Capacity(setting.user_pages() * u64::from(PAGE)),
        stripe: setting.stripe as u32,
        journal: None,
        ..Default::default()
    };
    let device = PageMapFtl::format(StatsFlash::new(setting.chip()), options).expect("a device");
    let (physical, pages) = device.physical_and_user_pages();
    let mut run = Run {
        device,
        pages,
        in_flight: (0..setting.queue).map(|_| Reverse(Nanos::ZERO)).collect(),
        latencies: Latencies::default(),
        random: Random::new(setting.seed, "bench"),
        version: 0,
    };
    (0..pages).for_each(|page| run.write(page));
    run.overwrite(pages * setting.settle_permille / 1000);
    println!(
        "{} dies, {} channels, {} pages of flash, {pages} of the host, spare {:.4}, {} in flight",
        setting.dies,
        setting.channels,
        physical,
        (physical - pages) as f64 / pages as f64,
        setting.queue
    );
    for _ in 0..setting.rounds {
        run.latencies = Latencies::default();
        let (writes, from) = (pages * setting.measure_permille / 1000, run.now());
        let (seconds, counters) = run.overwrite(writes);
        let simulated = (run.now().0 - from.0) as f64 / 1e9;
        let programs = counters.host_page_writes + counters.copied_pages;
        println!(
            "{:.3} million writes/s, {:.2} million page programs/s, {:.2} million page programs and reads/s, WAF {:.3}; simulated: {simulated:.0} s, {:.0} writes/s, latency {:.3} ms, at most {:.1} ms",
            writes as f64 / seconds / 1e6,
            programs as f64 / seconds / 1e6,
            (programs + counters.copied_pages) as f64 / seconds / 1e6,
            counters.waf().unwrap_or(0.0),
            writes as f64 / simulated,
            run.latencies.sum as f64 / writes as f64 / 1e6,
            run.latencies.most as f64 / 1e6,
        );
    }
}
