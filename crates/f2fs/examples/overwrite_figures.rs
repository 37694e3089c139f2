//! Repeats the overwrites that were counted in Linux: 576 files of 256 KiB on a volume of 256 MiB,
//! filled in order, then 131,072 records of 4 KiB overwritten with a sync after every 256.
//!
//! `cargo run --release -p nandkit-f2fs --example overwrite_figures -- [seq|rnd|hcf|hcc|hci]
//! [lfs|ssr|default] [flusher|sync]`; the last word says which comes first at a sync
//! (docs/formats/f2fs-writing.md, "Sync").

use nandkit_block::RamDevice;
use nandkit_f2fs::layout::InodeHead;
use nandkit_f2fs::layout::inode::Extent;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::segments::Way;
use nandkit_f2fs::testing::encode::inode::InodeRest;
use nandkit_f2fs::write::{WritableVolume, WriteOptions};
use nandkit_f2fs::{Log, NodeId};
use nandkit_units::{Clock, Nanos, Payload};
use nandkit_vfs::{Changes, InodeNumber, Timestamp};
use zerocopy::FromZeros;

const FILES: u64 = 576;
const RECORDS: u64 = 64;
const OPERATIONS: u64 = 131_072;
/// Linux took about two minutes for all of it.
const STEP_NS: u64 = 1_000_000;

fn next(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

fn record(pattern: &str, k: u64, x: &mut u64) -> u64 {
    let n = FILES * RECORDS;
    match pattern {
        "seq" => k % n,
        "rnd" => next(x) % n,
        _ => {
            let group = u64::from(next(x) % 100 >= 60);
            let j = next(x) % (n / 8);
            match pattern {
                "hcc" => group * (n / 8) + j,
                "hci" => j * 8 + group,
                _ => (8 * (j / 64) + group) * 64 + j % 64,
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, default: &str| words.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let (pattern, mode, first) = (word(0, "hcf"), word(1, "lfs"), word(2, "flusher"));
    let options = MkfsOptions::default();
    let mut device = RamDevice::with_sectors(4096, 65_536).expect("a device");
    let clock = Clock::default();
    let tree = EmptyTree::new(&options);
    Mkfs::new(&tree, options.clone()).expect("a plan").write(&mut device, &clock, &|_| {}).expect("an image");
    let nodes_before_checkpoint = first == "flusher";
    let mut write = WriteOptions { lfs: mode == "lfs", nodes_before_checkpoint, ..WriteOptions::default() };
    if mode == "ssr" {
        write.ipu_policy = Some(0);
    }
    let mut volume = WritableVolume::mount(vec![device], clock.clone(), write).expect("a volume");
    let mut head = InodeHead::new_zeroed();
    head.mode = 0o100_644.into();
    let rest = InodeRest {
        extra_bytes: 0,
        project_id: 0,
        compression: (0, 0, 0),
        xattr_words: 0,
        created: Timestamp(0),
        inline: &[],
        words: &[],
        xattrs: &[],
        nids: [NodeId::NONE; 5],
        extent: Extent::default(),
    };
    let block = vec![7; 4096];
    let mut files = Vec::new();
    for _ in 0..FILES {
        let ino = volume.new_inode(&head, &rest).expect("an inode");
        volume.add_orphan(ino).expect("an orphan");
        for record in 0..RECORDS {
            volume.write(ino, record * 4096, Payload::Bytes(&block)).expect("a record");
        }
        files.push(ino);
    }
    volume.sync().expect("a sync");
    let before = usage(&volume);
    let filled = volume.counters().checkpoints_asked;
    let mut x = 88_172_645_463_325_252;
    for k in 0..OPERATIONS {
        let i = record(&pattern, k, &mut x);
        let file = InodeNumber(u64::from(files[(i / RECORDS) as usize].0));
        Changes::write(&mut volume, file, i % RECORDS * 4096, Payload::Bytes(&block)).expect("an overwrite");
        clock.advance_by(Nanos(STEP_NS));
        if (k + 1) % 256 == 0 {
            volume.sync().expect("a sync");
        }
    }
    let after = usage(&volume);
    println!("{pattern} {mode}");
    let mut all = 0;
    for (log, (now, then)) in Log::ALL.iter().zip(after.iter().zip(&before)) {
        let of: Vec<u64> = now.iter().zip(then).map(|(now, then)| now - then).collect();
        all += of.iter().sum::<u64>();
        println!(
            "{log}: {}",
            Way::ALL.iter().zip(&of).map(|(way, n)| format!("{} {n}", way.name())).collect::<Vec<_>>().join(", ")
        );
    }
    let usage = volume.segments().usage();
    let taken = |of: fn(&nandkit_f2fs::segments::Usage, Log) -> u64| Log::ALL.map(|log| of(usage, log));
    println!(
        "segments taken empty {:?}, for their gaps {:?}",
        taken(|u, log| u.free_segments_taken(log)),
        taken(|u, log| u.used_segments_taken(log))
    );
    println!("WA {:.3}", all as f64 / OPERATIONS as f64);
    println!("{:?}", volume.counters());
    println!("{:?}", volume.segments().states());
    // For `cargo xtask kernel f2fs-overwrite`: write amplification, blocks moved and nodes among
    // them, segments taken for their gaps, checkpoints.
    let counters = volume.counters();
    let moved = counters.foreground.data + counters.foreground.nodes;
    let gaps: u64 = taken(|u, log| u.used_segments_taken(log)).iter().sum();
    let checkpoints = counters.checkpoints_asked - filled + counters.checkpoints_forced;
    println!(
        "figures {:.6} {moved} {} {gaps} {checkpoints}",
        all as f64 / OPERATIONS as f64,
        counters.foreground.nodes
    );
}

fn usage(volume: &WritableVolume<RamDevice>) -> Vec<[u64; Way::COUNT]> {
    let usage = volume.segments().usage();
    Log::ALL.iter().map(|&log| Way::ALL.map(|way| usage.blocks(log, way))).collect()
}
