//! How many random overwrites of 4 KiB per second the page-mapped layer simulates on one core: 64
//! GiB for the host, spare 0.15, greedy, after preconditioning.
//!
//! `cargo bench -p nandkit-ftl --bench page_map [-- NAME=VALUE ...]`. Two devices: one die without
//! overlap, and 16 dies on 8 channels with transfers. Each line gives writes per second, WAF, and
//! resident bytes per logical page. Not a criterion bench, as a run takes seconds and its phases
//! are reported separately.
//!
//! | name | default | |
//! | --- | --- | --- |
//! | `capacity` | 64G | what the host sees: 1T takes 2.3 GiB of memory |
//! | `pages_per_block` | 256 | |
//! | `journal` | no | `yes`: map pages, checkpoints and trims go to flash, as on a device that is to be found again |
//! | `mapping_cache` | 0 | the device's memory for the map, where it is not all of it; with a journal only |
//! | `dies` | both | 1 or 16: one of the two devices |

use std::time::Instant;

use nandkit_block::BlockDevice;
use nandkit_flash::wrap::StatsFlash;
use nandkit_ftl::page_map::{JournalOptions, PageMapCounters, Spare};
use nandkit_ftl::{PageMapFtl, PageMapOptions};
use nandkit_nand_sim::{AddressChip, ChipSpec};
use nandkit_units::random::Random;
use nandkit_units::{Context, Described, Description, Generator, Lba, Nanos, Payload};

const SPARE: f64 = 0.15;
const PAGE: u32 = 4096;
const QUEUE: usize = 16;

struct Case {
    name: &'static str,
    dies: u32,
    channels: u32,
    overlap: bool,
}

const CASES: [Case; 2] = [
    Case { name: "causes counted", dies: 1, channels: 1, overlap: false },
    Case { name: "16 dies, 8 channels", dies: 16, channels: 8, overlap: true },
];

/// The settings given by arguments.
struct Asked {
    user_pages: u64,
    pages_per_block: u32,
    journal: bool,
    mapping_cache: u64,
    dies: Option<u32>,
}

impl Asked {
    fn from_arguments() -> Self {
        let mut asked =
            Self { user_pages: 1 << 24, pages_per_block: 256, journal: false, mapping_cache: 0, dies: None };
        let size = |value: &str| nandkit_units::parse_size(value).expect("a size");
        for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
            match argument.split_once('=') {
                Some(("capacity", value)) => asked.user_pages = size(value) / u64::from(PAGE),
                Some(("pages_per_block", value)) => asked.pages_per_block = value.parse().expect("a number"),
                Some(("journal", value)) => asked.journal = value == "yes",
                Some(("mapping_cache", value)) => asked.mapping_cache = size(value),
                Some(("dies", value)) => asked.dies = Some(value.parse().expect("1 or 16")),
                _ => panic!("{argument}: expected capacity=, pages_per_block=, journal=, mapping_cache= or dies="),
            }
        }
        asked
    }

    fn options(&self) -> PageMapOptions {
        PageMapOptions {
            spare: Spare::Capacity(self.user_pages * u64::from(PAGE)),
            journal: self.journal.then(JournalOptions::default),
            mapping_cache: self.mapping_cache,
            ..Default::default()
        }
    }
}

fn chip(case: &Case, user_pages: u64, pages_per_block: u32) -> AddressChip {
    let mut spec = ChipSpec::default();
    let geometry = &mut spec.geometry;
    (geometry.page_size, geometry.write_unit, geometry.oob_size) = (PAGE, PAGE, 224);
    geometry.pages_per_block = pages_per_block;
    (geometry.dies, geometry.channels) = (case.dies, case.channels);
    let blocks = (user_pages as f64 * (1.0 + SPARE) / f64::from(pages_per_block)).ceil() as u32;
    geometry.blocks = blocks.next_multiple_of(case.dies);
    spec.timing.overlap = case.overlap;
    spec.timing.bus_ps_per_byte = if case.overlap { 1250 } else { 0 };
    AddressChip::new(&spec, 1).expect("a chip")
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

struct Run {
    device: PageMapFtl<StatsFlash<AddressChip>>,
    user_pages: u64,
    now: Nanos,
    random: Random,
    version: u32,
}

impl Run {
    fn write(&mut self, page: u64) {
        self.version = (self.version + 1) & 0xFFF;
        let description = Description { record: page, version: self.version, offset: 0, generator: Generator::Record };
        let payload = Payload::Described(Described { description, length: PAGE });
        let done = self.device.write(&Context::at(self.now), Lba(page), payload);
        self.now = done.expect("written").completed;
    }

    fn overwrite(&mut self, writes: u64) -> (f64, PageMapCounters) {
        let (before, start) = (*self.device.counters(), Instant::now());
        // A queue of 16: the device is announced a write when it enters the queue.
        let mut queue = [0; QUEUE];
        for place in 0..writes as usize + QUEUE {
            let page = std::mem::replace(&mut queue[place % QUEUE], self.random.below(self.user_pages));
            self.device.expect_write(Lba(queue[place % QUEUE]));
            if place >= QUEUE {
                self.write(page);
            }
        }
        (start.elapsed().as_secs_f64(), self.device.counters().since(&before))
    }
}

fn main() {
    let asked = Asked::from_arguments();
    let (user_pages, pages_per_block) = (asked.user_pages, asked.pages_per_block);
    for case in CASES.iter().filter(|case| asked.dies.is_none_or(|dies| dies == case.dies)) {
        let start = Instant::now();
        let before = resident_bytes();
        let flash = StatsFlash::new(chip(case, user_pages, pages_per_block));
        let device = PageMapFtl::format(flash, asked.options()).expect("a device");
        let (physical, user) = device.physical_and_user_pages();
        let mut run = Run { device, user_pages, now: Nanos::ZERO, random: Random::new(1, "bench"), version: 0 };
        (0..user_pages).for_each(|page| run.write(page));
        let filled = start.elapsed().as_secs_f64();
        let (conditioned, _) = run.overwrite(2 * user_pages);
        for _ in 0..3 {
            let writes = 8_000_000;
            let (seconds, counters) = run.overwrite(writes);
            println!(
                "{}, {pages_per_block} pages a block, spare {:.4}: {:.2} million writes/s, {:.1} million page operations/s, WAF {:.3}, {:.2} bytes a logical page; \
                 filled in {filled:.1} s, two passes in {conditioned:.1} s",
                case.name,
                (physical - user) as f64 / user as f64,
                writes as f64 / seconds / 1e6,
                (counters.host_page_writes + counters.copied_pages) as f64 / seconds / 1e6,
                counters.waf().unwrap_or(0.0),
                (resident_bytes() - before) as f64 / user as f64,
            );
        }
    }
}
