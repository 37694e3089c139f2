//! Images that try to write outside the target.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nandkit_tree::extract::{extract, extract_tree};
use nandkit_tree::large::{self, Holes};
use nandkit_tree::{ExtractOptions, MountLimits, Note, pack};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::wrap::{Call, Hook, Method, Wrapped};
use nandkit_vfs::{FileKind, FileSystem};

use crate::common::{listing, quiet, run, tar};
use crate::planted::{Inode, Planted};

fn paths(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| String::from_utf8_lossy(&note.path).into_owned()).collect()
}

fn file(content: &[u8]) -> Inode {
    Inode::File(content.to_vec(), 0..0)
}

fn directory(entries: &[(&[u8], u64)]) -> Inode {
    Inode::Directory(entries.iter().map(|(name, inode)| (name.to_vec(), *inode)).collect(), false)
}

/// A tree with every hostile name, loop and limit that there is a rule for. Only `good`, `d/also`
/// and `d/l` may be extracted.
fn hostile() -> Planted {
    let mut planted = Planted::default();
    let root: &[(&[u8], u64)] = &[
        (b"../escape", 2),
        (b"/escape", 2),
        (b"..", 3),
        (b".", 3),
        (b"", 2),
        (b"nul\0name", 2),
        (b"good", 2),
        (b"twice", 2),
        (b"twice", 3),
        (b"d", 3),
        (b"huge", 5),
        // A link to the outside, and a directory of the same name whose files would be written
        // through it.
        (b"trap", 6),
        (b"trap", 7),
    ];
    planted.0.insert(1, directory(root));
    planted.0.insert(2, file(b"good"));
    planted.0.insert(3, directory(&[(b"loop", 3), (b"up", 1), (b"also", 4), (b"l", 8)]));
    planted.0.insert(4, file(b"also"));
    planted.0.insert(5, Inode::Huge(1 << 62));
    planted.0.insert(6, Inode::Symlink(b"../outside".to_vec()));
    planted.0.insert(7, directory(&[(b"stolen", 2)]));
    planted.0.insert(8, Inode::Symlink(b"../../../../etc".to_vec()));
    planted
}

const REFUSED: [&str; 11] =
    ["", ".", "..", "../escape", "/escape", "d/loop", "d/up", "huge", "nul\0name", "trap", "twice"];

#[test]
fn nothing_leaves_the_target_and_each_refusal_is_named() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("outside")).unwrap();
    let target = place.path().join("target");
    let report = extract(&hostile(), &target, &ExtractOptions::default(), &quiet).unwrap();
    assert_eq!(paths(&report.refused), REFUSED);
    assert_eq!(report.damaged, []);
    assert_eq!(listing(&target), ["d", "d/also", "d/l", "good", "trap", "twice"]);
    assert_eq!(
        listing(place.path()).into_iter().filter(|name| !name.starts_with("target")).collect::<Vec<_>>(),
        ["outside"]
    );
    assert_eq!(fs::read(target.join("good")).unwrap(), b"good");
    assert_eq!(fs::read_link(target.join("trap")).unwrap().to_str(), Some("../outside"));
    assert_eq!((report.files, report.directories, report.symlinks, report.hard_links), (2, 2, 2, 1));

    let options = ExtractOptions { inward_links_only: true, ..ExtractOptions::default() };
    let report = extract(&hostile(), &place.path().join("inward"), &options, &quiet).unwrap();
    assert_eq!(report.refused.len(), REFUSED.len() + 2);
    assert_eq!(report.symlinks, 0);

    let archive = place.path().join("hostile.tar");
    let mut out = Vec::new();
    let report = pack::pack(&hostile(), &mut out, &MountLimits::default()).unwrap();
    assert_eq!(paths(&report.refused), REFUSED);
    fs::write(&archive, out).unwrap();
    assert_eq!(run(tar().arg("tf").arg(&archive)), "./\nd/\nd/also\nd/l\ngood\ntrap\ntwice\n");
}

#[test]
fn limits_hold() {
    let place = tempfile::tempdir().unwrap();
    let mut chain = Planted::default();
    for inode in 1..=40 {
        chain.0.insert(inode, directory(&[(b"d", inode + 1), (b"f", 1000 + inode)]));
        chain.0.insert(1000 + inode, file(&[7; 100]));
    }
    chain.0.insert(41, directory(&[]));
    let limited = |limits| ExtractOptions { limits, ..ExtractOptions::default() };
    let cases = [
        (MountLimits { depth_max: 10, ..MountLimits::default() }, 11, "deeper"),
        (MountLimits { names_max: 10, ..MountLimits::default() }, 5, "names"),
        (MountLimits { bytes_max: 350, ..MountLimits::default() }, 3, "bytes"),
    ];
    for (number, (limits, files, reason)) in cases.into_iter().enumerate() {
        let target = place.path().join(number.to_string());
        let report = extract(&chain, &target, &limited(limits), &quiet).unwrap();
        assert_eq!(report.files, files, "{limits:?}");
        assert!(report.refused.iter().all(|note| note.reason.contains(reason)) && !report.refused.is_empty());
    }
}

#[test]
fn large_files_are_taken_where_their_holes_cost_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut planted = Planted::default();
    let (large, half) = ((1 << 36) + 1, 1 << 21);
    planted.0.insert(1, directory(&[(b"holes", 2), (b"endless", 3), (b"half", 4)]));
    planted.0.insert(2, Inode::Huge(large));
    planted.0.insert(3, Inode::Huge(large::SIZE_MAX + 1));
    planted.0.insert(4, file(&vec![7; half]));
    let target = place.path().join("target");
    let report = extract(&planted, &target, &ExtractOptions::default(), &quiet).unwrap();
    assert_eq!((report.files, paths(&report.refused)), (2, vec!["endless".to_owned()]));
    let made = fs::metadata(target.join("holes")).unwrap();
    assert!(made.len() == large && made.blocks() == 0, "{made:?}");
    // Zeroes are written into an archive.
    let limits = MountLimits { large_bytes: half as u64 - 1, holes: Holes::Written, ..MountLimits::default() };
    let report = pack::pack(&planted, &mut std::io::sink(), &limits).unwrap();
    assert_eq!((report.files, paths(&report.refused)), (1, vec!["endless".to_owned(), "holes".to_owned()]));
    assert!(report.refused[1].reason.contains("of which 0 are data"), "{}", report.refused[1]);
}

/// Counts the walks over the runs of a file.
#[derive(Default)]
struct Walks(AtomicU64);

impl Hook for Walks {
    fn before(&self, call: &Call<'_>) -> nandkit_vfs::Result<()> {
        self.0.fetch_add(u64::from(call.method == Method::DataAfter), Relaxed);
        Ok(())
    }
}

/// A walk over the runs of a large file costs time in proportion to its size; one for each of its
/// names would be quadratic.
#[test]
fn a_large_file_is_looked_through_once_however_many_names_it_has() {
    let walks = |names: u8| {
        let all: Vec<_> = (0..names).map(|name| (vec![b'a' + name], 2)).collect();
        let entries: Vec<(&[u8], u64)> = all.iter().map(|(name, inode)| (name.as_slice(), *inode)).collect();
        let planted = Planted([(1, directory(&entries)), (2, file(&[7; 100]))].into());
        let counted = Wrapped::new(planted, Walks::default());
        let limits = MountLimits { large_bytes: 10, ..MountLimits::default() };
        let report = pack::pack(&counted, &mut std::io::sink(), &limits).unwrap();
        assert_eq!((report.files, report.hard_links, report.refused), (1, u64::from(names) - 1, Vec::new()));
        counted.hook().0.load(Relaxed)
    };
    // One for the scan, and two for the packing.
    assert!((1..=3).contains(&walks(1)), "{}", walks(1));
    assert_eq!(walks(20), walks(1));
}

#[test]
fn links_that_are_there_already_are_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (target, outside) = (place.path().join("target"), place.path().join("outside"));
    for path in [&target, &outside] {
        fs::create_dir(path).unwrap();
    }
    fs::write(outside.join("kept"), b"kept").unwrap();
    symlink(&outside, target.join("d")).unwrap();
    symlink(outside.join("kept"), target.join("f")).unwrap();
    fs::create_dir_all(target.join("full/inner")).unwrap();
    let node = |kind| SourceNode::new(kind, 0o700);
    let tree = MemoryTree::new([
        (b"d/new".to_vec(), node(FileKind::Regular), b"new".to_vec()),
        (b"f".to_vec(), node(FileKind::Regular), b"f".to_vec()),
        (b"full".to_vec(), node(FileKind::Regular), Vec::new()),
        (b"g/h".to_vec(), node(FileKind::Regular), Vec::new()),
    ])
    .unwrap();
    let error = extract_tree(&tree, &target, &ExtractOptions::default(), &quiet).unwrap_err();
    assert!(error.to_string().contains("expected an empty directory"), "{error}");
    let merge = ExtractOptions { merge: true, ..ExtractOptions::default() };
    for _ in 0..2 {
        let report = extract_tree(&tree, &target, &merge, &quiet).unwrap();
        assert_eq!(paths(&report.refused), ["d", "full"]);
        assert_eq!((report.files, report.directories), (2, 2));
        assert_eq!(listing(&target), ["d", "f", "full", "full/inner", "g", "g/h"]);
        assert_eq!(listing(&outside), ["kept"]);
        assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
        assert_eq!(fs::read(target.join("f")).unwrap(), b"f");
    }
    assert!(hostile().volume().is_ok());
}
