//! Damaged images: errors, never a panic, an endless loop or memory without bounds.

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use common::{Draw, mkfs, plant, ram_of_bytes, sload};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::layout::{CheckpointHead, Footer};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};
use proptest::prelude::*;

const BLOCK: usize = 4096;
const PACKS: [usize; 2] = [512, 1024];

/// A volume with a tree, and which of its blocks are what.
struct Base {
    device: RamDevice,
    bytes: Vec<u8>,
    metadata: Vec<usize>,
    nodes: Vec<usize>,
    main: Vec<usize>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let scratch = tempfile::tempdir().unwrap();
        let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
        plant(&source, 600);
        mkfs(&image, 100, "-O extra_attr,project_quota,inode_crtime,casefold,compression -C utf8");
        sload(&image, &source);
        let bytes = fs::read(&image).unwrap();
        let volume = F2fs::mount(ram_of_bytes(&bytes), Clock::default(), MountOptions::default()).unwrap();
        let main = nandkit_f2fs::blocks::Blocks::geometry(&volume).main_address().0 as usize;
        let used = |number: &usize| bytes[number * BLOCK..(number + 1) * BLOCK].iter().any(|&byte| byte != 0);
        let is_node = |number: &usize| {
            let footer = Footer::of_block(&bytes[number * BLOCK..(number + 1) * BLOCK]).unwrap();
            (1..5000).contains(&footer.nid.get()) && (3..5000).contains(&footer.ino.get())
        };
        let (metadata, rest): (Vec<usize>, Vec<usize>) =
            (0..bytes.len() / BLOCK).filter(used).partition(|&number| number < main);
        let nodes: Vec<usize> = rest.iter().copied().filter(is_node).collect();
        assert!(nodes.len() > 600 && metadata.len() > 10);
        Base { device: ram_of_bytes(&bytes), bytes, metadata, nodes, main: rest }
    })
}

/// Reads everything that can be reached, to a bounded depth; errors are fine. Returns how many names were met.
fn roam(volume: &F2fs<RamDevice>) -> usize {
    let mut queue = vec![(volume.root(), 0)];
    let mut names = 0;
    let _ = volume.volume();
    while let Some((directory, depth)) = queue.pop() {
        let mut entries = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.inode, entry.kind, entry.cookie));
            if entries.len() < 2000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(entries.windows(2).all(|pair| pair[0].3 < pair[1].3), "cookies go up");
        for (name, inode, kind, _) in entries {
            assert!(!name.contains(&b'/') && !name.contains(&0) && !name.is_empty());
            names += 1;
            if names > 4000 {
                return names;
            }
            let _ = volume.lookup(directory, &name);
            look(volume, inode);
            if kind == FileKind::Directory && depth < 8 {
                queue.push((inode, depth + 1));
            }
        }
    }
    for number in [0, 1, 2, 4, 0xFFFF_FFFF, 1 << 32, u64::MAX] {
        look(volume, InodeNumber(number));
    }
    names
}

fn look(volume: &F2fs<RamDevice>, inode: InodeNumber) {
    let size = volume.stat(inode).map_or(0, |stat| stat.size);
    let mut bytes = [0; 20_000];
    for offset in [0, size / 2, size.saturating_sub(9000), u64::MAX - 5000] {
        let _ = volume.read(inode, offset, ReadInto::Bytes(&mut bytes));
    }
    let mut at = 0;
    for _ in 0..50 {
        match volume.data_after(inode, at) {
            Ok(Some(range)) => {
                assert!(range.start >= at && range.end > range.start && range.end <= size);
                at = range.end;
            }
            _ => break,
        }
    }
    let _ = volume.symlinks().unwrap().read_link(inode);
    let _ = volume.xattrs().unwrap().all_xattrs(inode);
    let _ = volume.xattrs().unwrap().xattr(inode, b"user.a");
}

/// Changed blocks over the base.
struct Edits(std::collections::BTreeMap<usize, Vec<u8>>);

impl Edits {
    fn block(&mut self, number: usize) -> &mut Vec<u8> {
        self.0.entry(number).or_insert_with(|| base().bytes[number * BLOCK..(number + 1) * BLOCK].to_vec())
    }

    /// Makes both checkpoints' checksums right again, so that what they say is looked at.
    fn sign(&mut self) {
        for start in PACKS {
            for number in [start, start + base().pack_blocks(start) - 1] {
                let block = self.block(number);
                let head = CheckpointHead::of_block(block).unwrap();
                if let Some(sum) = head.computed_checksum(block) {
                    let at = head.checksum_offset.get() as usize;
                    block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
                }
            }
        }
    }

    fn device(&self) -> RamDevice {
        let mut device = base().device.clone();
        for (number, bytes) in &self.0 {
            device.write(&Context::default(), Lba(*number as u64), Payload::Bytes(bytes)).unwrap();
        }
        device
    }
}

impl Base {
    fn pack_blocks(&self, start: usize) -> usize {
        CheckpointHead::of_block(&self.bytes[start * BLOCK..]).unwrap().pack_blocks.get() as usize
    }
}

/// Some damage: bytes anywhere in metadata, words of nodes, fields of checkpoint and superblock.
fn damage(draw: &mut Draw) -> Edits {
    let mut edits = Edits(std::collections::BTreeMap::new());
    let pick = |draw: &mut Draw, of: &[usize]| of[draw.below(of.len())];
    for _ in 0..1 + draw.below(10) {
        let value = draw.next();
        match draw.below(8) {
            0 => {
                let at = 1024 + draw.below(110);
                edits.block(0)[at] = value as u8;
                edits.block(1)[at] = value as u8;
            }
            1 => {
                let at = if draw.below(2) == 0 { draw.below(192) } else { draw.below(BLOCK) };
                for start in PACKS {
                    edits.block(start)[at] = value as u8;
                    // The other end of the pack must have the same version.
                    edits.block(start + base().pack_blocks(start) - 1)[at] = value as u8;
                }
            }
            2 => {
                let number = pick(draw, &base().metadata);
                edits.block(number)[draw.below(BLOCK)] = value as u8;
            }
            // A word of a node becomes another one's: loops, foreign nodes, addresses outside.
            3 | 4 => {
                let (from, to) = (pick(draw, &base().nodes), pick(draw, &base().nodes));
                let (source, target) = (draw.below(BLOCK / 4) * 4, draw.below(BLOCK / 4) * 4);
                let word: Vec<u8> = edits.block(from)[source..source + 4].to_vec();
                edits.block(to)[target..target + 4].copy_from_slice(&word);
            }
            5 | 6 => {
                let number = pick(draw, &base().nodes);
                let at = if draw.below(2) == 0 { draw.below(420) } else { draw.below(BLOCK) };
                edits.block(number)[at] = value as u8;
            }
            _ => {
                let number = pick(draw, &base().main);
                edits.block(number)[draw.below(BLOCK)] = value as u8;
            }
        }
    }
    edits.sign();
    edits
}

#[test]
fn damaged_images_are_errors() {
    // More by `NANDKIT_F2FS_HOSTILE_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test hostile`.
    let rounds = std::env::var("NANDKIT_F2FS_HOSTILE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let whole = roam(&F2fs::mount(base().device.clone(), Clock::default(), MountOptions::default()).unwrap());
    let (mut mounted, mut names) = (0, 0);
    for round in 0..rounds {
        let edits = damage(&mut Draw(0x9E37_79B9_7F4A_7C15 ^ round << 20));
        let options = MountOptions { cached_blocks: 64 };
        if let Ok(volume) = F2fs::mount(edits.device(), Clock::default(), options) {
            mounted += 1;
            names += roam(&volume);
        }
    }
    // The damage is not so bad that nothing is reached.
    assert!(mounted > rounds / 3 && names > mounted as usize * whole / 3, "{mounted} of {rounds}, {names} names");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whole blocks of noise, or of another place, anywhere.
    #[test]
    fn blocks_in_the_wrong_place_are_errors(
        moves in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Option<u64>>()), 1..6),
    ) {
        let all: Vec<usize> = base().metadata.iter().chain(&base().nodes).copied().collect();
        let mut edits = Edits(std::collections::BTreeMap::new());
        for (from, to, noise) in moves {
            let bytes = match noise {
                Some(seed) => {
                    let mut draw = Draw(seed | 1);
                    (0..BLOCK / 8).flat_map(|_| draw.next().to_le_bytes()).collect()
                }
                None => edits.block(all[from.index(all.len())]).clone(),
            };
            *edits.block(all[to.index(all.len())]) = bytes;
        }
        if let Ok(volume) = F2fs::mount(edits.device(), Clock::default(), MountOptions::default()) {
            roam(&volume);
        }
    }
}
