//! Measures how damage is detected: changes one bit or byte in copies of a volume, by the class of
//! bytes it hits, and counts who reports it.
//!
//! `cargo run --release -p nandkit-f2fs --example damage -- [--copies N] [--seed S]` changes N
//! copies per class, in a volume with every checksum of the format and in one with none.
//!
//! Columns: the check reports a fault, and how many of these name an inode or an address; it
//! reports something harmless; nothing is reported and the tree is unchanged; **silent**: nothing
//! is reported and the tree differs. Then, whether or not the check reports anything: a reader gets
//! the same tree, an error, or another tree.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/made/mod.rs"]
mod made;
#[path = "../tests/planted/mod.rs"]
mod planted;
#[path = "../tests/witness/mod.rs"]
mod witness;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;

use made::clock;
use nandkit_block::wrap::OverlayDevice;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::{F2fs, MountOptions, check};
use nandkit_testkit::soak::{self, Arguments};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{Attributes, FileKind, FileSystem, InodeNumber};
use planted::{BLOCK, Planted};
use witness::{FEATURES, classes_of, made_with};

/// Everything about an entry.
#[derive(PartialEq)]
struct Entry {
    stat: Attributes,
    /// The content, or a symlink's target.
    content: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

type Tree = BTreeMap<Vec<u8>, Entry>;

/// Files with each kind of node, inline directories and directories of several levels, links,
/// inline attributes and an attribute node.
fn source() -> MemoryTree {
    let (mut builder, mut random) = (MemoryTree::builder(), Random::new(77, "tree"));
    let mut put = |path: &str, node: SourceNode, content: Option<Vec<u8>>| {
        builder.put(path.as_bytes(), node, content).unwrap();
    };
    for size in [0, 100, 3400, 4096, 100_000, 5_000_000, 13_000_000] {
        let content = (0..size / 8 + 1).flat_map(|_| random.next_u64().to_le_bytes()).take(size).collect();
        put(&format!("sizes/{size}"), SourceNode::new(FileKind::Regular, 0o644), Some(content));
    }
    for number in 0..600 {
        let node = SourceNode::new(FileKind::Regular, 0o600).owned_by(number as u32 % 5, 1);
        put(&format!("many/{number}-{}", "n".repeat(number % 50)), node, Some(vec![1; number]));
    }
    let xattrs = vec![(b"user.a".to_vec(), vec![7; 50]), (b"user.large".to_vec(), vec![7; 1000])];
    put("deep/er/file", SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o644) }, Some(vec![3; 9000]));
    for length in [20, 4000] {
        put(&format!("link-{length}"), SourceNode::symlink(&vec![b't'; length]), None);
    }
    MemoryTree::from_builder(builder)
}

fn entry<D: BlockDevice>(volume: &F2fs<D>, inode: InodeNumber) -> nandkit_vfs::Result<Entry> {
    let stat = volume.stat(inode)?;
    let content = match stat.kind {
        FileKind::Regular => {
            let mut bytes = vec![0; stat.size.min(20_000_000) as usize];
            if !bytes.is_empty() {
                FileSystem::read(volume, inode, 0, ReadInto::Bytes(&mut bytes))?;
            }
            bytes
        }
        FileKind::Symlink => volume.symlinks().unwrap().read_link(inode)?,
        _ => Vec::new(),
    };
    let mut xattrs = Vec::new();
    for (name, value) in volume.xattrs().unwrap().all_xattrs(inode)? {
        xattrs.push((name, value?));
    }
    xattrs.sort();
    Ok(Entry { stat, content, xattrs })
}

/// The whole tree; `None` if it is endless.
fn tree<D: BlockDevice>(volume: &F2fs<D>) -> nandkit_vfs::Result<Option<Tree>> {
    let (mut tree, mut queue) = (Tree::new(), vec![(Vec::new(), volume.root())]);
    while let Some((path, directory)) = queue.pop() {
        let mut entries = Vec::new();
        volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (name, inode, kind) in entries {
            let below = [&path[..], b"/", &name].concat();
            // Look up every listed name: a flipped hash hides a name from lookups.
            volume.lookup(directory, &name)?;
            tree.insert(below.clone(), entry(volume, inode)?);
            if kind == FileKind::Directory {
                queue.push((below, inode));
            }
            if tree.len() > 3000 {
                return Ok(None);
            }
        }
    }
    Ok(Some(tree))
}

#[derive(Clone, Copy, Default)]
struct DamageCounts {
    told: u64,
    with_inode: u64,
    with_address: u64,
    harmless: u64,
    same: u64,
    silent: u64,
    /// What a reader gets: the same tree, an error, another tree.
    read: [u64; 3],
}

impl DamageCounts {
    fn add(&mut self, mut device: OverlayDevice<&mut RamDevice>, sound: &Tree) {
        let volume = F2fs::mount(&mut device, clock(), MountOptions::default());
        let read = match volume.and_then(|volume| tree(&volume)) {
            Err(_) => 1,
            Ok(Some(found)) if found == *sound => 0,
            Ok(_) => 2,
        };
        self.read[read] += 1;
        let report = check(vec![&mut device], clock());
        let findings = report.as_ref().map_or(&[][..], |report| &report.findings);
        let faults = || findings.iter().filter(|found| !found.is_harmless());
        if report.is_err() || faults().next().is_some() {
            self.told += 1;
            self.with_inode += u64::from(faults().any(|found| found.inode.is_some()));
            self.with_address += u64::from(faults().any(|found| found.offset.is_some()));
        } else if !findings.is_empty() {
            self.harmless += 1;
        } else if read == 0 {
            self.same += 1;
        } else {
            self.silent += 1;
        }
    }
}

/// Changes one bit or, in every other copy, one byte.
fn damaged<'a>(
    base: &'a mut RamDevice,
    planted: &Planted,
    (at, byte): (u32, usize),
    random: &mut Random,
) -> OverlayDevice<&'a mut RamDevice> {
    let mut block = planted.bytes[at as usize * BLOCK..][..BLOCK].to_vec();
    block[byte] ^= if random.index(2) == 0 { 1 << random.index(8) } else { 1 + random.index(255) as u8 };
    let mut device = OverlayDevice::new(base).unwrap();
    device.write(&Context::default(), Lba(u64::from(at)), Payload::Bytes(&block)).unwrap();
    device
}

fn run() -> Result<(), String> {
    let arguments = Arguments::of_process(&["--copies"])?;
    let copies = arguments.number("--copies")?.unwrap_or(200);
    for features in FEATURES {
        let planted = made_with(features, &source());
        let mut base = planted.device();
        let sound = tree(planted.volume()).map_err(|error| error.to_string())?.ok_or("too large a tree")?;
        let mut random = Random::new(arguments.seed, "damage");
        let shown = if features.is_empty() { "no checksums" } else { features };
        println!(
            "| {shown} | told | with inode | with address | harmless | nobody, same | silent | read: same | error | other |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        let mut all = 0;
        for (class, places) in classes_of(&planted) {
            let mut counts = DamageCounts::default();
            for _ in 0..copies {
                let (at, bytes) = &places[random.index(places.len())];
                let byte = bytes.start + random.index(bytes.len());
                counts.add(damaged(&mut base, &planted, (*at, byte), &mut random), &sound);
            }
            let DamageCounts { told, with_inode, with_address, harmless, same, silent, read: [equal, error, other] } =
                counts;
            println!(
                "| {class} | {told} | {with_inode} | {with_address} | {harmless} | {same} | {silent} | {equal} | {error} | {other} |"
            );
            all += copies;
        }
        println!("\n{all} copies\n");
    }
    Ok(())
}

fn main() -> ExitCode {
    soak::close(run())
}
