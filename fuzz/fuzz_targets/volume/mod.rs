//! A volume, and changes to it.
//!
//! A volume has 50 MiB and an input few bytes: an input is a list of changes to one that is made
//! here. Each is a block (two bytes, its number among those that hold anything), a byte in it (two
//! bytes), a length (one byte) and the bytes. Checkpoints get a right checksum again, so that what
//! they say is looked at.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::layout::CheckpointHead;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::FileKind;
use nandkit_vfs::source::{MemoryTree, SourceNode};

const BLOCK: usize = 4096;
const PACK: u64 = 512;

struct Base {
    device: RamDevice,
    /// Blocks that hold anything.
    blocks: BTreeMap<u64, Vec<u8>>,
}

fn base(features: &str) -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut builder = MemoryTree::builder();
        let mut put = |path: &str, node: SourceNode, content: Option<Vec<u8>>| {
            builder.put(path.as_bytes(), node, content).unwrap()
        };
        for (number, size) in [0, 100, 4000, 9000, 4_000_000].into_iter().enumerate() {
            put(&format!("sizes/{number}"), SourceNode::new(FileKind::Regular, 0o644), Some(vec![number as u8; size]));
        }
        for number in 0..400 {
            let name = format!("many/{number}-{}", "n".repeat(number % 50));
            put(&name, SourceNode::new(FileKind::Regular, 0o600).owned_by(number as u32 % 5, 1), Some(vec![1; number]));
        }
        let xattrs = vec![(b"user.a".to_vec(), vec![7; 50]), (b"user.large".to_vec(), vec![7; 1000])];
        put("deep/er/file", SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o644) }, Some(vec![]));
        put("link", SourceNode::symlink(b"deep/er"), None);
        let tree = MemoryTree::from_builder(builder);
        let features = features_named(features).unwrap();
        let mkfs = Mkfs::new(&tree, MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
        let sectors = mkfs.smallest_size().unwrap() / BLOCK as u64;
        let mut device = RamDevice::with_sectors(BLOCK as u32, sectors).unwrap();
        mkfs.write(&mut device, &Clock::default(), &|_| {}).unwrap();
        let mut blocks = BTreeMap::new();
        for number in 0..sectors {
            let mut block = vec![0; BLOCK];
            device.read(&Context::default(), Lba(number), ReadInto::Bytes(&mut block)).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                blocks.insert(number, block);
            }
        }
        Base { device, blocks }
    })
}

/// The base with the input's changes. A process has one base: that of the features that it names
/// first.
pub fn changed(features: &str, mut data: &[u8]) -> RamDevice {
    let base = base(features);
    let numbers: Vec<u64> = base.blocks.keys().copied().collect();
    let mut edits: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    while let Some(([b0, b1, o0, o1, length], rest)) = data.split_first_chunk::<5>() {
        let number = numbers[usize::from(u16::from_le_bytes([*b0, *b1])) % numbers.len()];
        let block = edits.entry(number).or_insert_with(|| base.blocks[&number].clone());
        let at = usize::from(u16::from_le_bytes([*o0, *o1])) % BLOCK;
        let length = usize::from(*length).min(rest.len()).min(BLOCK - at);
        block[at..at + length].copy_from_slice(&rest[..length]);
        data = &rest[length..];
    }
    let last = PACK + u64::from(CheckpointHead::of_block(&base.blocks[&PACK]).unwrap().pack_blocks.get()) - 1;
    for number in [PACK, last] {
        let Some(block) = edits.get_mut(&number) else { continue };
        let head = CheckpointHead::of_block(block).unwrap();
        if let Some(sum) = head.computed_checksum(block) {
            let at = head.checksum_offset.get() as usize;
            block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let mut device = base.device.clone();
    for (number, block) in &edits {
        device.write(&Context::default(), Lba(*number), Payload::Bytes(block)).unwrap();
    }
    device
}
