//! Volumes on a card, full of holes and then filled, with each mode of treating segments before
//! their gaps are filled: fsck.f2fs and the check have no complaints, and every page is there.

use nandkit_block::BlockDevice;
use nandkit_block::card::{Card, CardSpec, presets};
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::segments::Way;
use nandkit_f2fs::{F2fs, Log, MountOptions, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};

use crate::made::{clock, complaints};
use crate::reusing::{MODES, Mode, slow_requests};
use crate::writing::oracle::{BLOCK, Image, image_of, page, write_image_of};
use crate::writing::{findings, unmount};

/// Warm and cold data with holes, and the file written into them.
const FILES: [&[u8]; 3] = [b"warm.dat", b"cold.avi", b"new.dat"];

/// Blocks of the volumes: 160 MiB.
const SECTORS: u64 = 40_960;

/// A card of the volumes' size.
fn card() -> CardSpec {
    let mut spec = presets::load("card-c").unwrap();
    (spec.geometry.capacity, spec.geometry.sector_size) = (SECTORS * BLOCK as u64, BLOCK as u32);
    spec
}

/// The versions of the files' pages.
struct Work {
    random: Random,
    versions: [Vec<u64>; 3],
}

impl Work {
    fn write<D: BlockDevice>(
        &mut self,
        volume: &mut WritableVolume<D>,
        file: usize,
        inode: InodeNumber,
        number: usize,
    ) {
        let version = &mut self.versions[file][number];
        *version += 1;
        let bytes = page(file as u64, number as u64, *version);
        let at = (number * BLOCK) as u64;
        assert_eq!(Changes::write(volume, inode, at, Payload::Bytes(&bytes)).unwrap(), BLOCK);
    }

    /// Writes two files, rewrites pages here and there, then writes a third file in order.
    /// Occasionally makes one durable and collects in idle time.
    fn fill<D: BlockDevice>(&mut self, volume: &mut WritableVolume<D>) {
        let free = volume.segments().space.free_blocks() as usize;
        let root = volume.root();
        let files = FILES.map(|name| volume.create(root, name, &NewNode::FILE).unwrap());
        for (file, share) in [(0, 0.5), (1, 0.2), (2, 0.15)] {
            self.versions[file] = vec![0; (free as f64 * share) as usize];
        }
        let filled = (0..2).flat_map(|file| (0..self.versions[file].len()).map(move |number| (file, number)));
        let mut order: Vec<(usize, usize)> = filled.collect();
        for round in 0..free {
            let file = usize::from(round % 3 == 0);
            order.push((file, self.random.below(self.versions[file].len() as u64) as usize));
        }
        order.extend((0..self.versions[2].len()).map(|number| (2, number)));
        for (count, (file, number)) in order.into_iter().enumerate() {
            self.write(volume, file, files[file], number);
            if count % 700 == 699 {
                Changes::sync(volume, Some(files[file])).unwrap();
            }
            if count % 2500 == 2499 {
                volume.collect_one(Collection::Background).unwrap();
            }
        }
        Changes::sync(volume, None).unwrap();
    }

    /// Checks that every page has its last written version.
    fn judge<V: FileSystem>(&self, volume: &V, context: &str) {
        let mut bytes = vec![0; BLOCK];
        for (file, (name, versions)) in FILES.iter().zip(&self.versions).enumerate() {
            let inode = volume.lookup(volume.root(), name).unwrap();
            assert_eq!(volume.stat(inode).unwrap().size, (versions.len() * BLOCK) as u64, "{context}");
            for (number, version) in versions.iter().enumerate() {
                volume.read(inode, (number * BLOCK) as u64, ReadInto::Bytes(&mut bytes)).unwrap();
                assert!(bytes == page(file as u64, number as u64, *version), "{context}: file {file}, page {number}");
            }
        }
    }
}

fn assert_sound(image: &Image, context: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    write_image_of(&path, image, SECTORS);
    assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
}

fn filled_by(mode: &Mode) {
    let spec = card();
    let mut device = Card::in_memory(&spec).unwrap();
    let options = MkfsOptions::default();
    let tree = EmptyTree::new(&options);
    Mkfs::new(&tree, options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    // Out of place, so that overwriting leaves holes.
    let options = mode.options(WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() });
    let mut volume = WritableVolume::mount(vec![device], clock(), options).unwrap();
    let counters = mode.begin(&mut volume, slow_requests());
    let mut work = Work { random: Random::new(1, "holes"), versions: Default::default() };
    work.fill(&mut volume);
    work.judge(&volume, mode.name);
    let [gaps, claimed] = [Way::Gaps, Way::Claim].map(|way| {
        let usage = volume.segments().usage();
        [Log::WarmData, Log::ColdData].map(|log| usage.blocks(log, way)).iter().sum::<u64>()
    });
    let device = unmount(volume);
    assert_eq!(findings(device.clone()), Vec::<String>::new(), "{}: check", mode.name);
    assert_sound(&image_of(&device), mode.name);
    work.judge(&F2fs::mount(device, clock(), MountOptions::default()).unwrap(), mode.name);
    let treated = counters.map(|counters| counters.now()).unwrap_or_default();
    println!("{}: {} segments treated, {gaps} blocks in gaps, {claimed} by address", mode.name, treated.treated);
    assert_eq!(treated.treated > 0, mode.treats(), "{}: {treated:?}", mode.name);
    assert!(if mode.treats() { true } else { (gaps > 0) == mode.fills() }, "{}: {gaps} blocks in gaps", mode.name);
    assert!(claimed > 0 || !mode.goes_by_age(), "{}: the collector filled no gap", mode.name);
}

#[test]
fn volumes_that_each_way_of_reuse_leaves_are_whole() {
    MODES.iter().for_each(filled_by);
}
