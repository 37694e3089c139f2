//! Our volumes judged by mtools, fsck.vfat and the fatfs crate, and their volumes read by us.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::common::judges::judge_image;
use crate::common::*;
use nandkit_block::BlockDevice;
use nandkit_block::wrap::{RequestKind, StatsDevice};
use nandkit_fat::{Alignment, Cache, Fat, FatKind, FormatOptions, MountOptions, format};
use nandkit_testkit::listing::{Contents, contents_of_volume};
use nandkit_testkit::vfat::Judges;
use nandkit_units::{Cause, Context, Lba, Payload, ReadInto};
use nandkit_vfs::{FileSystem, InodeNumber, NewNode, RenameFlags};

type Files = BTreeMap<String, Vec<u8>>;

fn some_files() -> Files {
    let mut files = Files::new();
    for (at, (name, length)) in [
        ("README.TXT", 100),
        ("empty", 0),
        ("a long name with blanks.text", 5000),
        ("Ünïcödé — 日本語.bin", 12_345),
        ("dir/inner.dat", 40_000),
        ("dir/deeper/and deeper/last.x", 513),
        ("dir/UPPER.low", 512),
        ("x.y.z", 1),
    ]
    .into_iter()
    .enumerate()
    {
        files.insert(name.into(), bytes_of(length, at as u64));
    }
    for number in 0..60 {
        files.insert(format!("many/file number {number}.dat"), bytes_of(number * 37, number as u64));
    }
    files
}

fn directory_of<D: BlockDevice>(fat: &mut Fat<D>, path: &str) -> (InodeNumber, String) {
    let mut at = fat.root();
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop().unwrap().to_string();
    for part in parts {
        at = match fat.lookup(at, part.as_bytes()) {
            Ok(found) => found,
            Err(_) => fat.changes().unwrap().create(at, part.as_bytes(), &NewNode::DIRECTORY).unwrap(),
        };
    }
    (at, name)
}

fn put<D: BlockDevice>(fat: &mut Fat<D>, files: &Files) {
    for (path, content) in files {
        let (directory, name) = directory_of(fat, path);
        let file = fat.changes().unwrap().create(directory, name.as_bytes(), &NewNode::FILE).unwrap();
        if !content.is_empty() {
            write_all(fat, file, 0, content);
        }
    }
}

fn assert_holds<D: BlockDevice>(fat: &mut Fat<D>, files: &Files, what: &str) {
    for (path, content) in files {
        let (directory, name) = directory_of(fat, path);
        let file = fat.lookup(directory, name.as_bytes()).unwrap_or_else(|error| panic!("{what}: {path}: {error}"));
        assert!(read_all(fat, file) == *content, "{what}: {path} differs");
    }
}

/// Changes some files of a volume that has `some_files`; returns the new content.
fn change<D: BlockDevice>(fat: &mut Fat<D>, mut files: Files) -> Files {
    for path in ["many/file number 7.dat", "empty", "dir/deeper/and deeper/last.x"] {
        let (directory, name) = directory_of(fat, path);
        fat.changes().unwrap().remove(directory, name.as_bytes()).unwrap();
        files.remove(path);
    }
    let (directory, _) = directory_of(fat, "dir/deeper/x");
    fat.changes().unwrap().remove(directory, b"and deeper").unwrap();
    let from = directory_of(fat, "many/file number 9.dat");
    let to = directory_of(fat, "dir/inner.dat");
    let changes = fat.changes().unwrap();
    changes.rename((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()), RenameFlags::Replace).unwrap();
    let moved = files.remove("many/file number 9.dat").unwrap();
    files.insert("dir/inner.dat".into(), moved);
    let (directory, name) = directory_of(fat, "a long name with blanks.text");
    let file = fat.lookup(directory, name.as_bytes()).unwrap();
    let more = bytes_of(20_000, 77);
    write_all(fat, file, 4_990, &more);
    let content = files.get_mut("a long name with blanks.text").unwrap();
    content.truncate(4_990);
    content.extend_from_slice(&more);
    let new = Files::from([("new/made by us.dat".to_string(), bytes_of(7_000, 5))]);
    put(fat, &new);
    files.extend(new);
    files
}

/// Unmounts a volume that holds these files, and asserts that the judges read the same tree.
fn judge<D: BlockDevice>(mut fat: Fat<D>, files: &Files, judges: Judges, what: &str) -> D {
    let found = contents_of_volume(&fat);
    let ours: Files = found.iter().filter_map(|(path, node)| Some((path.clone(), node.clone()?))).collect();
    assert!(ours == *files, "{what}: our own reading");
    fat.unmount().unwrap();
    let mut device = fat.into_device();
    judge_image(&mut device, &found, judges, what);
    device
}

#[test]
fn our_volumes_of_every_shape_stand_before_all_judges() {
    let mib = 1 << 20;
    for (kind, sector, cluster, bytes, alignment) in [
        (FatKind::Fat12, 512, Some(512), 2 * mib, Alignment::None),
        (FatKind::Fat12, 512, None, 4 * mib, Alignment::Cluster),
        (FatKind::Fat12, 1024, Some(4096), 8 * mib, Alignment::Cluster),
        (FatKind::Fat12, 4096, Some(32_768), 60 * mib, Alignment::RecyclingUnit),
        (FatKind::Fat16, 512, None, 16 * mib, Alignment::Cluster),
        (FatKind::Fat16, 512, Some(32_768), 140 * mib, Alignment::RecyclingUnit),
        (FatKind::Fat16, 2048, Some(2048), 20 * mib, Alignment::None),
        (FatKind::Fat16, 4096, Some(8192), 40 * mib, Alignment::Cluster),
        (FatKind::Fat32, 512, Some(512), 40 * mib, Alignment::Cluster),
        (FatKind::Fat32, 2048, Some(2048), 140 * mib, Alignment::None),
        (FatKind::Fat32, 4096, Some(4096), 280 * mib, Alignment::RecyclingUnit),
    ] {
        for options in [WRITE_THROUGH, WRITE_BACK] {
            let what = format!("{kind:?}, sectors of {sector}, clusters of {cluster:?}, {:?}", options.cache);
            let mut device = ram(sector, bytes);
            let wanted = FormatOptions {
                kind: Some(kind),
                cluster_size: cluster,
                label: Some("nandkit".into()),
                alignment,
                ..FormatOptions::default()
            };
            let geometry = format(&mut device, &clock(), &wanted).unwrap();
            assert_eq!(geometry.kind, kind);
            let mut fat = mount(device, options);
            assert_eq!(fat.label().unwrap(), "NANDKIT");
            let files = some_files();
            put(&mut fat, &files);
            let device = judge(fat, &files, Judges::ALL, &what);
            let mut fat = mount(device, options);
            assert!(fat.recovery().is_none(), "{what}");
            let files = change(&mut fat, files);
            judge(fat, &files, Judges::ALL, &what);
        }
    }
}

/// Makes an image with mkfs.vfat and fills it with mtools.
fn their_image(size_kib: u64, arguments: &[&str], files: &Files) -> tempfile::NamedTempFile {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(size_kib << 10).unwrap();
    let path = image.path().to_str().unwrap();
    let made = run("dosfstools", "mkfs.vfat", &[arguments, &[path]].concat());
    assert!(made.succeeded(), "mkfs.vfat {arguments:?}: {}", made.text());
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let target = folder.path().join(name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, content).unwrap();
    }
    let mut top: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_string())
        .collect();
    top.sort();
    let mut all = vec!["-s", "-i", path];
    all.extend(top.iter().map(String::as_str));
    all.push("::");
    if files.is_empty() {
        return image;
    }
    let copied = run("mtools", "mcopy", &all);
    assert!(copied.succeeded(), "mcopy {arguments:?}: {}", copied.text());
    image
}

#[test]
fn volumes_of_mkfs_and_mtools_are_read_and_changed() {
    let files = some_files();
    for (size_kib, arguments) in [
        (2048, &["-F", "12"][..]),
        (2048, &["-F", "12", "-a", "-s", "1"]),
        (8192, &["-F", "12", "-S", "1024"]),
        (16_384, &["-F", "16"]),
        (16_384, &["-F", "16", "-R", "7", "-f", "1"]),
        (40_960, &["-F", "16", "-S", "4096", "-s", "1"]),
        (143_360, &["-F", "16", "-s", "64", "-a", "-r", "1024"]),
        (40_960, &["-F", "32", "-s", "1"]),
        (40_960, &["-F", "32", "-s", "1", "-R", "100", "-n", "LABEL"]),
        (282_624, &["-F", "32", "-S", "4096", "-s", "1"]),
    ] {
        let what = format!("mkfs.vfat {arguments:?}");
        let image = their_image(size_kib, arguments, &files);
        let mut fat = mount(from_file(image.path(), 512), WRITE_BACK);
        assert!(fat.recovery().is_none(), "{what}");
        assert_holds(&mut fat, &files, &what);
        let files = change(&mut fat, files.clone());
        judge(fat, &files, Judges::ALL, &what);
    }
}

/// With fewer clusters than FAT32 should have, the boot sector's fields determine the type, as for
/// Linux and fsck.vfat (mtools and fatfs take the volume for FAT16).
#[test]
fn a_fat32_volume_that_is_too_small_for_its_type_is_used_as_fat32() {
    let image = their_image(16_384, &["-F", "32", "-s", "8"], &Files::new());
    let mut fat = mount(from_file(image.path(), 512), WRITE_BACK);
    assert_eq!(fat.geometry().kind, FatKind::Fat32);
    put(&mut fat, &some_files());
    let files = change(&mut fat, some_files());
    let device = judge(fat, &files, Judges { readers: false, ..Judges::ALL }, "FAT32 with few clusters");
    assert_holds(&mut mount(device, WRITE_THROUGH), &files, "FAT32 with few clusters");
}

/// fsck.vfat does not judge these volumes. The fatfs crate gives "." and ".." long names, which
/// fsck.vfat reports even on the crate's own images, and its ".." names the root of FAT32 by its
/// cluster, where the specification requires 0.
#[test]
fn volumes_of_the_fatfs_crate_are_read_and_changed() {
    for (kind, bytes) in
        [(fatfs::FatType::Fat12, 3 << 20), (fatfs::FatType::Fat16, 20 << 20), (fatfs::FatType::Fat32, 40 << 20)]
    {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(bytes).unwrap();
        let mut options = fatfs::FormatVolumeOptions::new().fat_type(kind);
        if kind == fatfs::FatType::Fat32 {
            options = options.bytes_per_cluster(512);
        }
        fatfs::format_volume(image.reopen().unwrap(), options).unwrap();
        let files = some_files();
        {
            let fs = fatfs::FileSystem::new(image.reopen().unwrap(), fatfs::FsOptions::new()).unwrap();
            for (path, content) in &files {
                let mut at = fs.root_dir();
                let mut parts: Vec<&str> = path.split('/').collect();
                let name = parts.pop().unwrap();
                for part in parts {
                    at = at.create_dir(part).unwrap();
                }
                at.create_file(name).unwrap().write_all(content).unwrap();
            }
        }
        let mut fat = mount(from_file(image.path(), 512), WRITE_THROUGH);
        assert_holds(&mut fat, &files, "fatfs");
        let files = change(&mut fat, files);
        judge(fat, &files, Judges { fsck: false, ..Judges::ALL }, "fatfs");
    }
}

#[test]
fn format_refuses_what_does_not_fit_and_says_the_limits() {
    for (kind, bytes, cluster, says) in [
        (Some(FatKind::Fat32), 16 << 20, None, "65525 to 268435446 expected"),
        (Some(FatKind::Fat16), 1 << 20, Some(512), "4087 to 65524 expected"),
        (Some(FatKind::Fat12), 1 << 30, None, "1 to 4084 expected"),
        (None, 8 << 10, None, "1 to 4084 expected"),
        (None, 1 << 20, Some(1000), "power of two"),
        (None, 1 << 20, Some(65_536), "32768"),
    ] {
        let mut device = ram(512, bytes);
        let options = FormatOptions { kind, cluster_size: cluster, ..FormatOptions::default() };
        let error = format(&mut device, &clock(), &options).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(Fat::mount(device, clock(), WRITE_THROUGH).is_err());
    }
}

#[test]
fn without_options_the_type_is_that_of_mkfs() {
    for mib in [1u64, 4, 8, 16, 128, 200, 511, 512, 1024] {
        let mut device = ram(512, mib << 20);
        let ours = format(&mut device, &clock(), &FormatOptions::default()).unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(mib << 20).unwrap();
        let made = run("dosfstools", "mkfs.vfat", &[image.path().to_str().unwrap()]);
        assert!(made.succeeded());
        let mut boot = vec![0; 512];
        image.reopen().unwrap().read_exact(&mut boot).unwrap();
        let theirs = nandkit_fat::Geometry::parse(&boot, mib << 20).unwrap();
        assert_eq!((ours.kind, ours.cluster_size()), (theirs.kind, theirs.cluster_size()), "{mib} MiB");
    }
}

#[test]
fn the_data_area_lies_on_the_recycling_unit_when_asked() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let shape = nandkit_block::BlockGeometry {
            sector_size: 512,
            sectors: (100 << 20) / 512,
            preferred_size: 2048,
            recycling_size: 128 << 10,
        };
        let mut device = nandkit_block::RamDevice::new(shape).unwrap();
        let options =
            FormatOptions { kind: Some(kind), alignment: Alignment::RecyclingUnit, ..FormatOptions::default() };
        let geometry = format(&mut device, &clock(), &options).unwrap();
        assert_eq!(geometry.cluster_start(2) % (128 << 10), 0);
        judge_image(&mut device, &Contents::new(), Judges::ALL, "aligned");
    }
}

#[test]
fn padding_that_is_not_written_keeps_what_was_there() {
    for (kind, unpadded) in [(FatKind::Fat16, 1), (FatKind::Fat32, 32)] {
        for write_padding in [true, false] {
            let shape = nandkit_block::BlockGeometry {
                sector_size: 512,
                sectors: (100 << 20) / 512,
                preferred_size: 2048,
                recycling_size: 256 << 10,
            };
            let mut device = nandkit_block::RamDevice::new(shape).unwrap();
            let old = vec![0x5A; 2 << 20];
            device.write(&Context::default(), Lba(0), Payload::Bytes(&old)).unwrap();
            let alignment = Alignment::RecyclingUnit;
            let options = FormatOptions { kind: Some(kind), alignment, write_padding, ..FormatOptions::default() };
            let geometry = format(&mut device, &clock(), &options).unwrap();
            let mut head = vec![0; geometry.first_data_sector() as usize * 512];
            device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut head)).unwrap();
            let (reserved, fats) = head.split_at(geometry.fat_start(0) as usize);
            let padding = &reserved[unpadded * 512..];
            assert!(!padding.is_empty() && padding.iter().all(|byte| *byte == if write_padding { 0 } else { 0x5A }));
            // What a reader looks at has nothing old in it.
            assert!(!reserved[..unpadded * 512].contains(&0x5A) && !fats.contains(&0x5A), "{kind:?}");
            judge_image(&mut device, &Contents::new(), Judges::ALL, "padding");
        }
    }
}

#[test]
fn creating_and_removing_within_a_batch_costs_almost_nothing() {
    let device = StatsDevice::new(volume(FatKind::Fat16, 512, Some(2048), 20 << 20));
    let cache = Cache::Sectors {
        sectors: 1000,
        write_back: nandkit_fat::WriteBack::Back {
            dirty_limit: 1000,
            age_limit: nandkit_units::Nanos::from_secs(1000),
        },
        data: true,
    };
    let mut fat = mount(device, MountOptions { cache, ..WRITE_BACK });
    let root = fat.root();
    for round in 0..100 {
        for number in 0..10 {
            let changes = fat.changes().unwrap();
            let file = changes.create(root, format!("file {number}").as_bytes(), &NewNode::FILE).unwrap();
            changes.write(file, 0, Payload::Bytes(&bytes_of(512, round))).unwrap();
        }
        for number in 0..10 {
            fat.changes().unwrap().remove(root, format!("file {number}").as_bytes()).unwrap();
        }
    }
    fat.changes().unwrap().sync(None).unwrap();
    let snapshot = fat.with_device(|device| device.snapshot());
    let written = |cause: Cause| snapshot.of(RequestKind::Write, cause).bytes;
    assert_eq!(written(Cause::UserData), 0);
    // The in-use mark (boot sector, two FATs) and the root's slots that are now free, but not the
    // end of the directory.
    assert!(written(Cause::Metadata) <= 6 * 512, "{}", written(Cause::Metadata));
}
