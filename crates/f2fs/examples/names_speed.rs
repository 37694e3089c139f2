//! How long names take in one directory of a volume in memory: made, looked up, renamed, removed, with a checkpoint behind each.
//!
//! `cargo run --release -p nandkit-f2fs --example names_speed -- [NAMES]`

use std::time::Instant;

use nandkit_block::RamDevice;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{Volume, WriteOptions};
use nandkit_units::Clock;
use nandkit_vfs::{Changes, FileSystem, NewNode, RenameFlags, Result};

fn name(number: u64) -> Vec<u8> {
    format!("entry-{number:08}.txt").into_bytes()
}

type Step = fn(&mut Volume<RamDevice>, nandkit_vfs::InodeNumber, u64) -> Result<()>;

const STEPS: [(&str, Step); 5] = [
    ("create", |volume, directory, number| volume.create(directory, &name(number), &NewNode::FILE).map(|_| ())),
    ("look up", |volume, directory, number| volume.lookup(directory, &name(number)).map(|_| ())),
    ("look up, absent", |volume, directory, number| {
        let absent = volume.lookup(directory, &name(number + 100_000_000));
        assert!(absent.is_err(), "this name was never made");
        Ok(())
    }),
    ("rename", |volume, directory, number| {
        let (old, new) = (name(number), [&name(number)[..], b".new"].concat());
        volume.rename((directory, &old), (directory, &new), RenameFlags::Replace)
    }),
    ("remove", |volume, directory, number| volume.remove(directory, &[&name(number)[..], b".new"].concat())),
];

fn main() {
    let names: u64 = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number of names"));
    let options = MkfsOptions::default();
    let mut device = RamDevice::with_sectors(4096, 1 << 19).expect("a device");
    let tree = EmptyTree::new(&options);
    Mkfs::new(&tree, options).expect("a plan").write(&mut device, &Clock::default(), &|_| {}).expect("an image");
    let mut volume = Volume::mount(vec![device], Clock::default(), WriteOptions::default()).expect("a volume");
    let root = volume.root();
    let directory = volume.create(root, b"directory", &NewNode::DIRECTORY).expect("a directory");
    for (what, step) in STEPS {
        let start = Instant::now();
        for number in 0..names {
            step(&mut volume, directory, number).expect(what);
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / names as f64;
        let start = Instant::now();
        Volume::sync(&mut volume).expect("a checkpoint");
        println!("{what}: {each:.2} us each of {names}; sync {:.2} s", start.elapsed().as_secs_f64());
    }
}
