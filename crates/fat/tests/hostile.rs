//! Damaged images lead to errors or repairs, never to a panic or an endless loop, and a repaired
//! volume is clean.

use std::ops::ControlFlow;

use crate::common::*;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{Fat, FatKind, FindingKind, FormatOptions, MountOptions, check, format};
use nandkit_testkit::hostile;
use nandkit_testkit::rounds::Rounds;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::check::Kind;
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, NewNode};

fn read_sector(device: &RamDevice, lba: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    device.read(&Context::default(), Lba(lba), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

fn edit(device: &mut RamDevice, at: u64, bytes: &[u8]) {
    let mut sector = read_sector(device, at / 512);
    let offset = (at % 512) as usize;
    sector[offset..offset + bytes.len()].copy_from_slice(bytes);
    device.write(&Context::default(), Lba(at / 512), Payload::Bytes(&sector)).unwrap();
}

/// A volume with a small tree.
fn filled(kind: FatKind) -> RamDevice {
    let bytes = if kind == FatKind::Fat32 { 36 << 20 } else { 4 << 20 };
    let cluster = if kind == FatKind::Fat12 { 1024 } else { 512 };
    let mut fat = mount(volume(kind, 512, Some(cluster), bytes), WRITE_BACK);
    let mut at = fat.root();
    for depth in 0..4u64 {
        for number in 0..12u64 {
            let name = format!("file number {number} at depth {depth}");
            let file = fat.changes().unwrap().create(at, name.as_bytes(), &NewNode::FILE).unwrap();
            write_all(&mut fat, file, 0, &bytes_of((number * 400) as usize, depth));
        }
        at = fat.changes().unwrap().create(at, b"below", &NewNode::DIRECTORY).unwrap();
    }
    fat.unmount().unwrap();
    fat.into_device()
}

#[test]
fn findings_and_what_they_list_are_bounded() {
    let mut device = ram(512, 16 << 20);
    let options = FormatOptions { kind: Some(FatKind::Fat16), root_entries: 12_000, ..FormatOptions::default() };
    format(&mut device, &clock(), &options).unwrap();
    let root = mount(&mut device, WRITE_BACK).geometry().root_start();
    let mut slots = Vec::new();
    for number in 0..11_100 {
        let mut slot = [0; 32];
        if number < 100 {
            // The only slot of a long name, without an entry after it.
            (slot[0], slot[11]) = (0x41, 0x0F);
        } else {
            // A file of one byte without a cluster.
            slot[..11].copy_from_slice(format!("{number:<11}").as_bytes());
            (slot[11], slot[28]) = (0x20, 1);
        }
        slots.extend(slot);
    }
    slots.resize(slots.len().next_multiple_of(512), 0);
    device.write(&Context::default(), Lba(root / 512), Payload::Bytes(&slots)).unwrap();
    let report = check(&mut device, &clock(), CodePage::default()).unwrap();
    assert_eq!((report.count("files"), report.findings.len()), (11_000, 1002));
    let orphans = &report.findings[0];
    assert_eq!(orphans.kind, FindingKind::OrphanSlots.name());
    assert!(orphans.detail.ends_with("6, 7] and 92 more"), "{orphans}");
    let last = report.findings.last().unwrap();
    assert!(last.kind == FindingKind::SizeMismatch.name() && last.detail.starts_with("10000 more"), "{last}");
}

/// Damages an image: bytes in the FAT, the directories and (rarely) the boot sector.
fn damage(device: &mut RamDevice, geometry: &nandkit_fat::Geometry, random: &mut Random) {
    for _ in 0..1 + random.below(12) {
        let value = [random.next_u64() as u8];
        let entry = (2 + random.below(200) as u32, random.below(220) as u32);
        match random.below(8) {
            0 => edit(device, random.below(96), &value),
            1 | 2 => edit(device, geometry.fat_start(0) + random.below(600), &value),
            // A link from one chain into another, or back.
            3 | 4 => {
                let at = geometry.fat_start(0);
                match geometry.kind {
                    FatKind::Fat12 => {
                        edit(device, at + u64::from(entry.0) * 3 / 2 % 500, &(entry.1 as u16).to_le_bytes()[..1])
                    }
                    FatKind::Fat16 => edit(device, at + u64::from(entry.0) * 2, &(entry.1 as u16).to_le_bytes()),
                    FatKind::Fat32 => edit(device, at + u64::from(entry.0) * 4, &entry.1.to_le_bytes()),
                }
            }
            5 => {
                let root = geometry.first_root_sector() * 512;
                edit(device, root + random.below(2048), &value);
            }
            _ => {
                let at = geometry.cluster_start(2 + random.below(300) as u32);
                edit(device, at + random.below(512), &value);
            }
        }
    }
}

fn survive(kind: FatKind) {
    // More by `NANDKIT_ROUNDS=100000 cargo test --release -p nandkit-fat --test all hostile::`.
    let mut rounds = Rounds::of(400);
    let base = filled(kind);
    let geometry = mount(base.clone(), WRITE_THROUGH).geometry();
    let mut repaired = 0;
    for round in &mut rounds {
        let mut random = Random::new(round, "hostile");
        let mut device = base.clone();
        damage(&mut device, &geometry, &mut random);
        let _ = check(&mut device, &clock(), CodePage::default());
        // Half of the images are marked as not unmounted, and are repaired.
        let dirty = round % 2 == 0;
        if dirty {
            edit(&mut device, if kind == FatKind::Fat32 { 65 } else { 37 }, &[1]);
        }
        let Ok(mut fat) = Fat::mount(device, clock(), WRITE_BACK) else { continue };
        if dirty && fat.recovery().is_some() {
            fat.unmount().unwrap();
            let mut device = fat.into_device();
            let report = check(&mut device, &clock(), CodePage::default()).unwrap();
            // A lost ".." is not restored: its slot may hold data that are still wanted.
            let findings: Vec<_> =
                report.findings.iter().filter(|found| found.kind != FindingKind::WrongDots.name()).collect();
            assert!(findings.is_empty(), "{kind:?} round {round}: {findings:?}");
            repaired += 1;
            fat = mount(device, WRITE_BACK);
        }
        let met = hostile::roam(&fat, 2000);
        hostile::change(&mut fat, &met, 20, &mut random);
    }
    assert!(rounds.is_replay() || repaired > rounds.count() / 6, "{repaired} of {}", rounds.count());
}

#[test]
fn damaged_fat12_images() {
    survive(FatKind::Fat12);
}

#[test]
fn damaged_fat16_images() {
    survive(FatKind::Fat16);
}

#[test]
fn damaged_fat32_images() {
    survive(FatKind::Fat32);
}

#[test]
fn absurd_boot_sectors_are_refused_with_the_field() {
    let base = filled(FatKind::Fat16);
    for (at, bytes, says) in [
        (11, &[0u8, 0][..], "bytes per sector"),
        (11, &[0x00, 0x03], "bytes per sector"),
        (13, &[0], "sectors per cluster"),
        (13, &[3], "sectors per cluster"),
        (14, &[0, 0], "reserved sectors"),
        (16, &[0], "FATs"),
        (16, &[200], "FATs"),
        (17, &[0, 0], "root directory"),
        (19, &[0xFF, 0xFF], "sectors needed"),
        (22, &[1, 0], "sectors needed"),
        (22, &[0xFF, 0xFF], "clusters"),
        (510, &[0, 0], "no signature"),
    ] {
        let mut device = base.clone();
        edit(&mut device, at, bytes);
        let error = Fat::mount(device, clock(), WRITE_THROUGH).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "byte {at}: {error}");
        assert!(error.detail.contains(says), "byte {at}: {error}");
    }
}

#[test]
fn a_circle_is_named() {
    let mut device = filled(FatKind::Fat16);
    let fat = mount(device.clone(), WRITE_THROUGH);
    let file = fat.lookup(fat.root(), b"file number 11 at depth 0").unwrap();
    let geometry = fat.geometry();
    // The chain's clusters are consecutive: let the last but one link to the first.
    let mut fat_sectors = vec![0; 512];
    device.read(&Context::default(), Lba(geometry.fat_start(0) / 512), ReadInto::Bytes(&mut fat_sectors)).unwrap();
    let entries: Vec<u16> = fat_sectors.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let size = fat.stat(file).unwrap().size.div_ceil(512) as usize;
    let first = (2..entries.len())
        .find(|&start| {
            (0..size - 1).all(|n| entries[start + n] as usize == start + n + 1) && entries[start + size - 1] == 0xFFFF
        })
        .unwrap();
    edit(&mut device, geometry.fat_start(0) + (first + size - 2) as u64 * 2, &(first as u16).to_le_bytes());
    let fat = mount(device.clone(), WRITE_THROUGH);
    let error = fat.read(file, 0, ReadInto::Bytes(&mut [0; 5000]));
    let file = fat.lookup(fat.root(), b"file number 11 at depth 0").unwrap();
    let error = error.and(fat.read(file, 0, ReadInto::Bytes(&mut [0; 5000]))).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt || error.kind == ErrorKind::NotFound, "{error}");
    assert!(!check(&mut device, &clock(), CodePage::default()).unwrap().is_clean());
}

#[test]
fn a_size_beyond_the_chain_ends_the_content_with_the_chain() {
    let mut fat = mount(volume(FatKind::Fat16, 512, Some(2048), 16 << 20), WRITE_BACK);
    let root = fat.root();
    let file = fat.changes().unwrap().create(root, b"file", &NewNode::FILE).unwrap();
    write_all(&mut fat, file, 0, &[1; 6 * 2048]);
    fat.unmount().unwrap();
    let at = fat.geometry().first_root_sector() * 512;
    let mut device = fat.into_device();
    let root = read_sector(&device, at / 512);
    let slot = root.chunks(32).position(|slot| slot.starts_with(b"FILE")).unwrap() as u64;
    edit(&mut device, at + slot * 32 + 28, &0xFFFF_FFF0_u32.to_le_bytes());
    let report = check(&mut device, &clock(), CodePage::default()).unwrap();
    assert!(
        report.findings.iter().any(|found| found.kind == FindingKind::SizeMismatch.name()),
        "{:?}",
        report.findings
    );
    let fat = mount(device, WRITE_THROUGH);
    let file = fat.lookup(fat.root(), b"file").unwrap();
    let read = |offset: u64| fat.read(file, offset, ReadInto::Bytes(&mut [0; 5000]));
    assert_eq!((read(0).unwrap(), read(10_000).unwrap(), read(6 * 2048).unwrap()), (5000, 2288, 0));
    let error = read(6 * 2048 + 1).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.detail.contains("ends after 6 clusters"), "{error}");
}

#[test]
fn a_change_that_fails_before_it_changed_anything_leaves_the_volume_writable() {
    let mut fat = mount(filled(FatKind::Fat16), WRITE_BACK);
    let root = fat.root();
    let victim = fat.lookup(root, b"file number 11 at depth 0").unwrap();
    let bytes = fat.stat(victim).unwrap().size;
    assert!(bytes > 4096, "the file has a chain");
    let geometry = fat.geometry().clone();
    let mut device = {
        fat.unmount().unwrap();
        fat.into_device()
    };
    // Every link of every chain points to itself, so that the files are endless.
    let mut entries = Vec::new();
    for cluster in 2..u64::from(geometry.clusters) + 2 {
        let at = geometry.fat_start(0) + 2 * cluster;
        let found = u16::from_le_bytes(read_sector(&device, at / 512)[(at % 512) as usize..][..2].try_into().unwrap());
        if found != 0 && found < 0xFFF0 {
            entries.push((at, cluster as u16));
        }
    }
    for (at, cluster) in entries {
        edit(&mut device, at, &cluster.to_le_bytes());
    }
    let mut fat = mount(device, WRITE_BACK);
    // Changes that were waiting before do not belong to the failing operation.
    fat.changes().unwrap().create(root, b"before it", &NewNode::FILE).unwrap();
    let error = fat.changes().unwrap().remove(root, b"file number 11 at depth 0").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    let file = fat.changes().unwrap().create(root, b"after it", &NewNode::FILE).unwrap();
    write_all(&mut fat, file, 0, b"written");
    fat.changes().unwrap().sync(None).unwrap();
    fat.unmount().unwrap();
}

#[test]
fn after_a_failed_commit_nothing_is_written_and_the_volume_stays_marked_as_in_use() {
    use nandkit_block::Operation;
    use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
    let mut failures = 0;
    for nth in 1..40 {
        let fault =
            DeviceFault::new(Operation::Write, DeviceFaultWhen::Nth(nth), nandkit_block::ErrorKind::Io).times(1);
        let device = FaultDevice::new(filled(FatKind::Fat16), vec![fault]);
        let mut fat = mount(device, WRITE_BACK);
        let root = fat.root();
        let file = fat.changes().unwrap().create(root, b"a new file", &NewNode::FILE);
        let Ok(file) = file else { continue };
        write_all(&mut fat, file, 0, &[7; 3000]);
        fat.changes().unwrap().rename((root, b"a new file"), (root, b"its other name"), Default::default()).ok();
        if fat.changes().unwrap().sync(None).is_ok() {
            continue;
        }
        let again = fat.changes().unwrap().sync(None);
        if again.is_ok() {
            // The failure came before anything of the batch was written, and the whole batch is
            // written now.
            continue;
        }
        failures += 1;
        assert_eq!(again.unwrap_err().kind, ErrorKind::Device);
        assert_eq!(
            fat.changes().unwrap().create(root, b"another", &NewNode::FILE).unwrap_err().kind,
            ErrorKind::ReadOnly
        );
        let before = fat.with_device(read_all);
        assert_eq!(fat.unmount().unwrap_err().kind, ErrorKind::Device);
        assert!(fat.with_device(read_all) == before, "the end wrote something");
        let mut torn = fat.into_device().into_inner();
        assert!(mount(&mut torn, WRITE_BACK).recovery().is_some(), "fault {nth}: the volume says that it is whole");
    }
    assert!(failures > 3, "{failures}");
}

fn read_all<D: BlockDevice>(device: &D) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity() as usize];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

#[test]
fn chains_that_many_entries_share_are_followed_a_few_times_only() {
    let mut fat = mount(volume(FatKind::Fat16, 512, Some(2048), 16 << 20), WRITE_BACK);
    let root = fat.root();
    let file = fat.changes().unwrap().create(root, b"FILE", &NewNode::FILE).unwrap();
    write_all(&mut fat, file, 0, &vec![1; 8 << 20]);
    fat.unmount().unwrap();
    let at = fat.geometry().first_root_sector() * 512;
    let mut device = fat.into_device();
    let entry = read_sector(&device, at / 512).chunks(32).find(|slot| slot.starts_with(b"FILE")).unwrap().to_vec();
    for number in 1..400_u64 {
        let mut other = entry.clone();
        other[..8].copy_from_slice(format!("F{number:<7}").as_bytes());
        edit(&mut device, at + number * 32, &other);
    }
    let options = MountOptions { read_only: true, ..WRITE_THROUGH };
    let fat = mount(device, options);
    let mut files = Vec::new();
    fat.read_dir(fat.root(), 0, &mut |entry| {
        files.push(entry.inode);
        ControlFlow::Continue(())
    })
    .unwrap();
    let read: Vec<_> = files.iter().map(|&file| fat.read(file, 0, ReadInto::Bytes(&mut [0; 512]))).collect();
    let whole = read.iter().filter(|read| read.is_ok()).count();
    assert!(files.len() >= 399 && (4..=6).contains(&whole), "{whole} of {}", files.len());
    let error = read.last().unwrap().as_ref().unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.detail.contains("share so many clusters"), "{error}");
    // The part of the chain that was followed stays readable.
    assert!(fat.read(files[0], 4096, ReadInto::Bytes(&mut [0; 512])).is_ok());
}

#[test]
fn deleted_entries_of_damaged_volumes_are_bounded_by_the_volume() {
    let mut found = 0;
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let base = filled(kind);
        let geometry = mount(base.clone(), WRITE_THROUGH).geometry();
        let mut rounds = Rounds::of(60);
        for round in &mut rounds {
            let mut random = Random::new(round, "deleted");
            let mut device = base.clone();
            let starts = [geometry.first_root_sector() * 512, geometry.cluster_start(2 + random.below(60) as u32)];
            for _ in 0..12 {
                let start = starts[random.below(2) as usize];
                edit(&mut device, start + random.below(16) * 32, &[0xE5]);
            }
            damage(&mut device, &geometry, &mut random);
            let options = MountOptions { read_only: true, ..WRITE_THROUGH };
            let Ok(fat) = Fat::mount(device, clock(), options) else { continue };
            let Ok(deleted) = fat.deleted() else { continue };
            for entry in deleted.iter().filter(|entry| entry.kind == FileKind::Regular) {
                assert!(entry.readable <= entry.size && entry.readable <= geometry.bytes(), "{entry:?}");
                let content = fat.deleted_content(entry).unwrap();
                assert_eq!(content.len() as u64, entry.readable, "{entry:?}");
                found += 1;
            }
        }
    }
    assert!(found > 200, "{found}");
}
