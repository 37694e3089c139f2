//! Directories of a writable volume: many names, names of one bucket and of one hash, with
//! fsck.f2fs and our check as judges.

use std::collections::{BTreeMap, BTreeSet};

use crate::writing::image::{Image, MIB, file, folder, kind, links, names, nid};
use crate::writing::mount;
use nandkit_f2fs::WriteOptions;
use nandkit_f2fs::testing::directory::hash;
use nandkit_f2fs::write::Making;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, RenameFlags};

/// Directories of thousands of names of all lengths grow, change at random, and become empty again.
#[test]
fn directories_of_thousands_of_names() {
    for (level, features) in [(0, ""), (1, "extra_attr,inode_checksum")] {
        let image = Image::new(128 * MIB, features);
        let making = Making { directory_level: level, ..Making::default() };
        let mut volume = mount(image.path(), WriteOptions { making, ..WriteOptions::default() });
        let root = volume.root();
        let directory = folder(&mut volume, root, b"many");
        let mut random = Random::new(7 + u64::from(level), "directories");
        let mut model = BTreeMap::new();
        let name = |number: u64| format!("{number}{}", "n".repeat((number * 31 % 240) as usize)).into_bytes();
        for number in 0..3000 {
            model.insert(name(number), file(&mut volume, directory, &name(number)));
        }
        let depth = volume.inode_at(nid(directory)).unwrap().head.depth.get();
        assert!(depth > 3, "{depth} levels");
        let mut volume = image.remount(volume, "3,000 names");
        assert_eq!(names(&volume, directory), model);
        for step in 0..4000 {
            let (one, other) = (name(random.below(4000)), name(random.below(4000)));
            match (model.get(&one).copied(), random.below(3)) {
                (None, _) => {
                    model.insert(one.clone(), file(&mut volume, directory, &one));
                }
                (Some(_), 0) => {
                    volume.remove(directory, &one).unwrap();
                    model.remove(&one);
                }
                (Some(inode), _) if one != other => {
                    volume.rename((directory, &one), (directory, &other), RenameFlags::Replace).unwrap();
                    model.remove(&one);
                    model.insert(other, inode);
                }
                _ => {}
            }
            if step % 1500 == 1499 {
                volume = image.remount(volume, "changed at random");
                assert_eq!(names(&volume, directory), model);
            }
        }
        for (name, inode) in &model {
            assert_eq!(volume.lookup(directory, name).unwrap(), *inode);
        }
        assert_eq!(kind(volume.remove(root, b"many")), ErrorKind::NotEmpty);
        model.keys().for_each(|name| volume.remove(directory, name).unwrap());
        // Only the block with the dots is left.
        assert_eq!(volume.stat(directory).unwrap().allocated % 4096, 0);
        let mut volume = image.remount(volume, "empty again");
        assert!(names(&volume, directory).is_empty());
        volume.remove(root, b"many").unwrap();
        let volume = image.remount(volume, "removed");
        assert_eq!((links(&volume, root), names(&volume, root).len()), (2, 0));
    }
}

/// Names with colliding hashes fill their buckets, level after level.
#[test]
fn names_of_one_bucket() {
    let (image, mut volume, root) = Image::mounted(64 * MIB, "");
    let directory = folder(&mut volume, root, b"d");
    // The same low bits mean the same bucket in the first ten levels. Some pairs have equal hashes.
    let crowd: Vec<Vec<u8>> = (0..3_000_000_u32)
        .map(|number| format!("{number:x}{}", "y".repeat(60)).into_bytes())
        .filter(|name| hash(name) % 1024 == 5)
        .take(700)
        .collect();
    assert_eq!(crowd.len(), 700);
    for name in &crowd {
        file(&mut volume, directory, name);
    }
    let mut volume = image.remount(volume, "a crowd in one bucket");
    assert_eq!(names(&volume, directory).len(), 700);
    let depth = volume.inode_at(nid(directory)).unwrap().head.depth.get();
    assert!(depth > 7, "{depth} levels");
    for (number, name) in crowd.iter().enumerate() {
        volume.lookup(directory, name).unwrap();
        if number % 3 > 0 {
            volume.remove(directory, name).unwrap();
        }
    }
    // New names go into the first gap.
    for name in crowd.iter().skip(1).step_by(3) {
        file(&mut volume, directory, name);
    }
    let volume = image.remount(volume, "a crowd that changed");
    let expected: BTreeSet<&Vec<u8>> =
        crowd.iter().enumerate().filter(|(number, _)| number % 3 < 2).map(|(_, name)| name).collect();
    assert!(names(&volume, directory).keys().eq(expected));
}

/// Two names with the same hash: the second does not hide the first.
#[test]
fn names_of_one_hash() {
    let mut seen = BTreeMap::new();
    let pair = (0..u32::MAX).find_map(|number| {
        let name = format!("{number:x}");
        seen.insert(hash(name.as_bytes()), number).map(|before| (format!("{before:x}"), name))
    });
    let (one, other) = pair.unwrap();
    assert!(one != other && hash(one.as_bytes()) == hash(other.as_bytes()));
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let (image, mut volume, root) = Image::mounted(64 * MIB, "");
    for inline_entries in [true, false] {
        let directory = match inline_entries {
            true => folder(&mut volume, root, b"d"),
            false => root,
        };
        let (first, second) = (file(&mut volume, directory, one), file(&mut volume, directory, other));
        assert_eq!(kind(volume.create(directory, other, &nandkit_vfs::NewNode::FILE)), ErrorKind::Exists);
        volume.remove(directory, one).unwrap();
        assert_eq!(kind(volume.lookup(directory, one)), ErrorKind::NotFound);
        assert_eq!(volume.lookup(directory, other).unwrap(), second);
        volume.rename((directory, other), (directory, one), RenameFlags::Replace).unwrap();
        assert_eq!(volume.lookup(directory, one).unwrap(), second);
        assert_ne!(first, second);
    }
    image.remount(volume, "names of one hash");
}
