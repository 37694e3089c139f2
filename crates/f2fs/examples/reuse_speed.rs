//! Measures the processor time of reviewing segments before their gaps are filled: random
//! overwrites of 4 KiB on volumes in memory, one per mode, in turns of 20,000.
//!
//! `cargo run --release -p nandkit-f2fs --example reuse_speed -- [OPERATIONS] [MODE...]`
//!
//! The volumes have 512 MiB, are 90 % full and have gaps everywhere; nothing is overwritten in
//! place. Decisions use the times of the device in memory, for which moving never pays off;
//! `pgc-card` uses those of card-c, so that runs are moved.

#[path = "../tests/reusing/mod.rs"]
mod reusing;

use nandkit_block::RamDevice;
use nandkit_block::card::{Pattern, presets};
use nandkit_cleaning::partial::RequestTimes;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};
use reusing::{MODES, Mode};

const DEVICE_BLOCKS: u64 = 1 << 17;
const BLOCK: u64 = 4096;
const TURN: u64 = 20_000;

struct Bench {
    name: String,
    volume: WritableVolume<RamDevice>,
    file: InodeNumber,
    blocks: u64,
    random: Random,
    processor_ns: u64,
}

/// The time of a request of the device in memory: about 2 µs, plus 1 µs per block.
fn of_memory() -> RequestTimes {
    let time = |blocks: u32| 2_000 + 1_000 * u64::from(blocks);
    RequestTimes::new(512, time, time)
}

fn of_card() -> RequestTimes {
    let card = presets::load("card-c").expect("a card");
    let bytes = |blocks: u32| u64::from(blocks) * BLOCK;
    RequestTimes::new(
        512,
        |blocks| card.read_time(Pattern::Random, bytes(blocks)).0,
        |blocks| card.spread_write_time(bytes(blocks)).0,
    )
}

/// The processor time of this process in nanoseconds, which excludes that of other processes.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl Bench {
    fn new(name: &str) -> Self {
        let plain = name.trim_end_matches("-card");
        let mode: &Mode = MODES.iter().find(|mode| mode.name == plain).expect("a mode");
        let mut device = RamDevice::with_sectors(4096, DEVICE_BLOCKS).expect("a device");
        let (clock, options) = (Clock::default(), MkfsOptions::default());
        let tree = EmptyTree::new(&options);
        Mkfs::new(&tree, options.clone()).expect("a plan").write(&mut device, &clock, &|_| {}).expect("an image");
        let write = mode.options(WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() });
        let mut volume = WritableVolume::mount(vec![device], clock, write).expect("a volume");
        mode.begin(&mut volume, if plain == name { of_memory() } else { of_card() });
        let root = volume.root();
        let file = volume.create(root, b"file", &NewNode::FILE).expect("a file");
        let blocks = volume.segments().space.free_blocks() * 9 / 10;
        let mut bench =
            Self { name: name.to_owned(), volume, file, blocks, random: Random::new(1, "overwrites"), processor_ns: 0 };
        (0..blocks).for_each(|block| bench.write(block));
        (0..2 * TURN).for_each(|_| bench.overwrite());
        bench
    }

    fn write(&mut self, block: u64) {
        let bytes = [7; BLOCK as usize];
        Changes::write(&mut self.volume, self.file, block * BLOCK, Payload::Bytes(&bytes)).expect("a write");
    }

    fn overwrite(&mut self) {
        let block = self.random.below(self.blocks);
        self.write(block);
    }

    fn turn(&mut self) {
        let before = processor_ns();
        (0..TURN).for_each(|_| self.overwrite());
        self.processor_ns += processor_ns() - before;
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let operations: u64 = words.first().map_or(400_000, |word| word.parse().expect("a number"));
    let names: Vec<&str> = match words.get(1..) {
        Some([_, ..]) => words.iter().skip(1).map(String::as_str).collect(),
        _ => vec!["ssr", "pgc", "pgc-optimal", "pgc-learned", "pgc-card"],
    };
    let mut benches: Vec<Bench> = names.iter().map(|name| Bench::new(name)).collect();
    for _ in 0..operations.div_ceil(TURN) {
        benches.iter_mut().for_each(Bench::turn);
    }
    let first = benches.first().map_or(1, |bench| bench.processor_ns) as f64;
    for bench in &benches {
        let time_ns = bench.processor_ns as f64;
        let each = time_ns / (operations.div_ceil(TURN) * TURN) as f64;
        println!("{:<14}{each:>8.0} ns an overwrite, {:+.1} %", bench.name, (time_ns / first - 1.0) * 100.0);
    }
}
