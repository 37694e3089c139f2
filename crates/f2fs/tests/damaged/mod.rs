//! A volume of f2fs-tools, and ways to damage it.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::sync::OnceLock;

use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::layout::{CheckpointHead, Footer};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::{Clock, Context, Lba, Payload};

use nandkit_units::random::Random;

use super::common::{mkfs, plant, ram_of_bytes, sload};

pub const BLOCK: usize = 4096;
const PACKS: [usize; 2] = [512, 1024];

/// A volume with a tree, and what its blocks hold.
pub struct Base {
    pub device: RamDevice,
    pub bytes: Vec<u8>,
    pub metadata: Vec<usize>,
    pub nodes: Vec<usize>,
    pub main: Vec<usize>,
}

pub fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let scratch = tempfile::tempdir().unwrap();
        let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
        plant(&source, 600);
        mkfs(&image, 100, "-O extra_attr,quota,project_quota,inode_crtime,casefold,compression -C utf8");
        sload(&image, &source);
        let bytes = fs::read(&image).unwrap();
        let volume = F2fs::mount(ram_of_bytes(&bytes), Clock::default(), MountOptions::default()).unwrap();
        let main = nandkit_f2fs::Blocks::geometry(&volume).main_address().0 as usize;
        let used = |number: &usize| !nandkit_units::is_zeroed(&bytes[number * BLOCK..(number + 1) * BLOCK]);
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

/// Changed blocks over the base.
#[derive(Default)]
pub struct Edits(pub std::collections::BTreeMap<usize, Vec<u8>>);

impl Edits {
    pub fn block(&mut self, number: usize) -> &mut Vec<u8> {
        self.0.entry(number).or_insert_with(|| base().bytes[number * BLOCK..(number + 1) * BLOCK].to_vec())
    }

    /// Updates both checkpoints' checksums, so that their content is used.
    pub fn sign(&mut self) {
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

    pub fn device(&self) -> RamDevice {
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
pub fn damage(random: &mut Random) -> Edits {
    let mut edits = Edits::default();
    let pick = |random: &mut Random, of: &[usize]| of[random.index(of.len())];
    for _ in 0..1 + random.index(10) {
        let value = random.next_u64();
        match random.index(8) {
            0 => {
                let at = 1024 + random.index(110);
                edits.block(0)[at] = value as u8;
                edits.block(1)[at] = value as u8;
            }
            1 => {
                let at = if random.index(2) == 0 { random.index(192) } else { random.index(BLOCK) };
                for start in PACKS {
                    edits.block(start)[at] = value as u8;
                    // The other end of the pack must have the same version.
                    edits.block(start + base().pack_blocks(start) - 1)[at] = value as u8;
                }
            }
            2 => {
                let number = pick(random, &base().metadata);
                edits.block(number)[random.index(BLOCK)] = value as u8;
            }
            // A word of a node takes another's value: loops, nodes of others, addresses outside.
            3 | 4 => {
                let (from, to) = (pick(random, &base().nodes), pick(random, &base().nodes));
                let (source, target) = (random.index(BLOCK / 4) * 4, random.index(BLOCK / 4) * 4);
                let word: Vec<u8> = edits.block(from)[source..source + 4].to_vec();
                edits.block(to)[target..target + 4].copy_from_slice(&word);
            }
            5 | 6 => {
                let number = pick(random, &base().nodes);
                let at = if random.index(2) == 0 { random.index(420) } else { random.index(BLOCK) };
                edits.block(number)[at] = value as u8;
            }
            _ => {
                let number = pick(random, &base().main);
                edits.block(number)[random.index(BLOCK)] = value as u8;
            }
        }
    }
    edits.sign();
    edits
}
