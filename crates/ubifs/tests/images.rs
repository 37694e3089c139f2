//! Images of mkfs.ubifs are read whole: every file, name, attribute and time. Judge: the tree of
//! which mkfs.ubifs of mtd-utils made them.

use std::path::Path;

use nandkit_testkit::judges::must_run;
use nandkit_testkit::listing::{Listing, assert_same, of_directory, of_volume};
use nandkit_testkit::trees::{plant_all_kinds, plant_all_sizes};
use nandkit_ubifs::layout::{HEADER_SIZE, INODE_ENCRYPTED, node_type};
use nandkit_ubifs::{LebBytes, Ubifs};
use nandkit_units::ReadInto;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, InodeNumber};

use crate::nodes::{is_of_type, mend, nodes};

/// Options of mkfs.ubifs, and bytes per LEB.
const SHAPES: [(&[&str], u32); 9] = [
    (&["-m", "2048", "-e", "126976", "-c", "200"], 126_976),
    (&["-m", "2048", "-e", "129024", "-c", "2000", "-x", "zlib"], 129_024),
    (&["-m", "512", "-e", "15360", "-c", "900", "-x", "zstd"], 15_360),
    (&["-m", "8", "-e", "65408", "-c", "300", "-x", "none"], 65_408),
    (&["-m", "1", "-e", "65408", "-c", "300", "-k", "test"], 65_408),
    (&["-m", "4096", "-e", "253952", "-c", "200", "-x", "favor_lzo", "-F"], 253_952),
    (&["-m", "2048", "-e", "126976", "-c", "200", "-f", "3", "-R", "1MiB"], 126_976),
    (&["-m", "2048", "-e", "126976", "-c", "12000", "-f", "256"], 126_976),
    (&["-m", "16384", "-e", "1015808", "-c", "60", "-j", "8MiB", "-p", "2", "-l", "6"], 1_015_808),
];

/// The image that mkfs.ubifs makes of a tree.
pub fn made(root: &Path, table: Option<&Path>, options: &[&str], leb_size: u32) -> LebBytes {
    let image = root.with_extension("ubifs");
    let (root, image) = (root.to_str().expect("a path"), image.to_str().expect("a path"));
    let table = table.map_or_else(Vec::new, |table| vec!["-D", table.to_str().expect("a path")]);
    let fixed = ["-r", root, "-o", image];
    must_run("mtd-utils", "mkfs.ubifs", options.iter().chain(&fixed).chain(&table));
    LebBytes { bytes: std::fs::read(image).expect("an image"), leb_size }
}

/// A listing without extended attributes, which Debian's mkfs.ubifs does not store.
fn without_attributes(listing: Listing) -> Listing {
    let bare = |text: String| match text.find(" user.").or(text.find(" system.")) {
        Some(at) => text.split_at(at).0.to_owned(),
        None => text,
    };
    listing.into_iter().map(|(path, text)| (path, bare(text))).collect()
}

#[test]
fn images_of_mkfs_ubifs_are_read_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let (kinds, sizes) = (directory.path().join("kinds"), directory.path().join("sizes"));
    let table = plant_all_kinds(&kinds, 150, 1, 1);
    plant_all_sizes(&sizes, &[0, 1, 4095, 4096, 4097, 100_000, 1_000_000], 300);
    for (options, leb_size) in SHAPES {
        for (root, table) in [(&kinds, Some(table.as_path())), (&sizes, None)] {
            let what = format!("{options:?} of {}", root.display());
            let image = made(root, table, options, leb_size);
            let volume = Ubifs::mount(Box::new(image)).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_same(&of_volume(&volume), &without_attributes(of_directory(root, table)), &what);
            assert_eq!(volume.damage(), [], "{what}");
            let report = volume.check().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
        }
    }
}

#[test]
fn other_bytes_are_refused() {
    let error = |image: LebBytes| Ubifs::mount(Box::new(image)).expect_err("no volume").to_string();
    let empty = LebBytes { bytes: vec![0xFF; 1 << 20], leb_size: 1 << 16 };
    assert!(error(empty).contains("LEB 0 + 0x0"));
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("tree");
    plant_all_sizes(&root, &[100], 3);
    let (options, leb_size) = SHAPES[0];
    let image = made(&root, None, options, leb_size);
    let other = LebBytes { leb_size: leb_size + 2048, ..image.clone() };
    assert!(error(other).contains("LEBs of 126976 bytes; the volume has LEBs of 129024"));
    let mut cut = image;
    for master in [1, 2] {
        cut.bytes[master * leb_size as usize..][..4].fill(0);
    }
    assert!(error(cut).contains("neither LEB 1 nor LEB 2"));
}

/// A volume of the geometry that comes first in [`SHAPES`], with some small files; each node of
/// this type was changed.
fn changed(node_type: u8, change: impl Fn(&mut [u8])) -> (tempfile::TempDir, LebBytes) {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("tree");
    plant_all_sizes(&root, &[100], 3);
    let (options, leb_size) = SHAPES[0];
    let mut image = made(&root, None, options, leb_size);
    for (at, length) in nodes(&image.bytes) {
        let node = &mut image.bytes[at..at + length];
        if is_of_type(node, node_type) {
            change(node);
            mend(node);
        }
    }
    (directory, image)
}

/// Bytes of an inode node in front of its flags.
const FLAGS_AT: usize = HEADER_SIZE + 16 + 5 * 8 + 7 * 4;

#[test]
fn encrypted_files_are_refused() {
    let encrypt = |node: &mut [u8]| node[FLAGS_AT] |= INODE_ENCRYPTED as u8;
    let (_directory, image) = changed(node_type::INODE, encrypt);
    let volume = Ubifs::mount(Box::new(image)).expect("a volume");
    let error = volume.lookup(volume.root(), b"sizes").expect_err("names are encrypted");
    assert_eq!(error.kind, ErrorKind::NotSupported, "{error}");
    let is_file = |inode: &InodeNumber| volume.stat(*inode).is_ok_and(|found| found.kind == FileKind::Regular);
    let file = (0..1000).map(InodeNumber).find(is_file).expect("a file");
    let error = volume.read(file, 0, ReadInto::Bytes(&mut [0; 100])).expect_err("content is encrypted");
    assert_eq!(error.kind, ErrorKind::NotSupported, "{error}");
    assert!(volume.check().expect("a check").is_clean());
}

#[test]
fn a_node_of_another_key_is_told() {
    // Data become those of another inode.
    let (_directory, image) = changed(node_type::DATA, |node| node[HEADER_SIZE] ^= 0x80);
    let volume = Ubifs::mount(Box::new(image)).expect("a volume");
    let report = volume.check().expect("a check");
    assert!(report.findings.iter().all(|finding| finding.kind == "damaged node"), "{:?}", report.findings);
    let part = "the index has it as block 0 of inode";
    assert!(report.findings.iter().any(|finding| finding.detail.contains(part)), "{:?}", report.findings);
}

#[test]
fn inodes_removed_while_open_are_harmless() {
    /// Bytes of an inode node in front of its number of names, and of its mode.
    const LINKS_AT: usize = FLAGS_AT - 16;
    const MODE_AT: usize = FLAGS_AT - 4;
    let (_directory, image) = changed(node_type::DENTRY, |_| ());
    let nodes = nodes(&image.bytes);
    let with_links = |links: u32| {
        let mut image = image.clone();
        // An inode that no name leads to: the target of each name is the root.
        for (at, length) in &nodes {
            let node = &mut image.bytes[*at..at + length];
            if is_of_type(node, node_type::INODE) && node[MODE_AT + 1] & 0xF0 == 0x80 {
                node[LINKS_AT..LINKS_AT + 4].copy_from_slice(&links.to_le_bytes());
            } else if is_of_type(node, node_type::DENTRY) && node[HEADER_SIZE + 25] == 0 {
                node[HEADER_SIZE + 16] = 1;
            } else {
                continue;
            }
            mend(node);
        }
        Ubifs::mount(Box::new(image)).expect("a volume").check().expect("a check").findings
    };
    let orphans = |links, is_harmless: bool| {
        let found = with_links(links);
        found.iter().filter(|finding| finding.kind == "orphan" && finding.is_harmless() == is_harmless).count()
    };
    assert_eq!((orphans(0, true) > 0, orphans(0, false)), (true, 0));
    assert_eq!((orphans(1, true), orphans(1, false) > 0), (0, true));
}

#[test]
fn data_of_an_inode_that_is_not_there_are_harmless_and_its_name_is_not() {
    // The index leads to no inode node any more: their keys are of no type.
    let (_directory, image) = changed(node_type::INDEX, |node| {
        for branch in node[HEADER_SIZE + 4..].chunks_exact_mut(20) {
            if branch[16..] == [0; 4] && branch[12..16] != [1, 0, 0, 0] {
                branch[19] = 0x80;
            }
        }
    });
    let report = Ubifs::mount(Box::new(image)).expect("a volume").check().expect("a check");
    let of_kind = |kind: &'static str| report.findings.iter().filter(move |finding| finding.kind == kind);
    assert!(of_kind("ownerless data").next().is_some() && of_kind("ownerless data").all(Finding::is_harmless));
    assert!(of_kind("dangling name").any(|finding| !finding.is_harmless()), "{:?}", report.findings);
}
