//! External tools and images for the tests.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use nandkit_block::{Access, BlockDevice, BlockGeometry, FileDevice};
use nandkit_f2fs::{BlockAddress, FindingKind, NodeId};
use nandkit_testkit::judges;
use nandkit_units::random::Random;
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::check::{Finding, Kind};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{FileKind, Timestamp};

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

const ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 7, 0, 0xE8, 3, 0, 0, 4, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    0x10, 0, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x20, 0, 4, 0, 0xFF, 0xFF, 0xFF, 0xFF,
];

/// A tree with every kind of entry, content around all limits, and a directory of several levels.
pub fn everything() -> MemoryTree {
    all_kinds(5000)
}

/// All kinds of files, and a directory of `many` names: 700 take several levels of blocks.
pub fn all_kinds(many: usize) -> MemoryTree {
    let mut random = Random::new(1, "tree");
    let mut builder = MemoryTree::builder();
    let time = |seconds: i64| Timestamp(seconds * 1_000_000_000 + 123_456_789);
    let mut file = |path: &str, content: Vec<u8>| {
        let node = SourceNode::new(FileKind::Regular, 0o640).at(time(1_600_000_000)).owned_by(1000, 70_000);
        builder.put(path.as_bytes(), node, Some(content)).unwrap();
    };
    for size in [0, 1, 3452, 3453, 3488, 3489, 4096, 4097, 873 * 4096, 873 * 4096 + 1, 3_000_000, 9_000_000, 17_000_000]
    {
        file(&format!("sizes/of-{size}"), bytes(&mut random, size));
    }
    for name in ["film.mp4", "base.db", "two.xz.txt"] {
        file(&format!("kinds/{name}"), bytes(&mut random, 20_000));
    }
    for number in 0..many {
        file(&format!("many/{number}-{}", "n".repeat(number % 90)), format!("file {number}").into_bytes());
    }
    file(&format!("names/{}", "x".repeat(255)), b"longest".to_vec());
    file(&format!("names/{}", "\u{E4}".repeat(127)), b"letters".to_vec());
    for (number, length) in [1, 100, 3488, 3489, 4095].into_iter().enumerate() {
        let target = "t/".repeat(2048).into_bytes()[..length].to_vec();
        builder.put(format!("links/{number}").as_bytes(), SourceNode::symlink(&target).at(time(-5)), None).unwrap();
    }
    for (name, node) in [
        ("small", SourceNode::device(FileKind::CharacterDevice, 0o600, 1, 3)),
        ("large", SourceNode::device(FileKind::BlockDevice, 0o660, 259, 70_000)),
        ("pipe", SourceNode::new(FileKind::Fifo, 0o644)),
        ("socket", SourceNode::new(FileKind::Socket, 0o755)),
    ] {
        builder.put(format!("devices/{name}").as_bytes(), node.at(time(0)), None).unwrap();
    }
    builder.link(b"kinds/hard link", b"sizes/of-9000000").unwrap();
    builder.link(b"names/hard link", b"devices/pipe").unwrap();
    let attributes =
        |pairs: &[(&str, Vec<u8>)]| pairs.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.clone())).collect();
    for (name, xattrs) in [
        ("small", attributes(&[("security.selinux", b"u:object_r:x:s0\0".to_vec()), ("user.a", Vec::new())])),
        ("both", attributes(&[("trusted.t", bytes(&mut random, 190)), ("user.large", bytes(&mut random, 3900))])),
        ("acl", attributes(&[("system.posix_acl_access", ACL.to_vec())])),
    ] {
        let node = SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o6755) };
        builder.put(format!("attributes/{name}").as_bytes(), node, Some(b"content".to_vec())).unwrap();
    }
    let xattrs = attributes(&[("user.of-directory", bytes(&mut random, 1000))]);
    let node = SourceNode { xattrs, ..SourceNode::new(FileKind::Directory, 0o1777) };
    builder.put(b"attributes/directory", node, None).unwrap();
    MemoryTree::from_builder(builder)
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
