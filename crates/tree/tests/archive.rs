//! Tar archives in and out, with GNU tar as the judge.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use nandkit_tree::compare::{TreeDifference, all, compare};
use nandkit_tree::extract::extract_tree;
use nandkit_tree::{ArchiveOptions, DirectoryOptions, ExtractOptions, HostDirectory, MountLimits, TarArchive, pack};
use nandkit_vfs::path::CompareOptions;
use nandkit_vfs::source::{MemoryTree, SourceNode, SourceTree, path};
use nandkit_vfs::{FileKind, Timestamp};

use crate::common::{content, is_root, mounted, quiet, run, sample, sample_of_root, tar};

fn open(path: &Path) -> nandkit_tree::Result<TarArchive> {
    TarArchive::open(path, &ArchiveOptions::default())
}

/// The sample on the host, from which GNU tar makes archives.
fn on_host(place: &Path) -> HostDirectory {
    let target = place.join("tree");
    let tree = if is_root() { sample_of_root() } else { sample() };
    let report = extract_tree(&tree, &target, &ExtractOptions::default(), &quiet).unwrap();
    assert_eq!((report.refused, report.damaged), (Vec::new(), Vec::new()));
    HostDirectory::open(&target, &DirectoryOptions::default()).unwrap()
}

#[test]
fn archives_of_gnu_tar_are_the_directory_that_they_were_made_of() {
    let place = tempfile::tempdir().unwrap();
    let directory = on_host(place.path());
    let whole_seconds = CompareOptions { modified_slack_ns: Some(999_999_999), xattrs: false, ..all() };
    let cases = [
        (&["--format=posix", "--xattrs", "--xattrs-include=*"][..], "", all()),
        (&["--format=posix", "--xattrs", "--xattrs-include=*", "--sparse"], "", all()),
        (&["--format=posix", "--xattrs", "--xattrs-include=*", "--sparse", "--sparse-version=0.0"], "", all()),
        (&["--format=posix", "--xattrs", "--xattrs-include=*", "--sparse", "--sparse-version=0.1"], "gzip", all()),
        (&["--format=gnu", "--sparse"], "zstd", whole_seconds),
        (&["--format=gnu"], "xz", whole_seconds),
    ];
    for (arguments, compressor, options) in cases {
        let archive = place.path().join("archive");
        run(tar().arg("cf").arg(&archive).args(arguments).arg("-C").arg(place.path().join("tree")).arg("."));
        if !compressor.is_empty() {
            run(Command::new(compressor).arg("-f").arg("-q").arg(&archive));
            let suffix = match compressor {
                "gzip" => "gz",
                "zstd" => "zst",
                other => other,
            };
            fs::rename(place.path().join(format!("archive.{suffix}")), &archive).unwrap();
        }
        let tree = open(&archive).unwrap();
        assert_eq!(compare(&tree, &directory, &options), [], "{arguments:?} {compressor}");
        // Through a pipe as well.
        let piped = TarArchive::read(fs::File::open(&archive).unwrap(), &ArchiveOptions::default()).unwrap();
        assert_eq!(compare(&piped, &tree, &all()), []);
    }
}

#[test]
fn what_is_packed_is_what_gnu_tar_takes_out() {
    let place = tempfile::tempdir().unwrap();
    let sample = if is_root() { sample_of_root() } else { sample() };
    let mut out = Vec::new();
    let report = pack::pack(&mounted(&sample), &mut out, &MountLimits::default()).unwrap();
    assert_eq!((report.skipped, report.refused, report.damaged), (Vec::new(), Vec::new(), Vec::new()));
    let archive = place.path().join("out.tar");
    fs::write(&archive, &out).unwrap();
    assert_eq!(compare(&open(&archive).unwrap(), &sample, &all()), []);
    let target = place.path().join("out");
    fs::create_dir(&target).unwrap();
    let arguments =
        ["--same-permissions", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--delay-directory-restore"];
    run(tar().arg("xf").arg(&archive).args(arguments).arg("-C").arg(&target));
    let taken = HostDirectory::open(&target, &DirectoryOptions::default()).unwrap();
    assert_eq!(compare(&taken, &sample, &all()), []);
    let mut again = Vec::new();
    pack::pack_tree(&sample, &mut again, &pack::PackOptions::default()).unwrap();
    assert!(out == again, "the same tree is the same archive");
}

/// GNU tar and Python's tarfile read archives packed with holes. Both judge content and size, GNU
/// tar the holes too.
#[test]
fn holes_are_packed_as_gnu_tar_packs_them() {
    let place = tempfile::tempdir().unwrap();
    let (from, target) = (place.path().join("from"), place.path().join("out"));
    let deep = from.join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(&target).unwrap();
    let runs: [(&str, &[u64], u64); 6] = [
        ("begins with a hole", &[64], 65),
        ("ends with a hole", &[0], 900),
        ("is a hole", &[], 3000),
        ("has many", &[1, 3, 5, 7, 200, 201, 202, 600], 1000),
        ("has none", &[0, 1, 2], 3),
        ("is empty", &[], 0),
    ];
    for (name, units, size) in runs {
        for path in [from.join(name), deep.join(name)] {
            let file = fs::File::create(path).unwrap();
            file.set_len(size * 16384 + size.min(1) * 77).unwrap();
            for unit in units {
                file.write_all_at(&vec![*unit as u8 + 1; 16384], unit * 16384).unwrap();
            }
        }
    }
    let source = HostDirectory::open(&from, &DirectoryOptions::default()).unwrap();
    let mut out = Vec::new();
    let report = pack::pack_tree(&source, &mut out, &pack::PackOptions::default()).unwrap();
    assert_eq!((report.files, report.skipped, report.damaged), (12, Vec::new(), Vec::new()));
    assert!(out.len() < 700_000, "{} bytes", out.len());
    let archive = place.path().join("archive");
    fs::write(&archive, &out).unwrap();
    assert_eq!(compare(&open(&archive).unwrap(), &source, &all()), []);
    run(tar().arg("xf").arg(&archive).arg("-C").arg(&target));
    let taken = HostDirectory::open(&target, &DirectoryOptions::default()).unwrap();
    assert_eq!(compare(&taken, &source, &all()), []);
    assert_eq!(fs::metadata(target.join("is a hole")).unwrap().blocks(), 0);
    let script = "import sys, tarfile
for member in tarfile.open(sys.argv[1]):
    if member.isfile():
        content = tarfile.open(sys.argv[1]).extractfile(member).read()
        assert content == open(sys.argv[2] + '/' + member.name, 'rb').read(), member.name
        print(member.name)";
    let told = run(Command::new("python3").arg("-c").arg(script).arg(&archive).arg(&from));
    assert_eq!(told.lines().count(), 12, "{told}");
}

/// One entry with a ustar header.
fn entry(kind: u8, name: &[u8], link: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::new(kind));
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_mode(0o644);
    header.set_uid(1);
    header.set_gid(2);
    header.set_mtime(3);
    header.set_size(data.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn read(entries: &[Vec<u8>]) -> nandkit_tree::Result<TarArchive> {
    TarArchive::read(entries.concat().as_slice(), &ArchiveOptions::default())
}

#[test]
fn the_later_entry_wins_and_missing_directories_are_made() {
    let tree = read(&[
        entry(b'0', b"/usr/bin/x", b"", b"old"),
        entry(b'0', b"usr/bin/y", b"", b"y"),
        entry(b'x', b"", b"", b"20 atime=1234567.25\n14 mtime=-1.5\n"),
        entry(b'0', b"./usr/bin/x", b"", b"newer"),
        entry(b'1', b"z", b"usr/bin/x", b""),
        entry(0, b"olddir/", b"", b""),
        entry(b'L', b"", b"", b"a/name/from/a/long/header\0"),
        entry(b'0', b"cut", b"", b"long"),
    ])
    .unwrap();
    let names: Vec<String> =
        (0..tree.nodes().len()).map(|node| String::from_utf8(path(tree.nodes(), node)).unwrap()).collect();
    let expected = [
        "",
        "a",
        "a/name",
        "a/name/from",
        "a/name/from/a",
        "a/name/from/a/long",
        "a/name/from/a/long/header",
        "olddir",
        "usr",
        "usr/bin",
        "usr/bin/x",
        "usr/bin/y",
        "z",
    ];
    assert_eq!(names, expected);
    let node = &tree.nodes()[10];
    assert_eq!((node.modified, node.accessed), (Timestamp(-1_500_000_000), Timestamp(1_234_567_250_000_000)));
    assert_eq!((content(&tree, 10), content(&tree, 12)), (b"newer".to_vec(), b"newer".to_vec()));
    assert_eq!((node.uid, node.gid, tree.nodes()[8].mode, tree.nodes()[7].kind), (1, 2, 0o755, FileKind::Directory));
}

#[test]
fn what_holds_for_all_entries_holds_until_one_says_otherwise() {
    let tree = read(&[
        entry(b'g', b"", b"", b"22 SCHILY.xattr.a=all\n11 uid=123\n"),
        entry(b'x', b"", b"", b"22 SCHILY.xattr.a=own\n"),
        entry(b'0', b"one", b"", b""),
        entry(b'0', b"two", b"", b""),
    ])
    .unwrap();
    let found: Vec<_> = tree.nodes()[1..].iter().map(|node| (node.uid, node.xattrs.clone())).collect();
    let with = |value: &[u8]| (123, vec![(b"a".to_vec(), value.to_vec())]);
    assert_eq!(found, [with(b"own"), with(b"all")]);
}

#[test]
fn what_no_tree_can_be_made_of_is_named() {
    let mut torn = entry(b'0', b"torn", b"", b"data");
    torn[0] = b'T';
    let sparse = |map: &[u8]| {
        let records = b"22 GNU.sparse.major=1\n25 GNU.sparse.realsize=9\n";
        vec![entry(b'x', b"", b"", records), entry(b'0', b"s", b"", map)]
    };
    let many: Vec<u8> =
        (0..=1 << 16).flat_map(|number| format!("27 SCHILY.xattr.a.{number:07}=\n").into_bytes()).collect();
    let large = [&b"5019 SCHILY.xattr.a="[..], &[b'v'; 4998], b"\n"].concat();
    let cases: [(Vec<Vec<u8>>, &str); 17] = [
        (vec![entry(b'x', b"", b"", &many)], "at most 65536 extended attributes"),
        (vec![entry(b'g', b"", b"", &large)], "for all entries"),
        (vec![entry(b'0', b"../up", b"", b"")], "\"..\""),
        (vec![entry(b'1', b"l", b"../../etc/passwd", b"")], "\"..\""),
        (vec![entry(b'1', b"l", b"nowhere", b"")], "does not exist"),
        (vec![entry(b'2', b"d", b"/etc", b""), entry(b'0', b"d/passwd", b"", b"")], "no directory"),
        (vec![torn], "checksum"),
        (vec![entry(b'0', b"cut", b"", &[1; 600])[..700].to_vec()], "archive's end"),
        (vec![entry(b'0', b"cut", b"", &[1; 600])[..1300].to_vec()], "the archive ends at 1300 in the padding"),
        (vec![entry(b'0', b"cut", b"", b"")[..400].to_vec()], "less than the 512 bytes"),
        (vec![b"BZh91AY&SY".to_vec()], "bzip2"),
        (vec![b"PK\x03\x04".repeat(200)], "found a zip archive"),
        (vec![vec![b'x'; 2000]], "entry \"\" at byte 0: expected a tar archive, found bytes that are no header"),
        (vec![entry(b'x', b"", b"", b"5 a=b")], "records"),
        (vec![entry(b'Q', b"q", b"", b"")], "type"),
        (sparse(b"1\n0\n99\n"), "map of a sparse file"),
        (sparse(&[&b"1\n5\n9\n"[..], &[0; 600]].concat()), "in order within"),
    ];
    for (entries, expected) in cases {
        let error = read(&entries).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let bomb = zstd::encode_all(&vec![0; 1 << 20][..], 1).unwrap();
    let error = TarArchive::read(bomb.as_slice(), &ArchiveOptions { bytes_max: 1 << 19, ..ArchiveOptions::default() })
        .unwrap_err()
        .to_string();
    assert!(error.contains("at most 524288 bytes"), "{error}");
}

#[test]
fn an_entry_in_place_of_a_full_directory_is_refused_as_gnu_tar_refuses_it() {
    let place = tempfile::tempdir().unwrap();
    let (first, archive, out) = (place.path().join("1"), place.path().join("archive"), place.path().join("out"));
    fs::create_dir_all(first.join("d")).unwrap();
    fs::create_dir(first.join("e")).unwrap();
    fs::write(first.join("d/precious"), "content").unwrap();
    for (number, name, refused) in [(2, "d", true), (3, "e", false)] {
        let other = place.path().join(number.to_string());
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink("/tmp", other.join(name)).unwrap();
        run(tar().arg("cf").arg(&archive).arg("-C").arg(&first).arg("d").arg("e"));
        run(tar().arg("rf").arg(&archive).arg("-C").arg(&other).arg(name));
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        let judged = tar().arg("xf").arg(&archive).arg("-C").arg(&out).output().unwrap();
        assert_eq!(judged.status.success(), !refused, "{}", String::from_utf8_lossy(&judged.stderr));
        match open(&archive) {
            Ok(tree) => {
                assert!(!refused);
                let taken = HostDirectory::open(&out, &DirectoryOptions::default()).unwrap();
                let whole = CompareOptions { modified_slack_ns: Some(999_999_999), xattrs: false, ..all() };
                // The root is the target, whose attributes do not come from an archive.
                let below = |difference: &TreeDifference| !matches!(difference, TreeDifference::One(found) if found.path.is_empty());
                assert!(!compare(&tree, &taken, &whole).iter().any(below));
            }
            Err(error) => {
                assert!(refused, "{error}");
                assert!(error.to_string().contains("a directory that is not empty"), "{error}");
            }
        }
    }
}

#[test]
fn no_bytes_are_no_archive() {
    let place = tempfile::tempdir().unwrap();
    let empty = place.path().join("empty");
    fs::write(&empty, "").unwrap();
    let piped = TarArchive::read(std::io::empty(), &ArchiveOptions::default());
    for refused in [open(&empty), piped] {
        assert!(refused.unwrap_err().to_string().contains("found no bytes at all"));
    }
    fs::write(&empty, [0; 1024]).unwrap();
    assert_eq!(open(&empty).unwrap().nodes().len(), 1);
}

#[test]
fn an_archive_has_no_attributes_and_no_links_outwards_where_none_are_wanted() {
    let mut builder = MemoryTree::builder();
    let xattrs = vec![(b"user.x".to_vec(), b"y".to_vec())];
    builder
        .put(b"d/file", SourceNode { xattrs, ..SourceNode::new(FileKind::Regular, 0o644) }, Some(b"content".to_vec()))
        .unwrap();
    for (name, target) in [(&b"d/in"[..], &b"../d/file"[..]), (b"d/up", b"../../x"), (b"d/absolute", b"/etc/passwd")] {
        let node = SourceNode { target: target.to_vec(), ..SourceNode::new(FileKind::Symlink, 0o777) };
        builder.put(name, node, None).unwrap();
    }
    builder.link(b"d/again", b"d/up").unwrap();
    let tree = MemoryTree::from_builder(builder);
    let mut out = Vec::new();
    let options = pack::PackOptions { xattrs: false, inward_links_only: true, ..Default::default() };
    let report = pack::pack_tree(&tree, &mut out, &options).unwrap();
    let refused: Vec<String> = report.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().any(|note| note.contains("d/absolute") && note.contains("/etc/passwd")), "{refused:?}");
    assert!(refused.iter().any(|note| note.contains("d/up") && note.contains("first name")), "{refused:?}");
    assert_eq!((report.files, report.symlinks, report.hard_links), (1, 1, 0));
    let read = TarArchive::read(out.as_slice(), &ArchiveOptions::default()).unwrap();
    assert!(read.nodes().iter().all(|node| node.xattrs.is_empty() && !node.target.starts_with(b"/")));
    assert_eq!(read.nodes().len(), 4);
}
