//! Names on full volumes: an operation without room changes nothing, and nothing is lost.

use std::collections::BTreeMap;

use crate::made::clock;
use crate::writing::image::{Image, MIB, file, folder, names};
use crate::writing::oracle::{BLOCK, device_of, empty_image};
use crate::writing::{findings, mount, unmount};
use nandkit_block::FileDevice;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::write::{Making, PageLimits};
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{
    AttributeChange, Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, RenameFlags, XattrChanges,
    Xattrs,
};

/// Leaves this many blocks free.
fn leave(volume: &mut WritableVolume<FileDevice>, blocks: u64) {
    let space = &mut volume.segments_mut().space;
    space.reserved_blocks = space.user_blocks - space.valid_blocks - blocks;
}

/// Everything visible in a tree of one level.
fn picture(volume: &WritableVolume<FileDevice>) -> String {
    let mut text = String::new();
    let root = volume.root();
    let all = names(volume, root);
    for (name, inode) in &all {
        let stat = volume.stat(*inode).unwrap();
        let inside =
            if stat.kind == FileKind::Directory { format!("{:?}", names(volume, *inode)) } else { String::new() };
        let attributes = volume.all_xattrs(*inode).unwrap();
        let attributes: BTreeMap<_, _> =
            attributes.into_iter().map(|(name, value)| (name, value.unwrap().len())).collect();
        let name = String::from_utf8_lossy(name);
        text += &format!("{name} {} {} {:?} {inside} {attributes:?}\n", inode.0, stat.links, stat.kind);
    }
    text + &format!("{}", volume.stat(root).unwrap().links)
}

fn step(volume: &mut WritableVolume<FileDevice>, random: &mut Random, number: u64) -> nandkit_vfs::Result<()> {
    let root = volume.root();
    let all: Vec<(Vec<u8>, InodeNumber)> = names(volume, root).into_iter().collect();
    let folders: Vec<InodeNumber> = all
        .iter()
        .filter(|(_, inode)| volume.stat(*inode).unwrap().kind == FileKind::Directory)
        .map(|(_, inode)| *inode)
        .chain([root])
        .collect();
    let directory = folders[random.below(folders.len() as u64) as usize];
    let name = format!("{number}{}", "n".repeat(random.below(200) as usize)).into_bytes();
    let some = all.get(random.below(all.len() as u64 + 1) as usize).cloned();
    let long = vec![b'l'; 4000];
    match (random.below(7), some) {
        (0, _) => volume.create(directory, &name, &NewNode::FILE).map(|_| ()),
        (1, _) => volume.create(root, &name, &NewNode::DIRECTORY).map(|_| ()),
        (2, _) => {
            let node = NewNode { kind: FileKind::Symlink, target: &long, ..NewNode::FILE };
            volume.create(directory, &name, &node).map(|_| ())
        }
        (3, Some((_, inode))) => volume.link(inode, directory, &name),
        (4 | 5, Some((old, _))) => volume.rename((root, &old), (directory, &name), RenameFlags::Replace),
        (6, Some((_, inode))) => volume.set_xattr(inode, b"user.long", &long[..random.below(4000) as usize]),
        _ => Ok(()),
    }
}

#[test]
fn what_finds_no_room_changes_nothing() {
    for (seed, making) in [
        (1, Making::default()),
        (2, Making { directory_level: 1, ..Making::default() }),
        (3, Making { inline_data: false, inline_entries: false, xattr_words: 0, directory_level: 0 }),
    ] {
        let image = Image::new(64 * MIB, "");
        let options = WriteOptions { making, ..WriteOptions::default() };
        let mut volume = mount(image.path(), options);
        let mut random = Random::new(seed, "full");
        let (mut refused, mut done) = (0, 0);
        for number in 0..3000 {
            leave(&mut volume, random.below(3));
            let (before, counts) = (picture(&volume), volume.segments().space);
            match step(&mut volume, &mut random, number) {
                Ok(()) => done += 1,
                Err(error) if error.kind == ErrorKind::NoSpace => {
                    refused += 1;
                    assert_eq!(picture(&volume), before, "{error}");
                    let after = volume.segments().space;
                    // Entries may have left an inode, which costs at most one block.
                    assert!(after.valid_blocks <= counts.valid_blocks + 2, "{error}");
                    assert_eq!(after.valid_inodes, counts.valid_inodes);
                }
                // A link to a directory, a directory into itself.
                Err(error) => assert!([ErrorKind::IsADirectory, ErrorKind::InvalidArgument].contains(&error.kind)),
            }
            if number % 1000 == 999 {
                let before = picture(&volume);
                volume.segments_mut().space.reserved_blocks = 0;
                drop(image.remount(volume, "full"));
                volume = mount(image.path(), options);
                assert_eq!(picture(&volume), before);
            }
        }
        assert!(refused > 100 && done > 100, "{refused} refused, {done} done");
    }
}

/// One write-back needs more blocks than there are gaps: the blocks that it frees become gaps only
/// with the next checkpoint, whose nodes need a section too.
#[test]
fn a_write_back_leaves_room_for_the_nodes_of_its_checkpoint() {
    for dirty in [1000, 2000, 3000, 4000, 5000, 6000] {
        let limits = PageLimits { dirty, ..PageLimits::default() };
        let options = WriteOptions { ipu_policy: Some(0), pages: limits, ..WriteOptions::default() };
        let mut volume = WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), options).unwrap();
        let file = volume.create(volume.root(), b"file", &NewNode::FILE).unwrap();
        let pages = volume.segments().space.free_blocks() * 9 / 10;
        let mut random = Random::new(1, "overwrites");
        let order = (0..pages).chain((0..4 * pages).map(|_| random.below(pages)));
        for (number, at) in order.enumerate() {
            let bytes = [number as u8; BLOCK];
            let written = Changes::write(&mut volume, file, at * BLOCK as u64, Payload::Bytes(&bytes));
            assert_eq!(written.unwrap_or_else(|error| panic!("{dirty}, write {number}: {error}")), BLOCK);
        }
        assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{dirty}");
    }
}

/// Names come, go and move on a volume where a section must be collected every few megabytes;
/// directories are among the moved blocks.
#[test]
fn names_while_sections_are_collected() {
    let image = Image::new(64 * MIB, "extra_attr,inode_checksum");
    // Otherwise gaps are filled, and files overwritten in place.
    let options = WriteOptions { lfs: true, ..WriteOptions::default() };
    let mut volume = mount(image.path(), options);
    let root = volume.root();
    let ballast = volume.create(root, b"ballast", &NewNode::FILE).unwrap();
    let (piece, mut at) = (vec![7; 1 << 16], 0);
    while volume.segments().space.free_blocks() > 1700 {
        at += Changes::write(&mut volume, ballast, at, Payload::Bytes(&piece)).unwrap() as u64;
    }
    let mut random = Random::new(5, "collected");
    let folders: Vec<InodeNumber> = (0..4)
        .map(|number| volume.create(root, format!("d{number}").as_bytes(), &NewNode::DIRECTORY).unwrap())
        .collect();
    let mut model: BTreeMap<(usize, Vec<u8>), InodeNumber> = BTreeMap::new();
    let mut collected = 0;
    for round in 0..12 {
        for step in 0..1200 {
            if step % 100 == 0 {
                // Among dirty data; the section becomes free with the next checkpoint.
                collected += u32::from(volume.collect_one(Collection::Foreground).unwrap().is_some());
            }
            let place = |random: &mut Random| {
                let number = random.below(120);
                (random.below(4) as usize, format!("{number}{}", "c".repeat(number as usize % 120)).into_bytes())
            };
            let (one, other) = (place(&mut random), place(&mut random));
            match (model.get(&one).copied(), random.below(4)) {
                (None, _) => {
                    let inode = volume.create(folders[one.0], &one.1, &NewNode::FILE).unwrap();
                    let content = vec![round; random.below(6000) as usize];
                    Changes::write(&mut volume, inode, 0, Payload::Bytes(&content)).unwrap();
                    model.insert(one, inode);
                }
                (Some(inode), 0) if one != other => {
                    volume
                        .rename((folders[one.0], &one.1), (folders[other.0], &other.1), RenameFlags::Replace)
                        .unwrap();
                    model.remove(&one);
                    model.insert(other, inode);
                }
                (Some(_), _) => {
                    volume.remove(folders[one.0], &one.1).unwrap();
                    model.remove(&one);
                }
            }
        }
        // Overwrites the file that fills the volume, so that each segment has live and dead blocks.
        for _ in 0..60 {
            let page = random.below(at / 4096);
            Changes::write(&mut volume, ballast, page * 4096, Payload::Bytes(&piece[..4096])).unwrap();
        }
        WritableVolume::sync(&mut volume).unwrap();
        if round % 4 == 3 {
            drop(image.remount(volume, "collected"));
            volume = mount(image.path(), options);
        }
        for (number, folder) in folders.iter().enumerate() {
            let expected: BTreeMap<Vec<u8>, InodeNumber> = model
                .iter()
                .filter(|((directory, _), _)| *directory == number)
                .map(|((_, name), inode)| (name.clone(), *inode))
                .collect();
            assert_eq!(names(&volume, *folder), expected);
        }
    }
    assert!(collected > 20, "{collected} sections were collected");
}

/// A name replaced a removed one and is fsynced on a full volume: the checkpoint's directory is
/// full, and recovery would find no block for another page.
#[test]
fn a_name_whose_recovery_would_find_no_room_is_made_durable_by_a_checkpoint() {
    for free in 0..8 {
        let (image, mut volume, root) = Image::mounted(64 * MIB, "");
        let top = folder(&mut volume, root, b"top");
        // All slots of the inline entries except those of the dots.
        let slots = 180;
        (0..slots).for_each(|number| _ = file(&mut volume, top, format!("{number}").as_bytes()));
        let large = file(&mut volume, root, b"large");
        loop {
            let end = volume.stat(large).unwrap().size;
            let bytes = if volume.segments_mut().space.free_blocks() > 200 { 1 << 18 } else { 4096 };
            let is_full = volume.segments_mut().space.free_blocks() <= free;
            if is_full || Changes::write(&mut volume, large, end, Payload::Bytes(&vec![7; bytes])).is_err() {
                break;
            }
        }
        while volume.segments_mut().space.free_blocks() < free {
            let size = volume.stat(large).unwrap().size;
            Changes::set_attributes(
                &mut volume,
                large,
                &AttributeChange { size: Some(size - 4096), ..Default::default() },
            )
            .unwrap();
        }
        volume.sync().unwrap();
        volume.remove(top, b"7").unwrap();
        let Ok(new) = volume.create(top, b"n", &NewNode::FILE) else { continue };
        Changes::sync(&mut volume, Some(new)).unwrap();
        drop(volume.abandon());
        let volume = image.mount();
        assert!(volume.lookup(volume.lookup(volume.root(), b"top").unwrap(), b"n").is_ok(), "{free} blocks");
        drop(image.remount(volume, "behind the recovery"));
    }
}
