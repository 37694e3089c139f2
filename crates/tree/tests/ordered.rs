//! A directory read in the order of its files' blocks gives the same archive as one read name by
//! name. Files that change meanwhile are one consistent version, or are reported.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nandkit_tree::large::Holes;
use nandkit_tree::pack::{PackOptions, pack_in_turn, pack_tree};
use nandkit_tree::{
    ArchiveOptions, DirectoryOptions, ExtractReport, HostClock, HostDirectory, OrderedDirectory, OrderedOptions,
    TarArchive,
};
use nandkit_vfs::source::{SourceTree, path};
use nandkit_vfs::{FileKind, Timestamp};

fn options(memory: u64, holes: bool) -> OrderedOptions {
    let now = || Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64);
    let clock = HostClock { now, wait: |time| std::thread::sleep(Duration::from_nanos(time.0)) };
    let directory = DirectoryOptions { keeps_going: true, ..DirectoryOptions::default() };
    OrderedOptions { directory, memory, threads: 4, holes, clock }
}

fn pack(tree: &OrderedDirectory, holes: Holes) -> (Vec<u8>, ExtractReport) {
    let (mut out, options) = (Vec::new(), PackOptions { holes, ..PackOptions::default() });
    let report = pack_in_turn(tree, &|node| tree.turn(node), &mut out, &options).unwrap();
    (out, report)
}

/// A content with its version number in each byte.
fn version(number: u8, length: usize) -> Vec<u8> {
    vec![number; length]
}

fn tree_of_many_kinds(root: &Path) {
    for directory in ["a", "a/b", "c"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for number in 0..700_usize {
        let directory = ["a", "a/b", "c"][number % 3];
        let length = [0, 1, 511, 512, 4096, 70_000][number % 6] + number;
        fs::write(root.join(directory).join(format!("{number}")), version(number as u8, length)).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.set_len(3 << 20).unwrap();
    fs::write(root.join("large"), version(7, (9 << 20) + 5)).unwrap();
    fs::hard_link(root.join("large"), root.join("a/again")).unwrap();
    symlink("a/b", root.join("link")).unwrap();
    fs::write(root.join("n".repeat(200)), b"long").unwrap();
}

#[test]
fn the_archive_is_that_of_a_directory_that_is_read_name_by_name() {
    let folder = tempfile::tempdir().unwrap();
    tree_of_many_kinds(folder.path());
    let plain = HostDirectory::open(folder.path(), &DirectoryOptions::default()).unwrap();
    for (holes, memory) in [(Holes::Written, 1 << 27), (Holes::Kept, 1 << 27), (Holes::Kept, 1)] {
        let mut expected = Vec::new();
        let packing = PackOptions { holes, ..PackOptions::default() };
        let report = pack_tree(&plain, &mut expected, &packing).unwrap();
        let tree = OrderedDirectory::open(folder.path(), options(memory, holes == Holes::Kept)).unwrap();
        let (archive, ordered) = pack(&tree, holes);
        assert!(archive == expected, "{holes:?}, {memory} bytes");
        assert_eq!(ordered, report);
        let counters = tree.counters();
        assert_eq!((counters.ahead, counters.streamed, counters.renewed), (702, 1, 0), "{counters:?}");
    }
}

#[test]
fn files_that_changed_since_they_were_listed_are_as_they_are_now() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["changed", "gone", "kept", "linked", "longer"] {
        fs::write(folder.path().join(name), version(1, 5000)).unwrap();
    }
    let tree = OrderedDirectory::open(folder.path(), options(1 << 27, false)).unwrap();
    fs::write(folder.path().join("changed"), version(2, 300)).unwrap();
    fs::write(folder.path().join("longer"), version(3, 6 << 20)).unwrap();
    fs::remove_file(folder.path().join("gone")).unwrap();
    fs::remove_file(folder.path().join("linked")).unwrap();
    symlink("kept", folder.path().join("linked")).unwrap();
    let (archive, report) = pack(&tree, Holes::Written);
    let refused: Vec<_> = report.refused.iter().map(|note| note.path.clone()).collect();
    assert_eq!(refused, [b"gone".to_vec(), b"linked".to_vec()], "{:?}", report.refused);
    assert!(report.refused[0].reason.contains("was removed before it was read"), "{:?}", report.refused);
    assert_eq!((report.files, report.damaged.len()), (3, 0));
    let archive = TarArchive::read(archive.as_slice(), &ArchiveOptions::default()).unwrap();
    let sizes: Vec<_> = archive.nodes().iter().skip(1).map(|node| node.size).collect();
    assert_eq!(sizes, [300, 5000, 6 << 20]);
    assert_eq!(tree.counters().renewed, 2);
}

#[test]
fn a_large_file_that_changes_while_it_is_streamed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    fs::write(&large, version(1, 9 << 20)).unwrap();
    let tree = OrderedDirectory::open(folder.path(), options(1 << 27, false)).unwrap();
    tree.turn(1).unwrap();
    let mut part = vec![0; 1 << 20];
    assert_eq!(tree.read(1, 0, &mut part).unwrap(), part.len());
    File::options().write(true).open(&large).unwrap().write_all_at(b"x", 5).unwrap();
    let error = tree.read(1, 8 << 20, &mut part).unwrap_err();
    assert!(error.to_string().contains("was changed while it was read"), "{error}");
}

#[test]
fn what_cannot_be_listed_is_left_out_and_noted() {
    let folder = tempfile::tempdir().unwrap();
    let error = OrderedDirectory::open(&folder.path().join("none"), options(1, false)).unwrap_err();
    assert!(error.to_string().contains("none: opening"), "{error}");
    fs::write(folder.path().join("file"), b"").unwrap();
    assert!(OrderedDirectory::open(&folder.path().join("file"), options(1, false)).is_err());
    let tree = OrderedDirectory::open(folder.path(), options(1, false)).unwrap();
    assert!(tree.left_out().is_empty());
    let mut bytes = [0; 4];
    assert!(tree.read(0, 0, &mut bytes).is_err() && tree.read(9, 0, &mut bytes).is_err());
    assert_eq!(tree.read(1, 0, &mut bytes).unwrap(), 0);
}

/// Writes version after version over the files, in place or by a rename.
fn writer(folder: &Path, files: usize, stop: &AtomicBool) {
    let mut round = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let file = folder.join(format!("{}", round * 7 % files));
        let number = (round % 250 + 1) as u8;
        if round.is_multiple_of(3) {
            let new = folder.join("../new");
            fs::write(&new, version(number, 1 + round * 997 % 50_000)).unwrap();
            fs::rename(&new, &file).unwrap();
        } else {
            // One call, so that a reader that sees half of it notices by the times.
            let open = File::options().write(true).open(&file).unwrap();
            let length = open.metadata().unwrap().len() as usize;
            open.write_all_at(&version(number, length), 0).unwrap();
        }
        std::thread::sleep(Duration::from_micros(300 * (round as u64 % 5)));
    }
}

#[test]
fn a_thousand_members_of_files_that_change_are_one_version_each_or_told() {
    const FILES: usize = 20;
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("files");
    fs::create_dir(&folder).unwrap();
    for number in 0..FILES {
        fs::write(folder.join(format!("{number}")), version(255, 20_000)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let (mut members, mut told, mut again, mut renewed) = (0, 0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| writer(&folder, FILES, &stop));
        // How often they race is the machine's: one that tells too much never comes to its members.
        while members < 1000 && told < 20_000 {
            let tree = OrderedDirectory::open(&folder, options(1 << 20, false)).unwrap();
            let (archive, report) = pack(&tree, Holes::Written);
            told += report.refused.len() + report.damaged.len();
            (again, renewed) = (again + tree.counters().again, renewed + tree.counters().renewed);
            let archive = TarArchive::read(archive.as_slice(), &ArchiveOptions::default()).unwrap();
            let damaged: Vec<_> = report.damaged.iter().map(|note| note.path.clone()).collect();
            for (index, node) in archive.nodes().iter().enumerate().filter(|(_, node)| node.kind == FileKind::Regular) {
                let name = path(archive.nodes(), index);
                if damaged.contains(&name) {
                    continue;
                }
                let mut bytes = vec![0; node.size as usize];
                assert_eq!(archive.read(index, 0, &mut bytes).unwrap(), bytes.len());
                let mixed = bytes.iter().any(|byte| *byte != bytes[0] || *byte == 0);
                assert!(!mixed, "{} is a mix", String::from_utf8_lossy(&name));
                members += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{members} members, {told} told, {renewed} renewed, read again {again} times");
    assert!(members >= 1000, "{members} members, {told} told, {renewed} renewed");
}
