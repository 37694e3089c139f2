//! The cost of loading inodes of hostile images.

use std::ops::ControlFlow;

use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber};

use super::*;
use crate::work::steps_of;

const MANY: u32 = 5000;
const EACH: u64 = 20;

/// A directory in which damaged names, whose node contradicts its summary, alternate with good
/// ones.
fn damaged_directory() -> RamFlash {
    let mut image = Vec::new();
    let mut block = Summed::default();
    let mut hole = Vec::new();
    let fields = InodeFields { inode: Ino(2), version: 1, mode: 0o100_644, file_size: 4096, ..InodeFields::default() };
    inode_node(ORDER, &fields, &Piece::hole(0, 4096), &mut hole);
    block.inode(2, 1, &hole, hole.len() as u32);
    for number in 0..MANY {
        if block.is_full() {
            image.extend_from_slice(&std::mem::take(&mut block).block());
        }
        let name = format!("name-{number}");
        let mut node = name_node(1, number + 1, &name, 2, 8);
        node[45] ^= (number % 2) as u8;
        block.name((1, number + 1, 2, 8), &name, &node);
    }
    image.extend_from_slice(&block.block());
    Image(image).flash()
}

#[test]
fn damaged_names_are_found_dropped_and_listed_in_one_pass_each() {
    let mut volume = mount(damaged_directory(), false);
    let root = volume.root();
    let (shown, steps) = steps_of(|| {
        let mut shown = 0;
        let mut count = |_: nandkit_vfs::DirectoryEntry<'_>| {
            shown += 1;
            ControlFlow::Continue(())
        };
        volume.read_dir(root, 0, &mut count).unwrap();
        shown
    });
    assert!(steps < EACH * u64::from(MANY), "{steps} steps to load");
    assert_eq!((shown, volume.damage.sorted().len()), (MANY / 2, MANY as usize / 2));
    assert_eq!(volume.lookup(root, b"name-8").unwrap(), InodeNumber(2));
    assert_eq!(volume.lookup(root, b"name-9").unwrap_err().kind, ErrorKind::NotFound);
    // A change makes the catalogue learn of the damage.
    let change = AttributeChange { mode: Some(0o700), ..AttributeChange::default() };
    let (_, steps) = steps_of(|| volume.set_attributes(root, &change).unwrap());
    assert!(steps < EACH * u64::from(MANY), "{steps} steps to settle");
    assert!(volume.create(root, b"name-9", &nandkit_vfs::NewNode::FILE).is_ok());
    assert_eq!(volume.catalogue().recount(), Ok(()));
}

fn file(nodes: impl Iterator<Item = (u32, u32)>, file_size: u32) -> Jffs2<RamFlash> {
    let mut image = Image::default();
    image.name(1, 1, "file", 2, 8);
    for (number, (offset, size)) in nodes.enumerate() {
        image.hole(2, number as u32 + 1, offset, size, file_size);
    }
    mount(image.flash(), true)
}

/// Each newer node lies before all older ones in the file.
#[test]
fn a_file_that_was_written_backwards_is_loaded_in_one_sweep() {
    let volume = file((0..MANY).rev().map(|number| (2 * number, 1)), 2 * MANY);
    let (stat, steps) = steps_of(|| volume.stat(InodeNumber(2)).unwrap());
    assert_eq!(stat.size, 2 * u64::from(MANY) - 1);
    assert!(steps < EACH * u64::from(MANY), "{steps} steps");
    assert_eq!(volume.body(Ino(2)).unwrap().fragments.all().len(), MANY as usize);
}

/// Each newer node lies in the middle of its predecessor.
#[test]
fn holes_within_holes_are_loaded_in_one_sweep() {
    let volume = file((0..MANY).map(|number| (number, 2 * (MANY - number))), 2 * MANY);
    let (stat, steps) = steps_of(|| volume.stat(InodeNumber(2)).unwrap());
    assert_eq!(stat.size, 2 * u64::from(MANY));
    assert!(steps < EACH * u64::from(MANY), "{steps} steps");
    assert_eq!(volume.body(Ino(2)).unwrap().fragments.all().len(), 2 * MANY as usize - 1);
}
