//! Parts of the NAT are lost: nodes are found by their own blocks, and the volume is as before.

use crate::made::{clock, complaints, everything, new_image};
use crate::writing::oracle::{Image, device_of_size, empty_image_of, image_of, write_image_of};
use crate::writing::trees::tree;
use crate::writing::unmount;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::check::{Repair, Waiting};
use nandkit_f2fs::layout::{Geometry, NatEntry, SitEntry};
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions};
use nandkit_f2fs::testing::bits::msb_first;
use nandkit_f2fs::{BlockAddress, NodeId, WritableVolume, WriteOptions, check, repair};
use nandkit_f2fs::{Blocks, Nodes};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};
use zerocopy::IntoBytes;

const BLOCK: usize = 4096;
/// The size of the volume, large enough that deleted blocks are not reused.
const SECTORS: u64 = 192 << 8;

fn device_of(image: &Image) -> RamDevice {
    device_of_size(image, SECTORS)
}

type Change<'a> = &'a dyn Fn(&mut [u8]);

/// Directories and files in three NAT blocks, some with several nodes; others were deleted, but
/// their nodes are still in the main area.
fn volume() -> RamDevice {
    let mut volume =
        WritableVolume::mount(vec![device_of(&empty_image_of("", SECTORS))], clock(), WriteOptions::default()).unwrap();
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
    assert!(!check(vec![&mut *device], clock()).unwrap().is_clean());
    let repair = repair(vec![&mut *device], clock(), Waiting::Dropped).unwrap();
    for (at, bytes) in &repair.blocks {
        device.write(&Context::default(), Lba(at.0.into()), Payload::Bytes(bytes)).unwrap();
    }
    assert_eq!(check(vec![&mut *device], clock()).unwrap().findings, Vec::new());
    let scratch = tempfile::tempdir().unwrap();
    write_image_of(&scratch.path().join("image"), &image_of(&*device), SECTORS);
    assert_eq!(complaints(&scratch.path().join("image")), Vec::<String>::new());
    repair
}

#[test]
fn a_lost_block_of_the_nat_loses_nothing() {
    let sound = image_of(&volume());
    let volume = WritableVolume::mount(vec![device_of(&sound)], clock(), WriteOptions::default()).unwrap();
    let (whole, geometry) = (tree(&volume), Blocks::geometry(&volume));
    let noise = |bytes: &mut [u8]| {
        let mut random = Random::new(7, "noise");
        bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
    };
    let kinds: [(&str, Change<'_>); 5] = [
        ("a free entry", &|bytes| bytes[9 * 30..9 * 31].fill(0)),
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
            let mended = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
            assert!(tree(&mended) == whole, "{kind} in block {block}");
        }
    }
}

/// mkfs leaves the newest entries in the journal; that these are right says nothing about the block
/// that had the others.
#[test]
fn entries_of_the_journal_do_not_vouch_for_the_table() {
    let tree_of = |device| tree(&WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap());
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
    let volume = WritableVolume::mount(vec![sound()], clock(), WriteOptions::default()).unwrap();
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

/// One of the two tables with two copies per block.
#[derive(Clone, Copy)]
enum Table {
    Nat,
    Sit,
}

impl Table {
    fn place(self, geometry: &Geometry, block: u32, second: bool) -> Lba {
        let place = match self {
            Self::Nat => geometry.nat_place(block, second),
            Self::Sit => geometry.sit_place(block, second),
        };
        Lba(place.0.into())
    }

    /// The current copies, with the journal applied.
    fn blocks(self, image: &Image) -> Vec<Vec<u8>> {
        let volume = WritableVolume::mount(vec![device_of(image)], clock(), WriteOptions::default()).unwrap();
        let (geometry, (state, _)) = (Blocks::geometry(&volume), volume.checkpoint_state());
        let (blocks, map) = match self {
            Self::Nat => (geometry.nat_blocks(), &state.nat_map),
            Self::Sit => (geometry.main_segments.div_ceil(geometry.sit_entries() as u32), &state.sit_map),
        };
        let device = device_of(image);
        let block = |block| {
            let mut bytes = vec![0; BLOCK];
            let second = msb_first::get(map, block as usize);
            device.read(&Context::default(), self.place(geometry, block, second), ReadInto::Bytes(&mut bytes)).unwrap();
            bytes
        };
        let mut table: Vec<Vec<u8>> = (0..blocks).map(block).collect();
        let mut put = |block: u32, byte: usize, entry: &[u8]| {
            table[block as usize][byte..byte + entry.len()].copy_from_slice(entry)
        };
        match self {
            Self::Nat => state.nat_journal.iter().for_each(|(nid, entry)| {
                let (block, index) = geometry.nat_block(*nid).unwrap();
                put(block, index * size_of::<NatEntry>(), entry.as_bytes());
            }),
            Self::Sit => state.sit_journal.iter().for_each(|(segment, entry)| {
                let (block, index) = geometry.sit_block(*segment);
                put(block, index * size_of::<SitEntry>(), entry.as_bytes());
            }),
        }
        table
    }

    /// Replaces the content of a block in both copies.
    fn put(self, device: &mut RamDevice, geometry: &Geometry, block: u32, bytes: &[u8]) {
        for second in [false, true] {
            device.write(&Context::default(), self.place(geometry, block, second), Payload::Bytes(bytes)).unwrap();
        }
    }
}

fn geometry_of(image: &Image) -> Geometry {
    Blocks::geometry(&WritableVolume::mount(vec![device_of(image)], clock(), WriteOptions::default()).unwrap()).clone()
}

/// Changes, makes and deletes more files than the journals have room for.
fn go_on(device: RamDevice) -> RamDevice {
    let mut volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    let top = volume.lookup(volume.root(), b"top 1").unwrap();
    for number in 0..600 {
        let name = format!("{number} {}", "n".repeat(number % 80));
        match number % 5 {
            0 => _ = volume.create(top, format!("new {number}").as_bytes(), &NewNode::FILE).unwrap(),
            1 => volume.remove(top, name.as_bytes()).unwrap(),
            2 => {
                let file = volume.lookup(top, name.as_bytes()).unwrap();
                Changes::write(&mut volume, file, 5000, Payload::Bytes(b"later")).unwrap();
            }
            _ => {}
        }
    }
    volume.sync().unwrap();
    unmount(volume)
}

/// A NAT write was lost: its block leads to old addresses and lacks all newer nodes.
#[test]
fn an_old_block_of_the_nat_is_no_harm() {
    let device = volume();
    let old = Table::Nat.blocks(&image_of(&device));
    let sound = image_of(&go_on(device));
    let (geometry, new) = (geometry_of(&sound), Table::Nat.blocks(&sound));
    let whole = tree(&WritableVolume::mount(vec![device_of(&sound)], clock(), WriteOptions::default()).unwrap());
    let stale: Vec<u32> =
        (0..).zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new).map(|(block, _)| block).collect();
    assert!(stale.len() >= 2, "{stale:?}");
    for block in stale {
        let mut device = device_of(&sound);
        Table::Nat.put(&mut device, &geometry, block, &old[block as usize]);
        let repair = repaired(&mut device);
        assert!(!repair.found.is_empty(), "block {block}");
        assert_eq!(repair.attached, [], "block {block}");
        assert!(
            tree(&WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()) == whole,
            "block {block}"
        );
    }
}

/// A SIT write was lost: according to it, deleted nodes are still valid.
#[test]
fn an_old_block_of_the_sit_brings_nothing_back() {
    let device = volume();
    let old = Table::Sit.blocks(&image_of(&device));
    let mut volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    for top in [&b"top 0"[..], b"top 1"] {
        let top = volume.lookup(volume.root(), top).unwrap();
        for number in (0..600).filter(|number| number % 5 != 0 && (100..500).contains(number)) {
            volume.remove(top, format!("{number} {}", "n".repeat(number % 80)).as_bytes()).unwrap();
        }
    }
    // More segments than the journal has room for.
    let large = volume.create(volume.root(), b"large", &NewNode::FILE).unwrap();
    Changes::write(&mut volume, large, 0, Payload::Bytes(&vec![9; 9 << 20])).unwrap();
    volume.sync().unwrap();
    let whole = tree(&volume);
    assert_eq!(volume.checkpoint_state().0.sit_journal, []);
    let mut device = unmount(volume);
    let geometry = geometry_of(&image_of(&device));
    for (block, bytes) in (0..).zip(&old) {
        Table::Sit.put(&mut device, &geometry, block, bytes);
    }
    let repair = repaired(&mut device);
    assert_eq!((&repair.found[..], &repair.attached[..]), (&[][..], &[][..]));
    assert!(tree(&WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()) == whole);
}

/// A page of a file looks like a newer block of a node with a lost entry, and the SIT says that the
/// file's segment holds nodes.
#[test]
fn a_page_that_looks_like_a_node_is_none() {
    let first = image_of(&volume());
    let mut volume = WritableVolume::mount(vec![device_of(&first)], clock(), WriteOptions::default()).unwrap();
    let (entry, checkpoint) = (volume.entry(NodeId(50)).unwrap(), volume.checkpoint_state().0.head.version.get());
    let mut forged = vec![0; BLOCK];
    let place = Lba(entry.address.get().into());
    device_of(&first).read(&Context::default(), place, ReadInto::Bytes(&mut forged)).unwrap();
    let file = InodeNumber(50);
    let size = volume.stat(file).unwrap().size;
    // The size, and the checkpoint in its footer.
    forged[16] ^= 1;
    let large = volume.create(volume.root(), b"large", &NewNode::FILE).unwrap();
    for (version, with_summary) in [(checkpoint, true), (0x7FFF_FFFF, false)] {
        forged[BLOCK - 12..BLOCK - 4].copy_from_slice(&version.to_le_bytes());
        Changes::write(&mut volume, large, 0, Payload::Bytes(&vec![9; 20 << 20])).unwrap();
        Changes::write(&mut volume, large, 3 << 20, Payload::Bytes(&forged)).unwrap();
        volume.sync().unwrap();
        let journal = volume.checkpoint_state().0.sit_journal.clone();
        let (whole, geometry) = (tree(&volume), Blocks::geometry(&volume).clone());
        let mut device = unmount(volume);
        let image = image_of(&device);
        let (at, _) = image.iter().find(|(_, bytes)| *bytes == forged).unwrap();
        let (segment, _) = geometry.main(BlockAddress(*at as u32)).unwrap();
        assert!(journal.iter().all(|(known, _)| *known != segment));
        let (block, index) = geometry.sit_block(segment);
        let mut sit = Table::Sit.blocks(&image).swap_remove(block as usize);
        // The upper bits of the count are the type: warm nodes.
        let high = &mut sit[index * size_of::<SitEntry>() + 1];
        *high = *high & 3 | 4 << 2;
        Table::Sit.put(&mut device, &geometry, block, &sit);
        damage(&mut device, &geometry, 0, |bytes| bytes[9 * 50 + 5..9 * 51].copy_from_slice(&[0x12, 0x20, 0, 0]));
        if !with_summary {
            let (own, _) = geometry.main(BlockAddress(entry.address.get())).unwrap();
            for segment in [segment, own] {
                let ssa = Lba(geometry.ssa(segment).0.into());
                device.write(&Context::default(), ssa, Payload::Bytes(&[0; BLOCK])).unwrap();
            }
        }
        let repair = repaired(&mut device);
        assert_eq!(repair.found, [NodeId(50)]);
        let mended = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
        assert!(tree(&mended) == whole);
        assert_eq!(mended.stat(file).unwrap().size, size);
        let mut page = vec![0; BLOCK];
        FileSystem::read(&mended, large, 3 << 20, ReadInto::Bytes(&mut page)).unwrap();
        assert!(page == forged);
        volume = WritableVolume::mount(vec![device_of(&image)], clock(), WriteOptions::default()).unwrap();
    }
}

/// Nothing of the NAT is left.
#[test]
fn a_volume_without_its_nat_is_whole_again() {
    let sound = image_of(&volume());
    let volume = WritableVolume::mount(vec![device_of(&sound)], clock(), WriteOptions::default()).unwrap();
    let (whole, geometry) = (tree(&volume), Blocks::geometry(&volume));
    let mut device = device_of(&sound);
    for block in 0..geometry.nat_blocks() {
        damage(&mut device, geometry, block, |bytes| bytes.fill(0xA5));
    }
    repaired(&mut device);
    assert!(tree(&WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()) == whole);
}
