use super::*;
use crate::{AttributeChange, NewNode, RenameFlags};
use nandkit_units::{Nanos, Payload};

fn model(options: ModelOptions) -> ModelFileSystem {
    ModelFileSystem::new(options, Clock::starting_at(1_000_000_000_000_000_000))
}

fn file(model: &mut ModelFileSystem, name: &[u8]) -> InodeNumber {
    model.create(InodeNumber(ROOT), name, &NewNode::FILE).unwrap()
}

fn bytes(model: &ModelFileSystem, inode: InodeNumber) -> Vec<u8> {
    let mut bytes = vec![0xAA; 1 << 16];
    let count = model.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
    bytes.truncate(count);
    bytes
}

/// Checks that the count of used blocks equals the sum over the inodes.
fn check_charges(model: &ModelFileSystem) {
    let sum: u64 = model.nodes.values().map(|node| node.blocks(&model.options)).sum();
    assert_eq!(model.used_blocks, sum);
}

#[test]
fn a_clone_is_a_snapshot() {
    let mut model = model(ModelOptions::POSIX);
    let inode = file(&mut model, b"a");
    model.write(inode, 0, Payload::Bytes(b"first")).unwrap();
    let snapshot = model.clone();
    model.write(inode, 0, Payload::Bytes(b"other")).unwrap();
    file(&mut model, b"b");
    assert_eq!((bytes(&snapshot, inode), bytes(&model, inode)), (b"first".to_vec(), b"other".to_vec()));
    assert!(snapshot.lookup(InodeNumber(ROOT), b"b").is_err());
}

#[test]
fn holes_take_no_blocks_and_formats_without_holes_fill_them() {
    for (options, blocks) in [(ModelOptions::POSIX, 1), (ModelOptions::FAT, 3)] {
        let mut model = model(options);
        let inode = file(&mut model, b"a");
        model.write(inode, 9000, Payload::Bytes(b"end")).unwrap();
        assert_eq!(model.stat(inode).unwrap().allocated, blocks * 4096);
        let content = bytes(&model, inode);
        assert!(content.len() == 9003 && content[..9000].iter().all(|byte| *byte == 0) && content.ends_with(b"end"));
        check_charges(&model);
    }
}

#[test]
fn a_cut_and_regrown_file_shows_zeroes() {
    for options in [ModelOptions::POSIX, ModelOptions::FAT] {
        let mut model = model(options);
        let inode = file(&mut model, b"a");
        model.write(inode, 0, Payload::Bytes(&[7; 10_000])).unwrap();
        for size in [5_000, 10_000] {
            model.set_attributes(inode, &AttributeChange { size: Some(size), ..Default::default() }).unwrap();
        }
        let content = bytes(&model, inode);
        assert!(content[..5_000].iter().all(|byte| *byte == 7) && content[5_000..].iter().all(|byte| *byte == 0));
        check_charges(&model);
    }
}

#[test]
fn allocation_beyond_the_end_and_punching() {
    let mut model = model(ModelOptions::POSIX.with_capacity(8));
    let inode = file(&mut model, b"a");
    let allocation = model.allocation().unwrap();
    allocation.allocate(inode, 0, 4096 * 6, true).unwrap();
    assert_eq!(allocation.allocate(inode, 0, 4096 * 9, true).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!((model.stat(inode).unwrap().size, model.stat(inode).unwrap().allocated), (0, 4096 * 6));
    let other = file(&mut model, b"b");
    assert_eq!(model.write(other, 0, Payload::Bytes(&[1; 8192])).unwrap(), 4096);
    assert_eq!(model.write(inode, 0, Payload::Bytes(&[2; 4096 * 6])).unwrap(), 4096 * 6);
    model.holes().unwrap().punch_hole(inode, 100, 4096 * 2).unwrap();
    assert_eq!(model.stat(inode).unwrap().allocated, 4096 * 5);
    let content = bytes(&model, inode);
    assert!(content[..100].iter().all(|byte| *byte == 2) && content[100..8292].iter().all(|byte| *byte == 0));
    assert!(content[8292..].iter().all(|byte| *byte == 2));
    check_charges(&model);
}

#[test]
fn a_full_volume_takes_part_of_a_write_and_recovers() {
    let mut model = model(ModelOptions::FAT.with_capacity(4));
    let inode = file(&mut model, b"a");
    assert_eq!(model.write(inode, 100, Payload::Bytes(&[1; 20_000])).unwrap(), 3 * 4096 - 100);
    let end = 3 * 4096;
    assert_eq!(model.write(inode, end, Payload::Bytes(&[1])).unwrap_err().kind, ErrorKind::NoSpace);
    let grow = AttributeChange { size: Some(end + 1), ..Default::default() };
    assert_eq!(model.set_attributes(inode, &grow).unwrap_err().kind, ErrorKind::NoSpace);
    model.remove(InodeNumber(ROOT), b"A").unwrap();
    assert_eq!(model.free_blocks(), 4);
}

#[test]
fn orphans_live_until_released_or_unmounted() {
    let mut model = model(ModelOptions::POSIX);
    for unmount in [false, true] {
        let inode = file(&mut model, b"a");
        model.open_files().unwrap().retain(inode).unwrap();
        model.remove(InodeNumber(ROOT), b"a").unwrap();
        model.write(inode, 0, Payload::Bytes(b"still")).unwrap();
        assert_eq!(model.stat(inode).unwrap().links, 0);
        if unmount {
            model.remount();
        } else {
            model.open_files().unwrap().release(inode).unwrap();
        }
        assert_eq!(model.stat(inode).unwrap_err().kind, ErrorKind::NotFound);
        check_charges(&model);
    }
}

#[test]
fn names_without_case_keep_their_spelling() {
    let mut model = model(ModelOptions::FAT);
    let root = InodeNumber(ROOT);
    let inode = file(&mut model, "Straße.Txt".as_bytes());
    assert_eq!(model.lookup(root, "STRAßE.txt".as_bytes()).unwrap(), inode);
    assert_eq!(model.create(root, "straße.TXT".as_bytes(), &NewNode::FILE).unwrap_err().kind, ErrorKind::Exists);
    model.rename((root, "straße.txt".as_bytes()), (root, "STRAßE".as_bytes()), RenameFlags::Replace).unwrap();
    model.rename((root, "straße".as_bytes()), (root, "Straße".as_bytes()), RenameFlags::Replace).unwrap();
    let mut names = Vec::new();
    model
        .read_dir(root, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(names, ["Straße".as_bytes()]);
    check_charges(&model);
}

#[test]
fn directories_count_their_links() {
    let mut model = model(ModelOptions::POSIX);
    let root = InodeNumber(ROOT);
    let a = model.create(root, b"a", &NewNode::DIRECTORY).unwrap();
    let b = model.create(root, b"b", &NewNode::DIRECTORY).unwrap();
    let c = model.create(a, b"c", &NewNode::DIRECTORY).unwrap();
    file(&mut model, b"f");
    let links = |model: &ModelFileSystem, inode| model.stat(inode).unwrap().links;
    assert_eq!((links(&model, root), links(&model, a), links(&model, b)), (4, 3, 2));
    model.rename((a, b"c"), (root, b"f"), RenameFlags::Exchange).unwrap();
    assert_eq!((links(&model, root), links(&model, a), links(&model, c)), (5, 2, 2));
    model.rename((root, b"f"), (root, b"b"), RenameFlags::Replace).unwrap();
    assert_eq!((links(&model, root), links(&model, c)), (4, 2));
    assert_eq!(
        model.rename((root, b"b"), (c, b"x"), RenameFlags::Replace).unwrap_err().kind,
        ErrorKind::InvalidArgument
    );
    check_charges(&model);
}

#[test]
fn times_are_rounded_down_to_the_step() {
    let mut model = model(ModelOptions::FAT);
    let inode = file(&mut model, b"a");
    let change = AttributeChange { modified: Some(Timestamp(3_999_999_999)), ..Default::default() };
    assert_eq!(model.set_attributes(inode, &change).unwrap().modified, Timestamp(2_000_000_000));
    let before = AttributeChange { modified: Some(Timestamp(-1)), ..Default::default() };
    assert_eq!(model.set_attributes(inode, &before).unwrap().modified, Timestamp(-2_000_000_000));
    model.clock.advance_to(Nanos(5_000_000_000));
    model.write(inode, 0, Payload::Bytes(b"x")).unwrap();
    assert_eq!(model.stat(inode).unwrap().modified, Timestamp(1_000_000_004_000_000_000));
}
