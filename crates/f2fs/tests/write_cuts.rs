//! Power cuts at every request to the device, and within the recoveries behind them: what was fsynced is there, nothing that was never written is, and the volume is sound.

mod made;
mod writing;

use std::collections::{BTreeMap, BTreeSet};

use made::{alone, clock, complaints};
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::checkpoint::Reason;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::recover::Recovered;
use nandkit_f2fs::{NodeId, Volume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, FsError, InodeNumber, NewNode};
use writing::findings;

const BLOCK: usize = 4096;
const SECTORS: u64 = 64 << 8;
const FILES: u64 = 7;

/// Sectors of a volume that are not zero.
type Image = Vec<(u64, Vec<u8>)>;

fn empty_image(features: &str) -> Image {
    let mut device = RamDevice::with_sectors(4096, SECTORS).unwrap();
    let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
    Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    image_of(&device)
}

fn image_of(device: &impl BlockDevice) -> Image {
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

fn device_of(image: &Image) -> RamDevice {
    let mut device = RamDevice::with_sectors(4096, SECTORS).unwrap();
    for (sector, bytes) in image {
        device.write(&Context::default(), Lba(*sector), Payload::Bytes(bytes)).unwrap();
    }
    device
}

/// A page of a file says whose it is, and which version; version 0 is zeroes.
fn page(file: u64, number: u64, version: u64) -> Vec<u8> {
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
struct File {
    exists: BTreeSet<bool>,
    there: bool,
    sizes: BTreeSet<u64>,
    size: u64,
    pages: BTreeMap<u64, Vec<u64>>,
}

impl File {
    fn durable(&mut self) {
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
struct Model {
    files: BTreeMap<u64, File>,
    version: u64,
}

fn name(file: u64) -> Vec<u8> {
    format!("file-{file}").into_bytes()
}

type Result<T> = std::result::Result<T, FsError>;

/// Random operations until the power goes. What returned is in the model.
fn run<D: BlockDevice>(volume: &mut Volume<D>, model: &mut Model, random: &mut Random, steps: u32) -> Result<()> {
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
            75..83 => {
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
            92..95 => {
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

fn must_be_possible<D: BlockDevice>(volume: &Volume<D>, model: &Model, context: &str) {
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
        for number in 0..stat.size / BLOCK as u64 {
            volume.read_at(&inode, number * BLOCK as u64, &mut bytes).unwrap();
            let versions = file.pages.get(&number).cloned().unwrap_or_else(|| vec![0]);
            let new = file.exists.contains(&false);
            let possible = versions.iter().any(|&version| bytes == page(id, number, version))
                || new && bytes.iter().all(|&byte| byte == 0);
            assert!(
                possible,
                "{context}: file {id}, page {number}: expected a version of {versions:?}, found {:?}",
                &bytes[..24]
            );
        }
    }
}

struct Shape {
    features: &'static str,
    options: WriteOptions,
    survivals: &'static [Survival],
    seed: u64,
}

fn shapes() -> Vec<Shape> {
    let ordered = WriteOptions { ordered_fsync: true, ..WriteOptions::default() };
    let newer = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr";
    vec![
        Shape { features: "", options: ordered, survivals: &[Survival::Subset, Survival::None], seed: 1 },
        Shape {
            features: newer,
            options: WriteOptions { ipu_policy: Some(0), ..ordered },
            survivals: &[Survival::Subset, Survival::All],
            seed: 2,
        },
        Shape {
            features: "",
            options: WriteOptions { lfs: true, ..WriteOptions::default() },
            survivals: &[Survival::Prefix, Survival::All],
            seed: 3,
        },
    ]
}

/// The run up to a cut; the device behind it, and what may be on it. `None` where the run ends before.
fn cut_run(image: &Image, shape: &Shape, plan: DeviceCutPlan) -> Option<(RamDevice, Model)> {
    let device = CutDevice::new(device_of(image), plan);
    let mut model = Model::default();
    let mut volume = Volume::mount(vec![device], clock(), shape.options).unwrap();
    let mut random = Random::new(shape.seed, "cuts");
    let ended = run(&mut volume, &mut model, &mut random, 160);
    let device = volume.abandon().remove(0);
    if !device.is_off() {
        ended.unwrap();
        return None;
    }
    Some((device.into_inner().unwrap(), model))
}

fn moment(number: u64) -> DeviceCutMoment {
    [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][number as usize % 3]
}

/// Mounts behind a cut, holds it against the model, and goes on: to a second mount that has nothing to recover.
fn judge(device: RamDevice, model: &Model, shape: &Shape, context: &str) -> RamDevice {
    let volume = Volume::mount(vec![device], clock(), shape.options);
    let volume = volume.unwrap_or_else(|error| panic!("{context}: {error}"));
    must_be_possible(&volume, model, context);
    // The unmount writes the pack that the cut may have left in pieces.
    let device = writing::unmount(volume);
    let wrong = findings(device_of(&image_of(&device)));
    assert_eq!(wrong, Vec::<String>::new(), "{context}: check");
    let volume = Volume::mount(vec![device], clock(), shape.options).unwrap();
    assert_eq!(volume.recovered(), Recovered::default(), "{context}");
    must_be_possible(&volume, model, context);
    volume.abandon().remove(0)
}

#[test]
fn what_was_fsynced_survives_cuts_at_every_request() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    for shape in shapes() {
        let image = empty_image(shape.features);
        for &survival in shape.survivals {
            let mut request = 1;
            loop {
                let plan = DeviceCutPlan::at(request, moment(request), survival, request);
                let Some((device, model)) = cut_run(&image, &shape, plan) else { break };
                let context = format!("seed {}, {plan}", shape.seed);
                let device = judge(device, &model, &shape, &context);
                if request % 23 == 0 {
                    let path = scratch.path().join("image");
                    let mut bytes = vec![0; SECTORS as usize * BLOCK];
                    for (sector, content) in image_of(&device) {
                        bytes[sector as usize * BLOCK..][..BLOCK].copy_from_slice(&content);
                    }
                    std::fs::write(&path, bytes).unwrap();
                    assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
                }
                request += 1;
            }
            println!("seed {}, {survival:?}: {request} requests", shape.seed);
            assert!(request > 100, "{request} requests only");
        }
    }
}

#[test]
fn cuts_within_the_recovery_lose_nothing() {
    let _alone = alone();
    for shape in shapes() {
        let image = empty_image(shape.features);
        let mut request = 5;
        while let Some((device, model)) =
            cut_run(&image, &shape, DeviceCutPlan::at(request, moment(request), shape.survivals[0], request))
        {
            let before = image_of(&device);
            for inside in 1.. {
                let plan =
                    DeviceCutPlan::at(inside, moment(inside + request), shape.survivals[inside as usize % 2], inside);
                let device = CutDevice::new(device_of(&before), plan);
                let mut device = match Volume::mount(vec![device], clock(), shape.options) {
                    // Nothing to recover, or the recovery ended before.
                    Ok(volume) => volume.abandon().remove(0),
                    Err(_) => {
                        // The device went with the mount: the same again, keeping it.
                        judge(
                            recovery_cut(&before, plan, &shape),
                            &model,
                            &shape,
                            &format!("seed {}, request {request}, {plan}", shape.seed),
                        );
                        continue;
                    }
                };
                device.power_on();
                break;
            }
            request += 11;
        }
        assert!(request > 100, "{request} requests only");
    }
}

/// A mount that ends in a power cut, and the device behind it.
fn recovery_cut(image: &Image, plan: DeviceCutPlan, shape: &Shape) -> RamDevice {
    let shared = Shared::new(CutDevice::new(device_of(image), plan));
    let mounted = Volume::mount(vec![shared.clone()], clock(), shape.options);
    assert!(mounted.is_err());
    drop(mounted);
    shared.into_inner().into_inner().unwrap()
}

/// A device that its owner can have back from a mount that failed.
#[derive(Clone, Debug)]
struct Shared<D>(std::sync::Arc<std::sync::Mutex<D>>, nandkit_block::BlockGeometry);

impl<D: BlockDevice> Shared<D> {
    fn new(device: D) -> Self {
        let geometry = *device.geometry();
        Self(std::sync::Arc::new(std::sync::Mutex::new(device)), geometry)
    }

    fn into_inner(self) -> D {
        std::sync::Arc::into_inner(self.0).unwrap().into_inner().unwrap()
    }
}

impl<D: BlockDevice> BlockDevice for Shared<D> {
    fn geometry(&self) -> &nandkit_block::BlockGeometry {
        &self.1
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().write(context, at, data)
    }

    fn flush(&mut self, context: &Context) -> nandkit_block::Result<nandkit_units::Done> {
        self.0.lock().unwrap().flush(context)
    }
}
