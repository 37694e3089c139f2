//! Volumes in memory, random operations on their files, and what of them may be there behind a cut or a fault.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::checkpoint::Reason;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{NodeId, Volume};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, FsError, InodeNumber, NewNode};

use crate::made::clock;

pub const BLOCK: usize = 4096;
pub const SECTORS: u64 = 64 << 8;
pub const FILES: u64 = 9;
/// Files from here on are small.
const SMALL_FILES: u64 = 7;

/// Sectors of a volume that are not zero.
pub type Image = Vec<(u64, Vec<u8>)>;

pub fn empty_image(features: &str) -> Image {
    let mut device = RamDevice::with_sectors(4096, SECTORS).unwrap();
    let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    image_of(&device)
}

pub fn image_of(device: &impl BlockDevice) -> Image {
    let mut image = Image::new();
    for sector in 0..SECTORS {
        let mut bytes = vec![0; BLOCK];
        device.read(&Context::default(), Lba(sector), ReadInto::Bytes(&mut bytes)).unwrap();
        if bytes.iter().any(|&byte| byte != 0) {
            image.push((sector, bytes));
        }
    }
    image
}

pub fn device_of(image: &Image) -> RamDevice {
    let mut device = RamDevice::with_sectors(4096, SECTORS).unwrap();
    for (sector, bytes) in image {
        device.write(&Context::default(), Lba(*sector), Payload::Bytes(bytes)).unwrap();
    }
    device
}

/// A page of a file says whose it is, and which version; version 0 is zeroes.
pub fn page(file: u64, number: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        for (index, part) in bytes.chunks_exact_mut(32).enumerate() {
            part[..8].copy_from_slice(&file.to_le_bytes());
            part[8..16].copy_from_slice(&number.to_le_bytes());
            part[16..24].copy_from_slice(&version.to_le_bytes());
            part[24..].copy_from_slice(&(index as u64 ^ version << 20).to_le_bytes());
        }
    }
    bytes
}

/// What a file may be behind a cut: all that it was since it was last made durable.
#[derive(Clone, Debug, Default)]
pub struct File {
    exists: BTreeSet<bool>,
    there: bool,
    sizes: BTreeSet<u64>,
    size: u64,
    pages: BTreeMap<u64, Vec<u64>>,
}

impl File {
    pub fn durable(&mut self) {
        self.exists = BTreeSet::from([self.there]);
        self.sizes = BTreeSet::from([self.size]);
        for versions in self.pages.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    fn set(&mut self, number: u64, version: u64) {
        self.pages.entry(number).or_insert_with(|| vec![0]).push(version);
    }

    fn resize(&mut self, size: u64) {
        if size < self.size {
            let cut: Vec<u64> = self.pages.range(size.div_ceil(BLOCK as u64)..).map(|(&number, _)| number).collect();
            cut.into_iter().for_each(|number| self.set(number, 0));
        }
        self.size = size;
        self.sizes.insert(size);
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub files: BTreeMap<u64, File>,
    version: u64,
}

pub fn name(file: u64) -> Vec<u8> {
    format!("file-{file}").into_bytes()
}

pub type Result<T> = std::result::Result<T, FsError>;

/// Random operations until the power goes. What returned is in the model.
pub fn run<D: BlockDevice>(volume: &mut Volume<D>, model: &mut Model, random: &mut Random, steps: u32) -> Result<()> {
    let root = volume.root();
    for _ in 0..steps {
        let id = random.below(FILES);
        let there = model.files.get(&id).is_some_and(|file| file.there);
        let what = random.below(100);
        model.files.entry(id).or_insert_with(|| File {
            exists: BTreeSet::from([false]),
            sizes: BTreeSet::from([0]),
            ..File::default()
        });
        let Some(file) = model.files.get_mut(&id) else { continue };
        if !there {
            // It may happen although it is not acknowledged.
            file.exists.insert(true);
            volume.create(root, &name(id), &NewNode::FILE)?;
            file.there = true;
            continue;
        }
        let ino = volume.lookup(root, &name(id))?;
        let nid = NodeId(ino.0 as u32);
        match what {
            0..45 if id >= SMALL_FILES => {
                // Written anew, around what an inode holds.
                let length = [100, 2000, 3400, 3600, 4000][random.below(5) as usize];
                model.version += 1;
                file.resize(0);
                file.set(0, 0);
                file.set(0, model.version);
                file.resize(length);
                volume.truncate(nid, 0)?;
                volume.write(nid, 0, Payload::Bytes(&page(id, 0, model.version)[..length as usize]))?;
            }
            0..45 => {
                let start = if random.below(12) == 0 { 900 + random.below(60) } else { random.below(20) };
                let count = 1 + random.below(4);
                let mut bytes = Vec::new();
                for number in start..start + count {
                    model.version += 1;
                    file.set(number, model.version);
                    bytes.extend(page(id, number, model.version));
                }
                let end = (start + count) * BLOCK as u64;
                if end > file.size {
                    file.sizes.extend((file.size / BLOCK as u64..=start + count).map(|pages| pages * BLOCK as u64));
                    file.resize(end);
                }
                volume.write(nid, start * BLOCK as u64, Payload::Bytes(&bytes))?;
            }
            45..75 => {
                volume.fsync(nid, random.below(3) == 0)?;
                file.durable();
            }
            75..83 if id < SMALL_FILES => {
                let size = random.below(file.size / BLOCK as u64 + 2) * BLOCK as u64;
                file.resize(size);
                volume.truncate(nid, size)?;
            }
            83..88 => {
                file.exists.insert(false);
                volume.remove(root, &name(id))?;
                file.there = false;
                file.resize(0);
            }
            88..92 => volume.checkpoint(Reason::Sync)?,
            92..95 if id < SMALL_FILES => {
                let number = random.below(20);
                if file.size > number * BLOCK as u64 {
                    file.set(number, 0);
                }
                volume.punch(nid, number * BLOCK as u64, BLOCK as u64)?;
            }
            _ => {
                volume.sync()?;
                model.files.values_mut().for_each(File::durable);
            }
        }
    }
    Ok(())
}

pub fn must_be_possible<D: BlockDevice>(volume: &Volume<D>, model: &Model, context: &str) {
    for (&id, file) in &model.files {
        let found = volume.lookup(volume.root(), &name(id));
        let Ok(ino) = found else {
            assert!(file.exists.contains(&false), "{context}: file {id} is lost");
            continue;
        };
        assert!(file.exists.contains(&true), "{context}: file {id} is there again");
        let stat = volume.stat(ino).unwrap();
        let known = file.sizes.contains(&stat.size) || file.exists.contains(&false) && stat.size == 0;
        assert!(known, "{context}: file {id} has {} bytes; expected one of {:?}", stat.size, file.sizes);
        let inode = volume.inode(InodeNumber(ino.0)).unwrap();
        let mut bytes = vec![0; BLOCK];
        for number in 0..stat.size.div_ceil(BLOCK as u64) {
            let length = (stat.size - number * BLOCK as u64).min(BLOCK as u64) as usize;
            let bytes = &mut bytes[..length];
            volume.read_at(&inode, number * BLOCK as u64, bytes).unwrap();
            let versions = file.pages.get(&number).cloned().unwrap_or_else(|| vec![0]);
            let new = file.exists.contains(&false);
            let possible = versions.iter().any(|&version| *bytes == page(id, number, version)[..length])
                || new && bytes.iter().all(|&byte| byte == 0);
            assert!(
                possible,
                "{context}: file {id}, page {number}: expected a version of {versions:?}, found {:?}",
                &bytes[..24]
            );
        }
    }
}
