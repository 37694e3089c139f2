//! Images of f2fs-tools.
#![allow(dead_code, reason = "not every test uses everything")]

use std::fs;
use std::path::Path;

use crate::made::patiently;
use nandkit_block::{Access, BlockDevice, FileDevice, RamDevice};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_testkit::{judges, trees};
use nandkit_units::{Clock, Context, Lba, Payload};

/// Runs a tool of f2fs-tools; the test fails if it is missing or fails.
pub fn run(tool: &str, arguments: &[&str]) {
    judges::must_run("f2fs-tools", tool, arguments);
}

/// File sizes: around the limits of inline data, of a block, and of an inode's addresses (923 at
/// most); then with direct and indirect nodes.
const SIZES: [usize; 16] =
    [0, 1, 100, 3451, 3452, 3453, 3488, 3689, 4095, 4096, 4097, 20_000, 864 * 4096, 924 * 4096 + 1, 5 << 20, 13 << 20];

/// A tree with files of all sizes, symlinks of all lengths, and a directory of this many names.
pub fn plant(root: &Path, names: usize) {
    trees::plant_all_sizes(root, &SIZES, names);
}

/// Mounts an image file.
pub fn mount_file(image: &Path) -> nandkit_vfs::Result<F2fs<FileDevice>> {
    let device = patiently(|| FileDevice::open(image, 512, Access::ReadOnly));
    F2fs::mount(device, Clock::default(), MountOptions::default())
}

/// Makes an image of `mib` MiB with mkfs.f2fs and these options.
pub fn mkfs(image: &Path, mib: u64, options: &str) {
    let _ = fs::remove_file(image);
    fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
    let mut arguments: Vec<&str> = options.split_whitespace().collect();
    arguments.extend(["-f", "-q", image.to_str().unwrap()]);
    run("mkfs.f2fs", &arguments);
}

/// Fills an image with a tree, using sload.f2fs.
pub fn sload(image: &Path, source: &Path) {
    let arguments = ["-f", source.to_str().unwrap(), "-P", image.to_str().unwrap()];
    // It runs fsck.f2fs at the end, which corrects what sload itself miscounts (1.15: blocks of
    // symlinks with a block of their own), and returns its status: 1 means repaired.
    let (status, told) = crate::made::run("sload.f2fs", &arguments);
    assert!([0, 1].contains(&status) && told.contains("Done: "), "sload.f2fs: status {status}\n{told}");
}

/// An image file's bytes as a device in memory.
pub fn ram_of(image: &Path) -> RamDevice {
    ram_of_bytes(&fs::read(image).unwrap())
}

/// Bytes as a device; zeros take no memory.
pub fn ram_of_bytes(bytes: &[u8]) -> RamDevice {
    let mut device = RamDevice::with_sectors(4096, bytes.len() as u64 / 4096).unwrap();
    for (lba, sector) in bytes.chunks_exact(4096).enumerate() {
        if !nandkit_units::is_zeroed(sector) {
            device.write(&Context::default(), Lba(lba as u64), Payload::Bytes(sector)).unwrap();
        }
    }
    device
}
