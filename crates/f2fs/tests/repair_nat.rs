//! Parts of the NAT are lost: nodes are found by their own blocks, and the volume is as it was.

use crate::made::{clock, complaints, everything, new_image};
use crate::writing::oracle::{device_of, empty_image, image_of, write_image};
use crate::writing::trees::tree;
use crate::writing::unmount;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::blocks::Blocks;
use nandkit_f2fs::check::{Repair, Waiting};
use nandkit_f2fs::layout::Geometry;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions};
use nandkit_f2fs::{Volume, WriteOptions, check, repair};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const BLOCK: usize = 4096;

type Change<'a> = &'a dyn Fn(&mut [u8]);

/// Directories and files of three blocks of the NAT, some of several nodes; others were deleted, and their nodes stand in the main area still.
fn volume() -> RamDevice {
    let mut volume = Volume::mount(vec![device_of(&empty_image(""))], clock(), WriteOptions::default()).unwrap();
    for round in 0..2 {
        let top = volume.create(volume.root(), format!("top {round}").as_bytes(), &NewNode::DIRECTORY).unwrap();
        for number in 0..600 {
            let name = format!("{number} {}", "n".repeat(number % 80));
            let file = volume.create(top, name.as_bytes(), &NewNode::FILE).unwrap();
            let length = if number == 7 { 4_500_000 } else { number * 3 };
            Changes::write(&mut volume, file, 0, Payload::Bytes(&vec![number as u8; length])).unwrap();
        }
        volume.sync().unwrap();
        for number in (0..600).step_by(5) {
            volume.remove(top, format!("{number} {}", "n".repeat(number % 80)).as_bytes()).unwrap();
        }
        volume.sync().unwrap();
    }
    unmount(volume)
}

/// Changes bytes of both copies of a NAT block.
fn damage(device: &mut RamDevice, geometry: &Geometry, block: u32, change: impl Fn(&mut [u8])) {
    for second in [false, true] {
        let at = Lba(geometry.nat_place(block, second).0.into());
        let mut bytes = [0; BLOCK];
        device.read(&Context::default(), at, ReadInto::Bytes(&mut bytes)).unwrap();
        change(&mut bytes);
        device.write(&Context::default(), at, Payload::Bytes(&bytes)).unwrap();
    }
}

fn repaired(device: &mut RamDevice) -> Repair {
    assert!(!check(vec![&mut *device], clock()).unwrap().is_sound());
    let repair = repair(vec![&mut *device], clock(), Waiting::Dropped).unwrap();
    for (at, bytes) in &repair.blocks {
        device.write(&Context::default(), Lba(at.0.into()), Payload::Bytes(bytes)).unwrap();
    }
    assert_eq!(check(vec![&mut *device], clock()).unwrap().findings, Vec::new());
    let scratch = tempfile::tempdir().unwrap();
    write_image(&scratch.path().join("image"), &image_of(&*device));
    assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new());
    repair
}

#[test]
fn a_lost_block_of_the_nat_loses_nothing() {
    let sound = image_of(&volume());
    let volume = Volume::mount(vec![device_of(&sound)], clock(), WriteOptions::default()).unwrap();
    let (whole, geometry) = (tree(&volume), Blocks::geometry(&volume));
    let noise = |bytes: &mut [u8]| {
        let mut random = Random::new(7, "noise");
        bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
    };
    let kinds: [(&str, Change<'_>); 4] = [
        ("zeroes", &|bytes| bytes.fill(0)),
        ("noise", &noise),
        ("a sector of zeroes", &|bytes| bytes[1024..1536].fill(0)),
        ("one entry", &|bytes| bytes[9 * 30 + 5..9 * 31].copy_from_slice(&[0x12, 0x20, 0, 0])),
    ];
    for block in 0..3 {
        for (kind, change) in kinds {
            let mut device = device_of(&sound);
            damage(&mut device, geometry, block, change);
            let repair = repaired(&mut device);
            assert!(!repair.found.is_empty(), "{kind} in block {block}");
            assert_eq!(repair.attached, [], "{kind} in block {block}");
            let mended = Volume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
            assert!(tree(&mended) == whole, "{kind} in block {block}");
        }
    }
}

/// mkfs leaves the newest entries in the journal: that these are right says nothing of the block in which the others were.
#[test]
fn entries_of_the_journal_do_not_vouch_for_the_table() {
    let tree_of = |device| tree(&Volume::mount(vec![device], clock(), WriteOptions::default()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let options = MkfsOptions::default();
    let source = everything();
    Mkfs::new(&source, options).unwrap().write(&mut new_image(&path, 160 << 20), &clock(), &|_| {}).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let sound = || {
        let mut device = RamDevice::with_sectors(4096, bytes.len() as u64 / 4096).unwrap();
        device.write(&Context::default(), Lba(0), Payload::Bytes(&bytes)).unwrap();
        device
    };
    let whole = tree_of(sound());
    let volume = Volume::mount(vec![sound()], clock(), WriteOptions::default()).unwrap();
    let geometry = Blocks::geometry(&volume);
    for block in 0..geometry.nat_blocks().min(14) {
        let mut device = sound();
        damage(&mut device, geometry, block, |bytes| bytes.fill(0));
        let repair = repair(vec![&mut device], clock(), Waiting::Dropped).unwrap();
        for (at, bytes) in &repair.blocks {
            device.write(&Context::default(), Lba(at.0.into()), Payload::Bytes(bytes)).unwrap();
        }
        assert!(tree_of(device) == whole, "block {block}");
    }
}

/// Nothing of the NAT is left.
#[test]
fn a_volume_without_its_nat_is_whole_again() {
    let sound = image_of(&volume());
    let volume = Volume::mount(vec![device_of(&sound)], clock(), WriteOptions::default()).unwrap();
    let (whole, geometry) = (tree(&volume), Blocks::geometry(&volume));
    let mut device = device_of(&sound);
    for block in 0..geometry.nat_blocks() {
        damage(&mut device, geometry, block, |bytes| bytes.fill(0xA5));
    }
    repaired(&mut device);
    assert!(tree(&Volume::mount(vec![device], clock(), WriteOptions::default()).unwrap()) == whole);
}
