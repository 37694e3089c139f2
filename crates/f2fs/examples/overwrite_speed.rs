//! Measures random overwrites of 4 KiB per second through the file-system contract: one file on a
//! device in memory, in wall time and in processor time.
//!
//! `cargo run --release -p nandkit-f2fs --example overwrite_speed -- [empty|full] [adaptive|lfs]
//! [OPERATIONS A SYNC, 0: none] [OPERATIONS]`
//!
//! `empty`: a file of 1 GiB on 4 GiB. `full`: the same file, and another that leaves 3 % of the
//! volume free.

use std::time::Instant;

use nandkit_block::RamDevice;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::write::{WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Nanos, Payload};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};

const DEVICE_BLOCKS: u64 = 1 << 20;
const FILE_BLOCKS: u64 = 1 << 18;
const BLOCK: u64 = 4096;
/// Simulated time between two operations.
const STEP: Nanos = Nanos(4_000);

fn file(volume: &mut WritableVolume<RamDevice>, name: &str, blocks: u64) -> InodeNumber {
    let root = volume.root();
    let file = volume.create(root, name.as_bytes(), &NewNode::FILE).expect("a file");
    let bytes = vec![1; 64 * BLOCK as usize];
    for at in (0..blocks).step_by(64) {
        let length = (blocks - at).min(64) * BLOCK;
        Changes::write(volume, file, at * BLOCK, Payload::Bytes(&bytes[..length as usize])).expect("a write");
    }
    file
}

/// The processor time of this process in nanoseconds, which excludes that of other processes.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &str| words.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let number = |at: usize, default: &str| word(at, default).parse::<u64>().expect("a number");
    let (fill, mode, every, operations) = (word(0, "empty"), word(1, "adaptive"), number(2, "0"), number(3, "2000000"));
    let mut device = RamDevice::with_sectors(4096, DEVICE_BLOCKS).expect("a device");
    let clock = Clock::default();
    let options = MkfsOptions::default();
    let tree = EmptyTree::new(&options);
    Mkfs::new(&tree, options.clone()).expect("a plan").write(&mut device, &clock, &|_| {}).expect("an image");
    let write = WriteOptions { lfs: mode == "lfs", ..WriteOptions::default() };
    let mut volume = WritableVolume::mount(vec![device], clock.clone(), write).expect("a volume");
    let target = file(&mut volume, "target", FILE_BLOCKS);
    if fill == "full" {
        let status = volume.volume().expect("a status");
        file(&mut volume, "rest", status.blocks_free.saturating_sub(status.blocks * 3 / 100));
    }
    FileSystem::changes(&mut volume).expect("changes").sync(None).expect("a sync");
    let before = *volume.counters();
    let mut random = Random::new(1, "overwrites");
    let block = vec![7; BLOCK as usize];
    let (start, processor) = (Instant::now(), processor_ns());
    for k in 0..operations {
        let at = random.below(FILE_BLOCKS) * BLOCK;
        Changes::write(&mut volume, target, at, Payload::Bytes(&block)).expect("an overwrite");
        clock.advance_by(STEP);
        if every > 0 && (k + 1) % every == 0 {
            Changes::sync(&mut volume, None).expect("a sync");
        }
    }
    Changes::sync(&mut volume, None).expect("a sync");
    let seconds = start.elapsed().as_secs_f64();
    let of_processor = (processor_ns() - processor) as f64 / 1e9;
    println!(
        "{fill} {mode}, a sync every {every}: {operations} overwrites in {seconds:.2} s, {:.0} a second; {of_processor:.2} s of processor time, {:.0} a second",
        operations as f64 / seconds,
        operations as f64 / of_processor
    );
    let after = volume.counters();
    println!(
        "checkpoints {}, sections collected {}, blocks moved {}",
        after.checkpoints_asked + after.checkpoints_forced - before.checkpoints_asked - before.checkpoints_forced,
        after.foreground.sections - before.foreground.sections,
        after.foreground.data + after.foreground.nodes - before.foreground.data - before.foreground.nodes,
    );
    println!("{:?}", volume.segments().states());
}
