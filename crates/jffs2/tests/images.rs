//! Images of mkfs.jffs2 and sumtool (Debian package mtd-utils), read whole.

use std::fs;
use std::path::Path;

use crate::common::{mount, run};
use nandkit_jffs2::MountOptions;
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::mkfs::{BuildOptions, build};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::{listing, trees};
use nandkit_vfs::FileKind;
use nandkit_vfs::source::{MemoryTree, SourceNode};

/// Options of mkfs.jffs2, erase size, and, for NAND, page size and OOB size.
type Image = (&'static str, u32, Option<(u32, u32)>);

const IMAGES: &[Image] = &[
    ("-l -x lzo", 128 << 10, None),
    ("-b -x lzo", 128 << 10, None),
    ("-l -m none", 64 << 10, None),
    ("-b -m none -n", 64 << 10, Some((2048, 64))),
    ("-l -n -m size", 128 << 10, Some((2048, 64))),
    ("-l -n -X lzo", 16 << 10, Some((512, 16))),
    ("-b -x zlib -x lzo", 8 << 10, None),
    ("-l -x zlib -x rtime -X lzo -y 80:lzo", 8 << 10, None),
    ("-b -x rtime -s 2048", 256 << 10, None),
    ("-l -x zlib -s 16384", 1 << 20, None),
];

fn flash(bytes: &[u8], erase_size: u32, nand: Option<(u32, u32)>) -> RamFlash {
    // Four blank blocks after the image.
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(erase_size as usize) + 4 * erase_size as usize, 0xFF);
    match nand {
        None => RamFlash::nor(bytes, erase_size),
        Some((page, oob)) => RamFlash::nand(bytes, erase_size, page, oob),
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn images_of_mkfs_are_read_whole_by_scan_and_by_summaries() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    let table = trees::plant_all_kinds(&root, 120, 7, 1);
    let expected = listing::of_directory(&root, Some(&table));
    assert!(expected.values().filter(|text| text.contains("user.common")).count() > 5);
    for (options, erase_size, nand) in IMAGES {
        let image = scratch.path().join("image");
        let text = |path: &Path| path.to_str().unwrap().to_string();
        let erase = format!("{erase_size}");
        let (root, table, output) = (text(&root), text(&table), text(&image));
        let mut arguments = vec!["-r", &root, "-o", &output, "-e", &erase, "-D", &table, "--with-xattr", "-q"];
        arguments.extend(options.split_whitespace());
        run("mkfs.jffs2", &arguments);
        let summed = text(&scratch.path().join("summed"));
        let mut arguments = vec!["-i", &output, "-o", &summed, "-e", &erase];
        arguments.extend(options.split_whitespace().filter(|option| ["-l", "-b", "-n"].contains(option)));
        run("sumtool", &arguments);
        for (file, summaries) in [(&output, true), (&summed, true), (&summed, false)] {
            let bytes = read(Path::new(file));
            let options_of_mount = MountOptions { use_summaries: summaries, ..MountOptions::default() };
            let volume = mount(flash(&bytes, *erase_size, *nand), options_of_mount.clone()).unwrap();
            let context = format!("{options}, {file}, summaries: {summaries}");
            listing::assert_same(&listing::of_volume(&volume), &expected, &context);
            assert_eq!(volume.check(false).unwrap().findings, [], "{context}");
            assert_eq!(volume.catalogue().recount(), Ok(()));
            let parallel = MountOptions { parallel: true, ..options_of_mount };
            let again = mount(flash(&bytes, *erase_size, *nand), parallel).unwrap();
            assert_eq!(format!("{:?}", again.catalogue()), format!("{:?}", volume.catalogue()));
        }
    }
}

/// Our own images with summaries: a mount that uses the summaries finds the same as one that reads
/// everything.
#[test]
fn own_images_are_the_same_by_scan_and_by_summaries() {
    let entries = (0..300_u32).map(|number| {
        let content: Vec<u8> = (0..number * 97).map(|byte| ((byte * number) >> (number % 9)) as u8).collect();
        let node = if number % 30 == 29 {
            SourceNode::symlink(b"../there")
        } else {
            SourceNode::new(FileKind::Regular, 0o640)
        };
        let content = if node.kind == FileKind::Regular { content } else { Vec::new() };
        (format!("directory-{}/name-{number}", number % 7).into_bytes(), node, content)
    });
    let directories = (0..7).map(|number| {
        (format!("directory-{number}").into_bytes(), SourceNode::new(FileKind::Directory, 0o755), Vec::new())
    });
    let tree = MemoryTree::new(directories.chain(entries)).unwrap();
    for (order, erase_size, nand) in [
        (ByteOrder::Little, 128 << 10, None),
        (ByteOrder::Big, 8 << 10, None),
        (ByteOrder::Little, 16 << 10, Some((512, 16))),
    ] {
        let cleanmarker_size = if nand.is_some() { 0 } else { 12 };
        let options = BuildOptions { order, erase_size, cleanmarker_size, summaries: true, ..BuildOptions::default() };
        let mut bytes = Vec::new();
        let report = build(&tree, &options, &mut bytes, &|_| {}).unwrap();
        assert!(report.summary_blocks > 5);
        let volume = |use_summaries| {
            let flash = flash(&bytes, erase_size, nand);
            mount(flash, MountOptions { use_summaries, ..MountOptions::default() }).unwrap()
        };
        let (by_summaries, by_scan) = (volume(true), volume(false));
        let context = format!("{order:?}, {erase_size}");
        assert_eq!(by_summaries.node_count(), by_scan.node_count(), "{context}");
        let expected = listing::of_volume(&by_scan);
        assert_eq!(expected.len(), 307, "{context}");
        listing::assert_same(&listing::of_volume(&by_summaries), &expected, &context);
        assert_eq!(by_summaries.catalogue().recount(), Ok(()));
        assert_eq!(by_summaries.check(false).unwrap().findings, [], "{context}");
    }
}

#[test]
fn a_blank_device_is_an_empty_volume_and_another_format_is_none() {
    let blank = mount(RamFlash::nand(vec![0xFF; 1 << 20], 16 << 10, 512, 16), MountOptions::default()).unwrap();
    assert!(listing::of_volume(&blank).is_empty());
    let other = mount(RamFlash::nor(vec![0x55; 1 << 20], 64 << 10), MountOptions::default());
    assert_eq!(other.unwrap_err().kind, nandkit_vfs::ErrorKind::Corrupt);
    let none = MountOptions { cleanmarker: Some(Cleanmarker::None), ..MountOptions::default() };
    assert!(mount(RamFlash::nor(vec![0xFF; 1 << 20], 64 << 10), none).is_ok());
}
