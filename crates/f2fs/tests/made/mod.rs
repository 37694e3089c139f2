//! External tools and images for the tests.

#![allow(dead_code, unused_imports, reason = "each test uses its part")]

use std::path::Path;

use nandkit_block::{Access, BlockDevice, BlockGeometry, FileDevice};
use nandkit_f2fs::{BlockAddress, FindingKind, NodeId};
use nandkit_testkit::judges;
pub use nandkit_testkit::trees::built::{all_kinds, everything};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::check::{Finding, Kind};

/// Opens an image, retrying while another process briefly holds it: a tool that another thread is
/// starting keeps this thread's locks on images until it runs.
pub fn patiently<T>(open: impl Fn() -> nandkit_block::Result<T>) -> T {
    for _ in 0..2000 {
        if let Ok(opened) = open() {
            return opened;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    open().unwrap()
}

/// Runs a tool of f2fs-tools; returns its exit status and output.
pub fn run(tool: &str, words: &[&str]) -> (i32, String) {
    let output = judges::tool("f2fs-tools", tool, words).unwrap_or_else(|error| panic!("{error}"));
    (output.status.unwrap_or(-1), output.text())
}

/// The complaints of fsck.f2fs; empty for a sound volume.
pub fn complaints(image: &Path) -> Vec<String> {
    judges::fsck_f2fs(image).unwrap_or_else(|error| panic!("{error}"))
}

/// A clock for tests that do not look at the time.
pub fn clock() -> Clock {
    Clock::starting_at(0)
}

/// A new image of zeroes.
pub fn new_image(path: &Path, bytes: u64) -> FileDevice {
    let geometry = BlockGeometry { sector_size: 512, sectors: bytes / 512, preferred_size: 4096, recycling_size: 0 };
    patiently(|| FileDevice::create(path, geometry))
}

/// Opens an image for reading.
pub fn open_image(path: &Path) -> FileDevice {
    patiently(|| FileDevice::open(path, 512, Access::ReadOnly))
}

/// One block of an image.
pub fn block(image: &FileDevice, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    image.read(&Context::default(), Lba(number * 8), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// The blocks in which two images of the same size differ. Skips holes in both.
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

/// Random bytes.
pub fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

/// The kind of a finding.
pub fn kind_of(finding: &Finding) -> FindingKind {
    FindingKind::ALL.into_iter().find(|kind| kind.name() == finding.kind).unwrap()
}

/// The inode of a finding.
pub fn node_of(finding: &Finding) -> Option<NodeId> {
    finding.inode.map(|inode| NodeId(inode.0 as u32))
}

/// The block of a finding.
pub fn block_of(finding: &Finding) -> Option<BlockAddress> {
    finding.offset.map(|offset| BlockAddress((offset / 4096) as u32))
}
