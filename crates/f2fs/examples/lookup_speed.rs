//! Measures lookups in a directory of many names, on an image in memory: existing names, missing
//! names, and a listing.
//!
//! `cargo run --release -p nandkit-f2fs --example lookup_speed -- [NAMES]`

use std::ops::ControlFlow;
use std::time::Instant;

use nandkit_block::RamDevice;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::Clock;
use nandkit_units::random::Random;
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{FileKind, FileSystem};

fn name(number: u64) -> String {
    format!("entry-{number:08}.jpg")
}

fn main() {
    let names: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of names"));
    let mut builder = MemoryTree::builder();
    for number in 0..names {
        // All names are links to one inode, since only names are measured.
        if number == 0 {
            builder
                .put(name(0).as_bytes(), SourceNode::new(FileKind::Regular, 0o644), Some(Vec::new()))
                .expect("a file");
        } else {
            builder.link(name(number).as_bytes(), name(0).as_bytes()).expect("a link");
        }
    }
    let tree = MemoryTree::from_builder(builder);
    let start = Instant::now();
    let mut device = RamDevice::with_sectors(4096, 1 << 18).expect("a device");
    Mkfs::new(&tree, MkfsOptions::default())
        .expect("a plan")
        .write(&mut device, &Clock::default(), &|_| {})
        .expect("an image");
    println!("mkfs of {names} names: {:.2} s", start.elapsed().as_secs_f64());
    let volume = F2fs::mount(device, Clock::default(), MountOptions::default()).expect("a volume");
    let root = volume.root();
    let mut random = Random::new(1, "lookups");
    for (what, from) in [("warming", 0), ("there", 0), ("absent", names)] {
        let lookups = 100_000;
        let start = Instant::now();
        let mut found = 0;
        for _ in 0..lookups {
            found += u64::from(volume.lookup(root, name(from + random.below(names)).as_bytes()).is_ok());
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(lookups);
        println!("{what}: {each:.2} us a lookup, {found} of {lookups} found");
    }
    let start = Instant::now();
    let mut listed = 0u64;
    volume
        .read_dir(root, 0, &mut |_| {
            listed += 1;
            ControlFlow::Continue(())
        })
        .expect("a listing");
    println!("listing: {listed} names in {:.3} s", start.elapsed().as_secs_f64());
}
