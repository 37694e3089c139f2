//! Outside tools and images for the tests.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_block::{Access, BlockDevice, BlockGeometry, FileDevice};
use nandkit_units::{Clock, Context, Lba, ReadInto};

static ALONE: Mutex<()> = Mutex::new(());

/// One test at a time: a tool that another thread starts would hold this one's locks on images for a moment.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a tool of f2fs-tools; its exit status and all that it printed. Without the tool the test fails.
pub fn run(tool: &str, words: &[&str]) -> (i32, String) {
    let found = ["", "/usr/sbin/", "/sbin/"]
        .iter()
        .find_map(|place| Command::new(format!("{place}{tool}")).args(words).output().ok());
    let Some(output) = found else { panic!("{tool} is missing: install the Debian package f2fs-tools") };
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// What fsck.f2fs complains of (f2fs-mkfs.md, "fsck.f2fs"): nothing in a sound volume. It exits with 0 on some faults, which its output tells.
pub fn complaints(image: &Path) -> Vec<String> {
    let (status, text) = run("fsck.f2fs", &["--dry-run", &image.to_string_lossy()]);
    let bad = |line: &&str| ["[ASSERT]", "[FIX]", "[Fail]"].iter().any(|mark| line.contains(mark));
    let mut complaints: Vec<String> = text.lines().filter(bad).map(str::to_owned).collect();
    if status != 0 {
        complaints.push(format!("status {status}"));
    }
    if !text.contains("[FSCK] other corrupted bugs") && complaints.is_empty() {
        complaints.push(format!("fsck.f2fs did not look at it: {text}"));
    }
    complaints
}

/// A clock that nobody watches.
pub fn clock() -> Clock {
    Clock::starting_at(0)
}

/// A new image of zeroes.
pub fn new_image(path: &Path, bytes: u64) -> FileDevice {
    let geometry = BlockGeometry { sector_size: 512, sectors: bytes / 512, preferred_size: 4096, recycling_size: 0 };
    FileDevice::create(path, geometry).unwrap()
}

/// An image to read.
pub fn open_image(path: &Path) -> FileDevice {
    FileDevice::open(path, 512, Access::ReadOnly).unwrap()
}

/// One block of an image.
pub fn block(image: &FileDevice, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    image.read(&Context::default(), Lba(number * 8), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// The blocks in which two images of the same size differ. What both have as holes is not read.
pub fn differing(a: &FileDevice, b: &FileDevice) -> Vec<u64> {
    let sectors = a.geometry().sectors;
    assert_eq!(sectors, b.geometry().sectors);
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= sectors {
        let (left, right) = (a.extent(Lba(at), sectors - at), b.extent(Lba(at), sectors - at));
        let whole = left.sectors.min(right.sectors) / 8 * 8;
        if !left.holds && !right.holds && whole > 0 {
            at += whole;
            continue;
        }
        if block(a, at / 8) != block(b, at / 8) {
            found.push(at / 8);
        }
        at += 8;
    }
    found
}
