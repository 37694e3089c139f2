//! Files of F2FS that are read through one temporary file, over a page-mapped layer that remaps.

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, RequestKind, StatsDevice, Survival};
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_ftl::PageMapOptions;
use nandkit_remap::{Limits, Remapped, RemappedTree, remap_create};
use nandkit_units::random::hash;
use nandkit_units::{Cause, Clock, Nanos, Payload};
use nandkit_vfs::source::{SourceNode, SourceTree};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Result};

use super::f2fs_adopt::{Layer, assert_sound, content, file, layer, made, mount, pattern, unmount};

const SIZES: [usize; 14] = [0, 1, 100, 3000, 4096, 4097, 8192, 20_000, 5, 70_001, 4095, 1_000_000, 12_288, 3500];

/// Files of many sizes, small ones in their inodes among them, and one with holes.
fn files<D: BlockDevice>(volume: &mut WritableVolume<D>) -> Vec<InodeNumber> {
    let mut all: Vec<InodeNumber> = SIZES
        .iter()
        .enumerate()
        .map(|(number, &size)| file(volume, &format!("file-{number}"), &pattern(size, number as u64)))
        .collect();
    let sparse = file(volume, "sparse", &pattern(5000, 90));
    Changes::write(volume, sparse, 3 << 20, Payload::Bytes(&pattern(9000, 91))).unwrap();
    let change = AttributeChange { size: Some(5 << 20), ..AttributeChange::default() };
    volume.set_attributes(sparse, &change).unwrap();
    all.push(sparse);
    all
}

/// All of a file by requests of `step` bytes.
fn read_all(fs: &mut dyn FileSystem, remapped: &mut Remapped, place: usize, step: usize) -> Result<Vec<u8>> {
    let size = remapped.begin(fs, place)?.size;
    let (mut bytes, mut offset) = (vec![0xEE; size as usize], 0);
    while offset < bytes.len() {
        let end = (offset + step).min(bytes.len());
        let count = remapped.remap_read(fs, place, offset as u64, &mut bytes[offset..end])?;
        assert_eq!(count, end - offset);
        offset = end;
    }
    assert_eq!(remapped.remap_read(fs, place, size, &mut [0; 8])?, 0, "behind the end");
    Ok(bytes)
}

fn names(volume: &WritableVolume<impl BlockDevice>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let root = volume.root();
    volume
        .read_dir(root, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    names
}

#[test]
fn every_file_reads_as_itself_whatever_memory_there_is() {
    for (memory, shared, aliases) in
        [(64 << 20, u64::MAX, 0), (8192, u64::MAX, 0), (1, 100_000, 0), (1 << 20, u64::MAX, 100)]
    {
        let mut volume = mount(made(layer(aliases)));
        let all = files(&mut volume);
        volume.sync().unwrap();
        let whole: Vec<Vec<u8>> = all.iter().map(|inode| content(&volume, *inode)).collect();
        let (before, listed) = (volume.volume().unwrap().blocks_free, names(&volume));
        let limits = Limits { memory, shared };
        let mut remapped = remap_create(&mut volume, &all, limits).unwrap();
        assert_eq!(names(&volume), listed, "the temporary file has no name");
        for step in [1 << 20, 1000] {
            for (place, whole) in whole.iter().enumerate() {
                let read = read_all(&mut volume, &mut remapped, place, step).unwrap();
                assert!(read == *whole, "file {place} by {step} bytes, {limits:?}, {aliases} aliases");
            }
        }
        // In any order, within files too.
        for round in 0..300_u64 {
            let place = hash(round, 1, 0) as usize % all.len();
            let size = whole[place].len();
            let offset = hash(round, 2, 0) as usize % (size + 1);
            let mut bytes = vec![1; hash(round, 3, 0) as usize % 9000];
            let count = remapped.remap_read(&mut volume, place, offset as u64, &mut bytes).unwrap();
            assert!(bytes[..count] == whole[place][offset..offset + count], "file {place} at {offset}, {limits:?}");
            assert_eq!(count, bytes.len().min(size - offset));
        }
        let counters = remapped.remap_delete(&mut volume).unwrap();
        assert_eq!(counters.renewed, 0);
        match (shared, aliases) {
            (u64::MAX, 0) => assert_eq!((counters.groups, counters.refusals), (1, 0), "{counters:?}"),
            _ => assert!(counters.groups > 2, "{counters:?}"),
        }
        volume.sync().unwrap();
        assert!(volume.volume().unwrap().blocks_free + 2 >= before, "room is lost");
        assert_sound(&unmount(volume), true, "deleted");
    }
}

#[test]
fn many_small_files_take_few_requests_and_no_page_is_programmed_for_them() {
    let mut volume = mount(made(StatsDevice::new(layer(2000))));
    let all: Vec<InodeNumber> =
        (0..400).map(|number| file(&mut volume, &format!("{number}"), &pattern(4096, number))).collect();
    // In another order than they lie.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|place| hash(*place as u64, 7, 7));
    let all: Vec<InodeNumber> = order.iter().map(|place| all[*place]).collect();
    let device = unmount(volume);
    let stats = Arc::clone(device.counters());
    let data_reads = || stats.snapshot().of(RequestKind::Read, Cause::UserData).requests;
    let volume = mount(device);
    let before = data_reads();
    all.iter().for_each(|inode| drop(content(&volume, *inode)));
    let one_by_one = data_reads() - before;
    let mut volume = mount(unmount(volume));
    let (before, written) = (data_reads(), stats.snapshot().of(RequestKind::Write, Cause::UserData).requests);
    let mut remapped = remap_create(&mut volume, &all, Limits::default()).unwrap();
    for (place, number) in order.iter().enumerate() {
        assert!(read_all(&mut volume, &mut remapped, place, 4096).unwrap() == pattern(4096, *number as u64));
    }
    let gathered = data_reads() - before;
    let counters = remapped.remap_delete(&mut volume).unwrap();
    println!("{one_by_one} requests one by one, {gathered} by the temporary file; {counters:?}");
    assert_eq!((counters.files_shared, counters.windows), (400, 1));
    assert!(one_by_one >= 390 && gathered * 10 <= one_by_one, "{one_by_one} and {gathered}");
    assert_eq!(stats.snapshot().of(RequestKind::Write, Cause::UserData).requests, written, "content was written");
    assert_sound(&unmount(volume), true, "gathered");
}

/// A volume that files change on, and the clock by which they do.
struct Changing {
    volume: WritableVolume<Layer>,
    clock: Clock,
}

/// A change of a file between two calls of the library; all versions that the file has had.
fn change(changing: &mut Changing, inode: InodeNumber, seed: u64, versions: &mut Vec<Vec<u8>>) {
    let Changing { volume, clock } = changing;
    // What is changed in memory takes no simulated time, and a host's does.
    clock.advance_to(Nanos(clock.now().0 + 1000));
    let draw = |purpose| hash(seed, purpose, 5);
    let length = [50, 3000, 4096, 9000, 30_000, 100_000][draw(1) as usize % 6] + draw(2) as usize % 50;
    match draw(3) % 4 {
        0 => {
            let change = AttributeChange { size: Some(length as u64), ..AttributeChange::default() };
            volume.set_attributes(inode, &change).unwrap();
        }
        1 => {
            let offset = draw(4) % 20_000;
            Changes::write(volume, inode, offset, Payload::Bytes(&pattern(length, seed))).unwrap();
        }
        _ => {
            Changes::write(volume, inode, 0, Payload::Bytes(&pattern(length, seed))).unwrap();
        }
    }
    if draw(5).is_multiple_of(3) {
        volume.sync().unwrap();
    }
    versions.push(content(volume, inode));
}

/// Reads a file in small steps while it changes. `None`: it was told.
fn raced(
    changing: &mut Changing,
    remapped: &mut Remapped,
    (place, inode): (usize, InodeNumber),
    seed: u64,
    versions: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    if hash(seed, 1, 9).is_multiple_of(2) {
        change(changing, inode, seed, versions);
    }
    let size = remapped.begin(&mut changing.volume, place).unwrap().size as usize;
    let mut bytes = vec![0xEE; size];
    let step = (size / 3).max(1);
    for (number, part) in bytes.chunks_mut(step).enumerate() {
        if hash(seed, 2 + number as u64, 9).is_multiple_of(3) {
            change(changing, inode, seed + 10_000 * (1 + number as u64), versions);
        }
        match remapped.remap_read(&mut changing.volume, place, (number * step) as u64, part) {
            Ok(count) => assert_eq!(count, part.len()),
            Err(error) if error.kind == ErrorKind::Corrupt => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(bytes)
}

#[test]
fn races_mix_no_versions() {
    let (mut told, mut newest) = (0, 0);
    for round in 0..20_u64 {
        let clock = Clock::starting_at(0);
        let device = vec![made(layer([2000, 40][round as usize % 2]))];
        let mut changing =
            Changing { volume: WritableVolume::mount(device, clock.clone(), WriteOptions::default()).unwrap(), clock };
        let volume = &mut changing.volume;
        let all = files(volume);
        let memory = [1 << 20, 8192, 1][round as usize % 3];
        let shared = [u64::MAX, 60_000][round as usize / 3 % 2];
        let mut versions: Vec<Vec<Vec<u8>>> = all.iter().map(|inode| vec![content(volume, *inode)]).collect();
        let mut remapped = remap_create(volume, &all, Limits { memory, shared }).unwrap();
        for race in 0..20_u64 {
            let seed = round * 20 + race;
            let place = hash(seed, 0, 9) as usize % (all.len() - 1);
            let known = versions[place].len();
            let read = raced(&mut changing, &mut remapped, (place, all[place]), seed, &mut versions[place]);
            match read {
                None => told += 1,
                Some(bytes) => {
                    let at = versions[place].iter().rposition(|version| *version == bytes);
                    let at = at.unwrap_or_else(|| panic!("round {round}, race {race}: a mix of versions"));
                    assert!(at + 1 >= known, "round {round}, race {race}: an older version than that of the beginning");
                    newest += u32::from(at + 1 > known);
                }
            }
        }
        remapped.remap_delete(&mut changing.volume).unwrap();
        changing.volume.sync().unwrap();
        assert_sound(&unmount(changing.volume), round % 10 == 0, "raced");
    }
    println!("{told} of 400 were told, {newest} newer than at first");
    assert!(newest > 40 && told < 200, "{told} told, {newest} newer");
}

#[test]
fn a_tree_is_read_as_the_version_that_began() {
    let mut volume = mount(made(layer(0)));
    let inode = file(&mut volume, "a", &pattern(9000, 1));
    let second = file(&mut volume, "b", &pattern(100, 2));
    let root = SourceNode::new(FileKind::Directory, 0o755);
    let node = |name: &str, size| SourceNode { name: name.into(), size, ..SourceNode::new(FileKind::Regular, 0o644) };
    let nodes = vec![root, node("a", 9000), node("b", 100), SourceNode { hard_link_of: Some(1), ..node("c", 9000) }];
    let inodes = [volume.root(), inode, second, inode];
    let tree = RemappedTree::new(&mut volume, nodes, &inodes, Limits::default()).unwrap();
    let begun = tree.begin(1).unwrap().unwrap();
    assert_eq!((begun.size, begun.name.as_slice(), begun.mode), (9000, &b"a"[..], 0o644));
    assert_eq!(tree.begin(0).unwrap(), None);
    let mut bytes = vec![0; 10_000];
    assert_eq!(tree.read(3, 0, &mut bytes).unwrap(), 9000);
    assert!(bytes[..9000] == pattern(9000, 1));
    assert_eq!(tree.data_after(1, 5).unwrap(), Some(5..9000));
    assert_eq!(tree.read(2, 90, &mut bytes).unwrap(), 10);
    assert_eq!(tree.read(0, 0, &mut bytes).unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(tree.read(9, 0, &mut bytes).unwrap_err().kind, ErrorKind::NotFound);
    tree.delete().unwrap();
    assert_sound(&unmount(volume), false, "a tree");
}

#[test]
fn what_cannot_remap_is_told_before_anything_is_made() {
    let device = nandkit_block::RamDevice::with_sectors(4096, 20_480).unwrap();
    let mut volume = mount(made(device));
    let inode = file(&mut volume, "a", &pattern(9000, 1));
    let error = remap_create(&mut volume, &[inode], Limits::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSupported, "{error}");
    assert_eq!(names(&volume), [b"a".to_vec()]);
    // Somebody's file under the name is not taken for what a crash left.
    let mut volume = mount(made(layer(0)));
    let inode = file(&mut volume, ".nandkit-remap-temporary", &pattern(9000, 1));
    let error = remap_create(&mut volume, &[inode], Limits::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
    let left = AttributeChange { mode: Some(0), ..AttributeChange::default() };
    volume.set_attributes(inode, &left).unwrap();
    remap_create(&mut volume, &[], Limits::default()).unwrap().remap_delete(&mut volume).unwrap();
    assert_eq!(names(&volume), [[0; 0]; 0]);
}

/// A cut at every request of making, reading and dropping the temporary file.
#[test]
fn a_mount_behind_a_cut_has_the_files_and_no_temporary_one() {
    let mut volume = mount(made(layer(0)));
    let all = files(&mut volume);
    volume.sync().unwrap();
    let whole: Vec<Vec<u8>> = all.iter().map(|inode| content(&volume, *inode)).collect();
    let (free, listed) = (volume.volume().unwrap().blocks_free, names(&volume));
    let chip = unmount(volume).into_flash();
    let mut request = 1;
    loop {
        let moment = [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][request as usize % 3];
        let plan = DeviceCutPlan::at(request, moment, Survival::Subset, request);
        let context = format!("{plan:?}");
        let device = CutDevice::new(Layer::attach(chip.clone(), PageMapOptions::default()).unwrap(), plan);
        let mut volume = mount(device);
        let done = (|| {
            // In groups: each is followed by a sync.
            let limits = Limits { memory: 8192, shared: 300_000 };
            let mut remapped = remap_create(&mut volume, &all, limits)?;
            for (place, whole) in whole.iter().enumerate() {
                let read = read_all(&mut volume, &mut remapped, place, 1 << 20)?;
                assert!(read == *whole, "{context}: file {place}");
            }
            remapped.remap_delete(&mut volume)?;
            volume.sync()
        })();
        let device = volume.abandon().remove(0);
        if !device.is_off() {
            done.unwrap();
            break;
        }
        let chip = device.into_inner().unwrap().into_flash();
        let volume = mount(Layer::attach(chip, PageMapOptions::default()).unwrap());
        assert_eq!(names(&volume), listed, "{context}");
        assert!(volume.volume().unwrap().blocks_free + 2 >= free, "{context}: room is lost");
        for (inode, whole) in all.iter().zip(&whole) {
            assert!(content(&volume, *inode) == *whole, "{context}: inode {} is harmed", inode.0);
        }
        assert_sound(&unmount(volume), request % 10 == 0, &context);
        request += 1;
    }
    println!("{request} requests");
    assert!(request > 30, "{request} requests");
}
