//! Mounted file systems out into directories, with getfattr and stat as judges.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_tree::compare::{all, compare, compare_with};
use nandkit_tree::extract::{extract, extract_tree};
use nandkit_tree::{DirectoryOptions, ExtractOptions, HostDirectory, Progress};
use nandkit_vfs::source::{MemoryTree, SourceNode};
use nandkit_vfs::{FileKind, Timestamp};

use crate::common::{is_root, mounted, quiet, run, sample, sample_of_root, user};

#[test]
fn what_comes_out_is_what_was_in() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("out");
    let sample = sample();
    let fs = mounted(&sample);
    assert_eq!(compare_with(&sample, &fs), []);
    let (names, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |progress: Progress| {
        names.fetch_max(progress.names, Ordering::Relaxed);
        bytes.fetch_max(progress.bytes, Ordering::Relaxed);
        assert_eq!((progress.names_total, progress.bytes_total), (16, 1_805_014));
    };
    let report = extract(&fs, &target, &ExtractOptions::default(), &progress).unwrap();
    assert_eq!((report.skipped, report.refused, report.damaged), (vec![], vec![], vec![]));
    let counts = (report.files, report.directories, report.symlinks, report.hard_links, report.specials);
    assert_eq!((counts, report.bytes, report.owners), ((7, 5, 1, 2, 1), 1_805_014, is_root()));
    assert_eq!((names.into_inner(), bytes.into_inner()), (16, 1_805_014));
    let out = HostDirectory::open(&target, &DirectoryOptions::default()).unwrap();
    assert_eq!(compare(&out, &sample, &all()), []);
    // Judges: what other programs see.
    let tag = run(Command::new("getfattr").args(["-d", "-e", "hex", "--absolute-names"]).arg(target.join("b/tagged")));
    assert!(tag.contains("user.tag=0x6c696e650a7769746800616c6c20ff\nuser.zero"), "{tag}");
    let stat = run(Command::new("stat").args(["-c", "%a %.9Y %F"]).arg(target.join("b")).arg(target.join("a.b")));
    assert_eq!(stat, "555 1700000000.123456789 directory\n4755 1700000000.123456789 regular file\n");
    let sparse = fs::metadata(target.join("b/sparse")).unwrap();
    assert!(sparse.blocks() * 512 < 20_000, "{} blocks of a file that is all holes", sparse.blocks());
}

/// Root extracts everything. Others extract all but what only root may, and every omission is
/// reported.
#[test]
fn what_only_root_may_is_done_or_reported() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("out");
    let sample = sample_of_root();
    let report = extract(&mounted(&sample), &target, &ExtractOptions::default(), &quiet).unwrap();
    let out = HostDirectory::open(&target, &DirectoryOptions::default()).unwrap();
    if is_root() {
        assert_eq!((report.skipped, report.refused, report.damaged), (vec![], vec![], vec![]));
        assert_eq!(compare(&out, &sample, &all()), []);
    } else {
        let skipped: Vec<String> = report.skipped.iter().map(ToString::to_string).collect();
        let expected = [
            "/capable: extended attribute security.capability",
            "/dev/mtd0: making",
            "/dev/ubi: making",
            "/owned: mode",
        ];
        assert_eq!(skipped.len(), expected.len(), "{skipped:?}");
        assert!(skipped.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{skipped:?}");
    }
    // Root without a request for owners, so that nothing becomes set-user-id for the wrong user.
    let options = ExtractOptions { owners: Some(false), xattrs: false, ..ExtractOptions::default() };
    let plain = place.path().join("plain");
    let report = extract(&mounted(&sample), &plain, &options, &quiet).unwrap();
    assert!(report.skipped.iter().any(|note| note.path == b"owned" && note.reason.contains("0755")));
    let owned = fs::metadata(plain.join("owned")).unwrap();
    assert_eq!((owned.mode() & 0o7777, owned.uid()), (0o755, user().0));
    assert_eq!(fs::metadata(plain.join("a.b")).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn a_comparison_names_each_difference() {
    let file = |content: &[u8]| (SourceNode::new(FileKind::Regular, 0o644), content.to_vec());
    type Items = Vec<(&'static str, (SourceNode, Vec<u8>))>;
    /// A change of the second tree, a link added to it, and the expected differences.
    type Case = (fn(&mut Items), Option<(&'static str, &'static str)>, &'static [&'static str]);
    let build = |items: Items, link: Option<(&str, &str)>| {
        let mut builder = MemoryTree::builder();
        for (path, (node, content)) in items {
            builder.put(path.as_bytes(), node, Some(content)).unwrap();
        }
        if let Some((path, existing)) = link {
            builder.link(path.as_bytes(), existing.as_bytes()).unwrap();
        }
        MemoryTree::from_builder(builder)
    };
    let base = || vec![("a", file(b"abc")), ("b", file(b"abd")), ("d/l", (SourceNode::symlink(b"x"), vec![]))];
    let cases: [Case; 10] = [
        (|items| items[0].1.1[1] = b'x', None, &["/a: byte 1 is 0x62, 0x78"]),
        (|items| items[0].1.1.push(1), None, &["/a: size 3, 4"]),
        (|items| items[0].1.0.mode = 0o600, None, &["/a: mode 0644, 0600"]),
        (|items| items[0].1.0.uid = 7, None, &["/a: owner 0:0, 7:0"]),
        (|items| items[2].1.0.modified = Timestamp(1), None, &["/d/l: modified 0 ns, 1 ns"]),
        (|items| items[2].1.0.target = b"y".to_vec(), None, &["/d/l: target \"x\", \"y\""]),
        (|items| items[1].0 = "c", None, &["/b: only in the first", "/c: only in the second"]),
        (|items| items[2].1.0.kind = FileKind::Fifo, None, &["/d/l: kind symbolic link, named pipe"]),
        (
            |items| items[0].1.0.xattrs.push((b"user.k".to_vec(), b"v".to_vec())),
            None,
            &["/a: attribute user.k: missing, \"v\""],
        ),
        (
            |items| items[1].1.1 = b"abc".to_vec(),
            Some(("b", "a")),
            &["/a: links 1, 2", "/b: same inode as none, /a", "/b: links 1, 2", "/b: byte 2 is 0x64, 0x63"],
        ),
    ];
    for (change, link, expected) in cases {
        let mut items = base();
        change(&mut items);
        let found = compare(&build(base(), None), &build(items, link), &all());
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_target_that_cannot_be_used_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), b"").unwrap();
    let cases = [("", "expected an empty directory"), ("file", "opening the target"), ("no/such", "making the target")];
    for (target, expected) in cases {
        let error =
            extract_tree(&sample(), &place.path().join(target), &ExtractOptions::default(), &quiet).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
