//! Files that are read through one temporary file, against the model file system: what is read is
//! what each file holds, whatever memory there is and whatever changes meanwhile. On F2FS and a
//! layer that remaps: crates/stack/tests/remapped.rs.

mod adopting;

use adopting::{Adopting, UNIT};
use nandkit_remap::{Limits, Remapped, RemappedTree, remap_create};
use nandkit_units::Payload;
use nandkit_units::random::hash;
use nandkit_vfs::source::{SourceNode, SourceTree};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Result};

const SIZES: [usize; 14] = [0, 1, 100, 3000, 4096, 4097, 8192, 20_000, 5, 70_001, 4095, 200_000, 12_288, 3500];

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (hash(seed, at, 3) as u8).max(1)).collect()
}

/// Files of many sizes, small ones in their inodes among them, and one with holes.
fn files(fs: &mut Adopting) -> Vec<InodeNumber> {
    let numbered = SIZES.iter().enumerate();
    let mut all: Vec<InodeNumber> =
        numbered.map(|(number, &size)| fs.file(&format!("file-{number}"), &pattern(size, number as u64))).collect();
    let sparse = fs.file("sparse", &pattern(5000, 90));
    Changes::write(fs, sparse, 1 << 20, Payload::Bytes(&pattern(9000, 91))).unwrap();
    fs.set_attributes(sparse, &AttributeChange { size: Some(2 << 20), ..AttributeChange::default() }).unwrap();
    all.push(sparse);
    all
}

/// All of a file by requests of `step` bytes.
fn read_all(fs: &mut Adopting, remapped: &mut Remapped, place: usize, step: usize) -> Result<Vec<u8>> {
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

#[test]
fn every_file_reads_as_itself_whatever_memory_there_is() {
    let memories = [(64 << 20, u64::MAX, u64::MAX), (8192, u64::MAX, u64::MAX), (1, 50_000, u64::MAX)];
    for (memory, shared, room) in memories.into_iter().chain([(1 << 20, u64::MAX, 30 * UNIT), (1 << 20, u64::MAX, 0)]) {
        let mut fs = Adopting::new(room);
        let all = files(&mut fs);
        let (whole, names): (Vec<Vec<u8>>, _) = (all.iter().map(|inode| fs.content(*inode)).collect(), fs.names());
        let limits = Limits { memory, shared };
        let mut remapped = remap_create(&mut fs, &all, limits).unwrap();
        assert_eq!(fs.names(), names, "the temporary file has no name");
        for step in [1 << 20, 1000] {
            for (place, whole) in whole.iter().enumerate() {
                let read = read_all(&mut fs, &mut remapped, place, step).unwrap();
                assert!(read == *whole, "file {place} by {step} bytes, {limits:?}, room {room}");
            }
        }
        for round in 0..300_u64 {
            let place = hash(round, 1, 0) as usize % all.len();
            let size = whole[place].len();
            let offset = hash(round, 2, 0) as usize % (size + 1);
            let mut bytes = vec![1; hash(round, 3, 0) as usize % 9000];
            let count = remapped.remap_read(&mut fs, place, offset as u64, &mut bytes).unwrap();
            assert!(bytes[..count] == whole[place][offset..offset + count], "file {place} at {offset}, {limits:?}");
            assert_eq!(count, bytes.len().min(size - offset));
            let data = remapped.data_after(&mut fs, place, offset as u64).unwrap();
            let first = whole[place][offset..].iter().position(|byte| *byte != 0).map(|at| (at + offset) as u64);
            assert!(first.is_none_or(|first| data.is_some_and(|data| data.contains(&first))), "file {place}");
        }
        let counters = remapped.remap_delete(&mut fs).unwrap();
        assert_eq!((counters.renewed, fs.names()), (0, names));
        match (shared, room) {
            (u64::MAX, u64::MAX) => assert_eq!((counters.groups, counters.refusals), (1, 0), "{counters:?}"),
            (_, 0) => assert_eq!(counters.bytes_shared, 0),
            _ => assert!(counters.groups > 2, "{counters:?}"),
        }
    }
}

#[test]
fn many_small_files_are_one_request() {
    let mut fs = Adopting::new(u64::MAX);
    let all: Vec<InodeNumber> = (0..400).map(|number| fs.file(&format!("{number}"), &pattern(4096, number))).collect();
    let mut remapped = remap_create(&mut fs, &all, Limits::default()).unwrap();
    fs.reads.lock().unwrap().clear();
    for place in 0..all.len() {
        assert!(read_all(&mut fs, &mut remapped, place, 4096).unwrap() == pattern(4096, place as u64));
    }
    assert_eq!(fs.reads.lock().unwrap().len(), 1);
    assert_eq!(remapped.counters().windows, 1);
    // Files that are read directly in between leave the window as it is.
    let mixed: Vec<InodeNumber> = (0..100)
        .map(|number| fs.file(&format!("mixed-{number}"), &pattern([5000, 50][number as usize % 2], number)))
        .collect();
    let mut remapped = remap_create(&mut fs, &mixed, Limits::default()).unwrap();
    for place in 0..mixed.len() {
        let read = read_all(&mut fs, &mut remapped, place, 4096).unwrap();
        assert!(read == pattern([5000, 50][place % 2], place as u64));
    }
    assert_eq!((remapped.counters().windows, remapped.counters().files_direct), (1, 50));
}

/// A change of a file between two calls of the library; all versions that the file has had.
fn change(fs: &mut Adopting, inode: InodeNumber, seed: u64, versions: &mut Vec<Vec<u8>>) {
    let draw = |purpose| hash(seed, purpose, 5);
    let length = [50, 3000, 4096, 9000, 30_000, 100_000][draw(1) as usize % 6] + draw(2) as usize % 50;
    let (offset, content) = (draw(4) % 20_000, pattern(length, seed));
    match draw(3) % 4 {
        0 => {
            let change = AttributeChange { size: Some(length as u64), ..AttributeChange::default() };
            fs.set_attributes(inode, &change).unwrap();
        }
        1 => assert_eq!(Changes::write(fs, inode, offset, Payload::Bytes(&content)).unwrap(), length),
        _ => assert_eq!(Changes::write(fs, inode, 0, Payload::Bytes(&content)).unwrap(), length),
    }
    versions.push(fs.content(inode));
}

/// Reads a file in small steps while it changes. `None`: it was told.
fn raced(
    fs: &mut Adopting,
    remapped: &mut Remapped,
    (place, inode): (usize, InodeNumber),
    seed: u64,
    versions: &mut Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    if hash(seed, 1, 9).is_multiple_of(2) {
        change(fs, inode, seed, versions);
    }
    let size = remapped.begin(fs, place).unwrap().size as usize;
    let (mut bytes, step) = (vec![0xEE; size], (size / 3).max(1));
    for (number, part) in bytes.chunks_mut(step).enumerate() {
        if hash(seed, 2 + number as u64, 9).is_multiple_of(3) {
            change(fs, inode, seed + 10_000 * (1 + number as u64), versions);
        }
        match remapped.remap_read(fs, place, (number * step) as u64, part) {
            Ok(count) => assert_eq!(count, part.len()),
            Err(error) if error.kind == ErrorKind::Corrupt => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(bytes)
}

#[test]
fn a_thousand_races_mix_no_versions() {
    let (mut told, mut newest) = (0, 0);
    for round in 0..50_u64 {
        let mut fs = Adopting::new([u64::MAX, 40 * UNIT, 12 * UNIT, 4 * UNIT][round as usize % 4]);
        let all = files(&mut fs);
        let memory = [1 << 20, 8192, 1][round as usize % 3];
        let shared = [u64::MAX, 60_000][round as usize / 3 % 2];
        let mut versions: Vec<Vec<Vec<u8>>> = all.iter().map(|inode| vec![fs.content(*inode)]).collect();
        let mut remapped = remap_create(&mut fs, &all, Limits { memory, shared }).unwrap();
        for race in 0..20_u64 {
            let seed = round * 20 + race;
            let place = hash(seed, 0, 9) as usize % (all.len() - 1);
            let known = versions[place].len();
            match raced(&mut fs, &mut remapped, (place, all[place]), seed, &mut versions[place]) {
                None => told += 1,
                Some(bytes) => {
                    let at = versions[place].iter().rposition(|version| *version == bytes);
                    let at = at.unwrap_or_else(|| panic!("round {round}, race {race}: a mix of versions"));
                    assert!(at + 1 >= known, "round {round}, race {race}: older than at the beginning");
                    newest += u32::from(at + 1 > known);
                }
            }
        }
    }
    println!("{told} of 1000 were told, {newest} newer than at first");
    assert!(newest > 100 && told < 500, "{told} told, {newest} newer");
}

#[test]
fn a_file_that_was_shared_late_is_shared_again_behind_others() {
    let mut fs = Adopting::new(4 * UNIT);
    let all: Vec<InodeNumber> = [10, 3, 3]
        .iter()
        .enumerate()
        .map(|(number, units)| fs.file(&format!("{number}"), &pattern(units * UNIT as usize, number as u64)))
        .collect();
    let mut remapped = remap_create(&mut fs, &all, Limits::default()).unwrap();
    // There was no room for the first one; now there is.
    let shorter = AttributeChange { size: Some(2 * UNIT), ..AttributeChange::default() };
    fs.set_attributes(all[0], &shorter).unwrap();
    for place in [0, 1, 0, 2, 0] {
        let read = read_all(&mut fs, &mut remapped, place, 1000).unwrap();
        assert!(read == fs.content(all[place]), "file {place}");
    }
    assert_eq!(remapped.counters().renewed, 1);
}

#[test]
fn a_tree_is_read_as_the_version_that_began() {
    let mut fs = Adopting::new(u64::MAX);
    let (inode, second) = (fs.file("a", &pattern(9000, 1)), fs.file("b", &pattern(100, 2)));
    let root = SourceNode::new(FileKind::Directory, 0o755);
    let node = |name: &str, size| SourceNode { name: name.into(), size, ..SourceNode::new(FileKind::Regular, 0o600) };
    let nodes = vec![root, node("a", 9000), node("b", 100), SourceNode { hard_link_of: Some(1), ..node("c", 9000) }];
    let inodes = [fs.root(), inode, second, inode];
    let tree = RemappedTree::new(&mut fs, nodes, &inodes, Limits::default()).unwrap();
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
    // Somebody's file under the name of the temporary one is not taken for what a crash left.
    let inode = fs.file(".nandkit-remap-temporary", &pattern(9000, 1));
    let error = remap_create(&mut fs, &[inode], Limits::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exists, "{error}");
    fs.set_attributes(inode, &AttributeChange { mode: Some(0), ..AttributeChange::default() }).unwrap();
    remap_create(&mut fs, &[], Limits::default()).unwrap().remap_delete(&mut fs).unwrap();
    assert_eq!(fs.names(), 2);
}
