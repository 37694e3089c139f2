//! Measures the time to mount a clean image for reading and for writing, and the peak memory of the
//! process.
//!
//! `cargo run --release -p nandkit-f2fs --example mount_speed -- IMAGE`, with an image made by
//! `nandkit mkfs f2fs --size 64G --from DIR IMAGE`

use std::path::Path;
use std::time::Instant;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::write::{WritableVolume, WriteOptions};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::Clock;
use nandkit_vfs::FileSystem;

fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    let path = std::env::args().nth(1).expect("an image");
    let device = || FileDevice::open(Path::new(&path), 4096, Access::ReadOnly).expect("a device");
    for _ in 0..3 {
        let start = Instant::now();
        let volume = F2fs::mount(device(), Clock::default(), MountOptions::default()).expect("a volume");
        let status = volume.volume().expect("a status");
        println!(
            "for reading: {:.1} ms, {} of {} blocks free",
            start.elapsed().as_secs_f64() * 1e3,
            status.blocks_free,
            status.blocks
        );
    }
    println!("{:.1} MiB at most", peak_kib() as f64 / 1024.0);
    for _ in 0..3 {
        let start = Instant::now();
        let volume =
            WritableVolume::mount(vec![device()], Clock::default(), WriteOptions::default()).expect("a volume");
        println!("for writing: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        volume.abandon();
    }
    println!("{:.1} MiB at most", peak_kib() as f64 / 1024.0);
}
