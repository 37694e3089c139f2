//! Nodes that are on the flash twice: the collector's copy, and the original in a block whose erase
//! was interrupted. The original may be readable at the mount and unreadable later, so the copy
//! must be used, or it would be erased.

use crate::promise::formatted;
use nandkit_jffs2::testing::Owner;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::StrictFlash;
use nandkit_units::{BlockIndex, FlashGeometry, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, FileSystem, NewNode};

const BLOCKS: u32 = 24;
/// Number of files: their nodes are so small and so many that some of them lie between the bytes
/// that the device reads wrong.
const FILES: u8 = 200;

fn options(summaries: bool) -> MountOptions {
    let write = WriteOptions { compression: CompressionMode::None, summaries, ..WriteOptions::default() };
    MountOptions { write, ..MountOptions::default() }
}

fn content(number: u8) -> Vec<u8> {
    vec![number + 1; 1 + usize::from(number % 3) * 4]
}

fn name(number: u8) -> String {
    format!("{number}")
}

/// A volume with files in small nodes.
fn volume(summaries: bool) -> StrictFlash {
    let mut fs = formatted(FlashGeometry::nand(512, 16, 16, BLOCKS), &options(summaries));
    let root = fs.root();
    for number in 0..FILES {
        let file = fs.create(root, name(number).as_bytes(), &NewNode::FILE).unwrap();
        fs.write(file, 0, Payload::Bytes(&content(number))).unwrap();
    }
    // Nodes without data: directories, empty files, a changed mode.
    for number in 0..FILES / 4 {
        let directory = fs.create(root, format!("d{number}").as_bytes(), &NewNode::DIRECTORY).unwrap();
        let empty = fs.create(directory, b"empty", &NewNode::FILE).unwrap();
        let mode = Some(0o600 + u16::from(number));
        fs.set_attributes(empty, &AttributeChange { mode, ..Default::default() }).unwrap();
    }
    fs.sync(None).unwrap();
    fs.into_flash()
}

fn assert_whole(fs: &Jffs2<StrictFlash>, what: &str) {
    for number in 0..FILES {
        let file = fs.lookup(fs.root(), name(number).as_bytes());
        let file = file.unwrap_or_else(|error| panic!("{what}: {}: {error}", name(number)));
        let expected = content(number);
        let mut found = vec![0; expected.len() + 1];
        let length = fs.read(file, 0, ReadInto::Bytes(&mut found));
        let length = length.unwrap_or_else(|error| panic!("{what}: {}: {error}", name(number)));
        assert_eq!(length, expected.len(), "{what}: {}", name(number));
        found.truncate(expected.len());
        assert!(found == expected, "{what}: {}", name(number));
    }
    for number in 0..FILES / 4 {
        let directory = fs.lookup(fs.root(), format!("d{number}").as_bytes()).unwrap();
        let empty = fs.stat(fs.lookup(directory, b"empty").unwrap()).unwrap();
        assert_eq!((empty.mode, empty.size), (0o600 + u16::from(number), 0), "{what}: d{number}/empty");
    }
}

/// The original of a whole block is before its copy or after it.
#[test]
fn an_original_that_reads_otherwise_next_time_does_not_hide_its_copy() {
    for summaries in [false, true] {
        let flash = volume(summaries);
        let used: Vec<u32> = (0..BLOCKS).filter(|block| flash.is_written(BlockIndex(*block))).collect();
        let free = (0..BLOCKS).find(|block| !used.contains(block)).unwrap();
        assert!(used.len() >= 2 && free < used[0], "{used:?}");
        for original in used {
            for (copy, decayed) in [(original, free), (free, original)] {
                let what = format!("summaries {summaries}, {original} is copied from {decayed} to {copy}");
                let mut flash = flash.clone();
                flash.put_copy(BlockIndex(original), BlockIndex(free));
                flash.decay(BlockIndex(decayed));
                let mut fs = Jffs2::mount(flash, clock(), options(summaries)).unwrap();
                assert_whole(&fs, &what);
                // No node in the block is used: the block is erased whenever space is needed.
                fs.account().unwrap();
                let nodes = &fs.catalogue().blocks[decayed as usize].nodes;
                let counts = nodes.iter().filter(|node| node.owner() != Owner::None && !node.is_obsolete()).count();
                assert_eq!(counts, 0, "{what}");
            }
        }
    }
}
