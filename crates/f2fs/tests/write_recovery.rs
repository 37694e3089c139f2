//! What fsync and roll-forward preserve: everything of a file, over long chains, with and without
//! inline content, attributes, names that belonged to another file; orphans; and recovery for
//! readers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::made::{clock, complaints};
use crate::writing::oracle::{Image, device_of, empty_image, image_of, page, write_image};
use crate::writing::{findings, unmount};
use nandkit_block::RamDevice;
use nandkit_f2fs::layout::inode::{WORDS_OFFSET, flag};
use nandkit_f2fs::layout::{ExtraAttributes, Footer, InodeHead};
use nandkit_f2fs::recover::recovered;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{F2fs, Log, MountOptions, NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{
    AttributeChange, Changes, FileKind, FileSystem, InodeNumber, Links, NewNode, OpenFiles, Timestamp, XattrChanges,
};

fn mount(device: RamDevice) -> WritableVolume<RamDevice> {
    let options = WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() };
    WritableVolume::mount(vec![device], clock(), options).unwrap()
}

/// Everything about each entry of the root.
fn listing(volume: &dyn FileSystem) -> BTreeMap<Vec<u8>, String> {
    let (mut listing, mut entries) = (BTreeMap::new(), Vec::new());
    let all = volume.read_dir(volume.root(), 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.inode));
        ControlFlow::Continue(())
    });
    all.unwrap();
    for (name, inode) in entries {
        let stat = volume.stat(inode).unwrap();
        let mut bytes = vec![0; if stat.kind == FileKind::Regular { stat.size as usize } else { 0 }];
        if !bytes.is_empty() {
            volume.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
        }
        let mut pairs: Vec<_> = volume.xattrs().unwrap().all_xattrs(inode).unwrap();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let sum = nandkit_f2fs::layout::checksum;
        let xattrs: Vec<_> =
            pairs.into_iter().map(|(name, value)| (name.len(), sum(&name), sum(&value.unwrap()))).collect();
        let sum = sum(&bytes);
        listing.insert(name, format!("{stat:?} {sum:08x} {xattrs:?}"));
    }
    listing
}

/// Mounts after a cut and compares with `expected`; fsck.f2fs and the check have no complaints.
/// Returns the volume, mounted once more.
fn recover(device: RamDevice, expected: &BTreeMap<Vec<u8>, String>, context: &str) -> WritableVolume<RamDevice> {
    let volume = mount(device);
    assert!(volume.recovered().files > 0, "{context}: {:?}", volume.recovered());
    compare(&listing(&volume), expected, context);
    let device = unmount(volume);
    assert_sound(&device, context);
    let volume = mount(device);
    compare(&listing(&volume), expected, context);
    volume
}

fn compare(found: &BTreeMap<Vec<u8>, String>, expected: &BTreeMap<Vec<u8>, String>, context: &str) {
    for name in found.keys().chain(expected.keys()) {
        let shown = String::from_utf8_lossy(name);
        assert_eq!(found.get(name), expected.get(name), "{context}: {shown}");
    }
}

fn assert_sound(device: &RamDevice, context: &str) {
    let image = image_of(device);
    assert_eq!(findings(device_of(&image)), Vec::<String>::new(), "{context}: check");
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    write_image(&path, &image);
    assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
}

fn cut(volume: WritableVolume<RamDevice>) -> RamDevice {
    volume.abandon().remove(0)
}

fn nid(inode: InodeNumber) -> NodeId {
    NodeId(inode.0 as u32)
}

const FEATURES: [&str; 2] = ["", "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr"];

/// Each file is fsynced after each of its changes, so that a cut at any time leaves everything in
/// place.
#[test]
fn everything_of_a_file_is_carried_over() {
    for features in FEATURES {
        let mut volume = mount(device_of(&empty_image(features)));
        let root = volume.root();
        let mut random = Random::new(41, "changes of files");
        let mut files = Vec::new();
        for round in 0..6 {
            for number in 0..4 {
                let ino = volume.create(root, format!("{round}-{number}").as_bytes(), &NewNode::FILE).unwrap();
                files.push(ino);
            }
            if round % 2 == 1 {
                volume.sync().unwrap();
            }
            for step in 0..60_u64 {
                let ino = files[random.below(files.len() as u64) as usize];
                let bytes = vec![step as u8 + 1; [10, 900, 3000, 5000, 40_000][random.below(5) as usize]];
                match random.below(9) {
                    0..3 => drop(
                        volume.write(nid(ino), random.below(3) * random.below(9000), Payload::Bytes(&bytes)).unwrap(),
                    ),
                    3 => drop(
                        volume.write(nid(ino), 4_000_000 + random.below(9_000_000), Payload::Bytes(&bytes)).unwrap(),
                    ),
                    4 => volume.truncate(nid(ino), [0, 100, 3000, 50_000][random.below(4) as usize]).unwrap(),
                    5 => {
                        let name = [&b"user.a"[..], b"user.b", b"trusted.c"][random.below(3) as usize];
                        volume.set_xattr(ino, name, &bytes[..bytes.len().min(1200)]).unwrap();
                    }
                    6 => drop(volume.remove_xattr(ino, b"user.b")),
                    7 => {
                        let time = Some(Timestamp(random.below(1 << 60) as i64));
                        let change = AttributeChange {
                            mode: Some(random.below(0o777) as u16),
                            uid: Some(random.below(70_000) as u32),
                            modified: time,
                            ..AttributeChange::default()
                        };
                        volume.set_attributes(ino, &change).unwrap();
                    }
                    _ => volume.punch(nid(ino), random.below(30_000), 9000).unwrap(),
                }
                volume.fsync(nid(ino), false).unwrap();
            }
            files.iter().for_each(|&ino| volume.fsync(nid(ino), false).unwrap());
            let expected = listing(&volume);
            volume = recover(cut(volume), &expected, &format!("{features:?}, round {round}"));
        }
    }
}

#[test]
fn chains_of_several_segments_are_followed() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let ino = volume.create(root, b"log", &NewNode::FILE).unwrap();
    volume.sync().unwrap();
    let first = volume.segments().log_state(Log::WarmNode).segment;
    let version = volume.checkpoint_state().0.head.version.get();
    for number in 0..1300_u64 {
        volume.write(nid(ino), number % 700 * 4096, Payload::Bytes(&vec![number as u8; 4096])).unwrap();
        volume.fsync(nid(ino), false).unwrap();
    }
    assert_eq!(volume.checkpoint_state().0.head.version.get(), version, "a checkpoint came between");
    assert_ne!(volume.segments().log_state(Log::WarmNode).segment, first);
    let expected = listing(&volume);
    let volume = recover(cut(volume), &expected, "1300 fsyncs");
    assert_eq!(volume.recovered().files, 0);
}

#[test]
fn a_name_that_was_another_files_is_the_new_ones() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    for name in [&b"kept"[..], b"replaced"] {
        let old = volume.create(root, name, &NewNode::FILE).unwrap();
        volume.write(nid(old), 0, Payload::Bytes(&[1; 9000])).unwrap();
    }
    volume.sync().unwrap();
    volume.remove(root, b"replaced").unwrap();
    let new = volume.create(root, b"replaced", &NewNode::FILE).unwrap();
    volume.write(nid(new), 0, Payload::Bytes(&[2; 5000])).unwrap();
    volume.fsync(nid(new), false).unwrap();
    let mut expected = listing(&volume);
    // Removed after the fsync, but not durably: it is back.
    let gone = volume.create(root, b"gone", &NewNode::FILE).unwrap();
    volume.write(nid(gone), 0, Payload::Bytes(&[3; 100])).unwrap();
    volume.fsync(nid(gone), false).unwrap();
    expected.extend(listing(&volume).remove_entry(&b"gone"[..]));
    volume.remove(root, b"gone").unwrap();
    recover(cut(volume), &expected, "a name twice");
}

/// If roll-forward is not enough, an fsync is a checkpoint.
#[test]
fn some_fsyncs_are_checkpoints() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let version = |volume: &WritableVolume<RamDevice>| volume.checkpoint_state().0.head.version.get();
    let file = volume.create(root, b"file", &NewNode::FILE).unwrap();
    let before = version(&volume);
    volume.fsync(nid(file), false).unwrap();
    assert_eq!(version(&volume), before, "a new file in a directory that the checkpoint has");
    volume.link(file, root, b"second name").unwrap();
    volume.fsync(nid(file), false).unwrap();
    assert_eq!(version(&volume), before + 1, "two names");
    let directory = volume.create(root, b"directory", &NewNode::DIRECTORY).unwrap();
    let inside = volume.create(directory, b"inside", &NewNode::FILE).unwrap();
    volume.fsync(nid(inside), false).unwrap();
    assert_eq!(version(&volume), before + 2, "in a new directory");
    volume.fsync(nid(inside), false).unwrap();
    assert_eq!(version(&volume), before + 2, "nothing changed");
    volume.rename((root, b"second name"), (directory, b"moved"), nandkit_vfs::RenameFlags::default()).unwrap();
    volume.fsync(nid(directory), false).unwrap();
    assert_eq!(version(&volume), before + 3, "a directory");
    let expected = listing(&volume);
    let volume = mount(cut(volume));
    compare(&listing(&volume), &expected, "checkpoints alone");
}

#[test]
fn files_without_a_name_are_freed_behind_a_cut() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    volume.sync().unwrap();
    let before = volume.segments().space;
    let mut open = Vec::new();
    for number in 0..30_u64 {
        let ino = volume.create(root, format!("{number}").as_bytes(), &NewNode::FILE).unwrap();
        volume.write(nid(ino), number * 100_000, Payload::Bytes(&vec![1; 9000])).unwrap();
        volume.set_xattr(ino, b"user.large", &[5; 2000]).unwrap();
        volume.retain(ino).unwrap();
        open.push(ino);
    }
    volume.sync().unwrap();
    for number in 0..30 {
        volume.remove(root, format!("{number}").as_bytes()).unwrap();
    }
    volume.checkpoint(Reason::Sync).unwrap();
    assert_eq!(volume.checkpoint_state().0.orphans.len(), 30);
    let volume = mount(cut(volume));
    assert_eq!((volume.recovered().orphans, volume.recovered().files), (30, 0));
    let after = volume.segments().space;
    assert_eq!(
        (after.valid_blocks, after.valid_nodes, after.valid_inodes),
        (before.valid_blocks, before.valid_nodes, before.valid_inodes)
    );
    assert!(volume.checkpoint_state().0.orphans.is_empty());
    assert_sound(&unmount(volume), "orphans");
}

#[test]
fn an_unclean_volume_is_read_recovered_and_stays_as_it_is() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let ino = volume.create(root, b"fsynced", &NewNode::FILE).unwrap();
    volume.write(nid(ino), 0, Payload::Bytes(&[9; 20_000])).unwrap();
    volume.fsync(nid(ino), false).unwrap();
    let expected = listing(&volume);
    let device = cut(volume);
    let before = image_of(&device);
    let overlay = recovered(device, clock()).unwrap();
    let reader = F2fs::mount(overlay, clock(), MountOptions::default()).unwrap();
    compare(&listing(&reader), &expected, "read");
    let device = reader.into_devices().remove(0).into_inner();
    assert!(image_of(&device) == before);
    // A cleanly unmounted volume is not touched at all.
    let device = unmount(mount(device));
    let clean = image_of(&device);
    let overlay = recovered(device, clock()).unwrap();
    assert_eq!(overlay.changed().count(), 0);
    assert!(image_of(&overlay.into_inner()) == clean);
}

/// A cut kept only the second of an fsync's two nodes, so that nothing is recovered. It still has
/// the checkpoint's version: the next chain must not run into it, since its blocks belong to others
/// by then.
#[test]
fn the_rest_of_a_chain_that_lost_its_beginning_is_never_taken_over() {
    let options = WriteOptions { ipu_policy: Some(0), ordered_fsync: true, ..WriteOptions::default() };
    let again = |device| WritableVolume::mount(vec![device], clock(), options).unwrap();
    let pages =
        |file: u64, version: u64, count: u64| (0..count).flat_map(|at| page(file, at, version)).collect::<Vec<u8>>();
    let mut volume = again(device_of(&empty_image("")));
    let root = volume.root();
    let [long, other] = [b"long", b"othr"].map(|name| volume.create(root, name, &NewNode::FILE).unwrap());
    Changes::write(&mut volume, long, 0, Payload::Bytes(&pages(1, 1, 1000))).unwrap();
    Changes::write(&mut volume, other, 0, Payload::Bytes(&pages(2, 1, 4))).unwrap();
    volume.sync().unwrap();
    let device = cut(volume);
    let before = image_of(&device);
    let mut volume = again(device);
    // One page in the inode, one in the node below it.
    for at in [3, 990] {
        Changes::write(&mut volume, long, at * 4096, Payload::Bytes(&page(1, at, 2))).unwrap();
    }
    Changes::sync(&mut volume, Some(long)).unwrap();
    let log = volume.checkpoint_state().0.logs[Log::WarmNode.index()];
    let first = u64::from(nandkit_f2fs::Blocks::geometry(&volume).segment_start(log.segment).0) + u64::from(log.next);
    let mut after = image_of(&cut(volume));
    let nodes = after.iter().filter(|&block| (first..first + 2).contains(&block.0) && !before.contains(block)).count();
    assert_eq!(nodes, 2);
    after.retain(|(sector, _)| *sector != first);
    after.extend(before.into_iter().filter(|(sector, _)| *sector == first));
    let mut volume = again(device_of(&after));
    assert_eq!(volume.recovered().files, 0);
    for at in [0, 2] {
        Changes::write(&mut volume, other, at * 4096, Payload::Bytes(&page(2, at, 2))).unwrap();
    }
    Changes::sync(&mut volume, Some(other)).unwrap();
    let volume = again(cut(volume));
    assert_eq!(volume.recovered().files, 1);
    let mut bytes = vec![0; 4096];
    for (file, inode, count) in [(1, long, 1000), (2, other, 4)] {
        for at in 0..count {
            volume.read(inode, at * 4096, ReadInto::Bytes(&mut bytes)).unwrap();
            let version = if file == 2 && at % 2 == 0 { 2 } else { 1 };
            assert!(bytes == page(file, at, version), "page {at} of file {file}");
        }
    }
    assert_sound(&unmount(volume), "behind it");
}

/// The block of a file's inode in the chain: the first or the second of them.
fn in_chain<'a>(image: &'a mut Image, ino: NodeId, name: &'a [u8], which: usize) -> &'a mut Vec<u8> {
    let is_it = |block: &[u8]| block[4072..4076] == ino.0.to_le_bytes() && block[92..].starts_with(name);
    let mut blocks = image.iter_mut().map(|(_, block)| block).filter(|block| is_it(block));
    blocks.nth(which).expect("a node of the chain")
}

/// Linux's recovery unlinks the directory with all its content. Ours makes a checkpoint instead of
/// such an fsync, and renames the directory to its number on a volume that Linux left.
#[test]
fn a_directory_whose_old_name_a_fsynced_file_has_keeps_what_is_in_it() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let directory = volume.create(root, b"d", &NewNode::DIRECTORY).unwrap();
    volume.create(directory, b"inside", &NewNode::FILE).unwrap();
    volume.sync().unwrap();
    let checkpointed = image_of(&cut(volume));

    let mut volume = mount(device_of(&checkpointed));
    volume.rename((root, b"d"), (root, b"moved"), nandkit_vfs::RenameFlags::default()).unwrap();
    let file = volume.create(root, b"d", &NewNode::FILE).unwrap();
    volume.fsync(nid(file), false).unwrap();
    let expected = listing(&volume);
    let volume = mount(cut(volume));
    assert_eq!(volume.recovered().files, 0, "it was a checkpoint");
    compare(&listing(&volume), &expected, "renamed");

    let mut volume = mount(device_of(&checkpointed));
    let file = volume.create(root, b"e", &NewNode::FILE).unwrap();
    volume.write(nid(file), 0, Payload::Bytes(&[7; 9000])).unwrap();
    volume.fsync(nid(file), false).unwrap();
    let mut image = image_of(&cut(volume));
    in_chain(&mut image, nid(file), b"e", 0)[92] = b'd';
    let volume = mount(device_of(&image));
    assert_eq!(volume.recovered().files, 1);
    assert_eq!(volume.lookup(root, b"d").unwrap(), file);
    let aside = volume.lookup(root, directory.0.to_string().as_bytes()).unwrap();
    assert_eq!(aside, directory);
    volume.lookup(aside, b"inside").unwrap();
    assert_sound(&unmount(volume), "moved aside");
}

#[test]
fn a_chain_in_a_circle_is_refused_at_its_second_turn() {
    let mut volume = mount(device_of(&empty_image("")));
    let file = volume.create(volume.root(), b"e", &NewNode::FILE).unwrap();
    for version in 0..3 {
        volume.write(nid(file), 0, Payload::Bytes(&[version; 9000])).unwrap();
        volume.fsync(nid(file), false).unwrap();
    }
    let mut image = image_of(&cut(volume));
    let first = image.iter().find(|(_, block)| block[4072..4076] == file.0.to_le_bytes()[..4]).unwrap().0;
    in_chain(&mut image, nid(file), b"e", 2)[4092..].copy_from_slice(&(first as u32).to_le_bytes());
    let error = WritableVolume::mount(vec![device_of(&image)], clock(), WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a cycle after 3 nodes"), "{error}");
}

/// An exchange takes away a directory's name like a rename: a later fsync of a file with that name
/// is a checkpoint too.
#[test]
fn a_directory_whose_name_was_exchanged_keeps_what_was_fsynced_in_it() {
    for kept in [false, true] {
        let mut volume = mount(device_of(&empty_image("")));
        let root = volume.root();
        let directory = volume.create(root, b"d", &NewNode::DIRECTORY).unwrap();
        if kept {
            volume.create(directory, b"inside", &NewNode::FILE).unwrap();
        }
        volume.create(root, b"f", &NewNode::FILE).unwrap();
        volume.sync().unwrap();
        let (first, second): (&[u8], &[u8]) = if kept { (b"d", b"f") } else { (b"f", b"d") };
        volume.rename((root, first), (root, second), nandkit_vfs::RenameFlags::Exchange).unwrap();
        volume.remove(root, b"d").unwrap();
        let file = volume.create(root, b"d", &NewNode::FILE).unwrap();
        volume.fsync(nid(file), false).unwrap();
        let inside = volume.create(directory, b"x", &NewNode::FILE).unwrap();
        volume.fsync(nid(inside), false).unwrap();
        let expected = listing(&volume);
        let volume = mount(cut(volume));
        compare(&listing(&volume), &expected, "exchanged");
        assert_sound(&unmount(volume), "exchanged");
    }
}

/// A state that Linux can leave, and where its own recovery fails: the directory is empty at the
/// checkpoint, and files of the chain are in it.
#[test]
fn an_empty_directory_in_which_files_were_fsynced_is_moved_aside() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let directory = volume.create(root, b"d", &NewNode::DIRECTORY).unwrap();
    volume.sync().unwrap();
    let file = volume.create(root, b"e", &NewNode::FILE).unwrap();
    volume.fsync(nid(file), false).unwrap();
    let inside = volume.create(directory, b"x", &NewNode::FILE).unwrap();
    volume.fsync(nid(inside), false).unwrap();
    let mut image = image_of(&cut(volume));
    in_chain(&mut image, nid(file), b"e", 0)[92] = b'd';
    let volume = mount(device_of(&image));
    assert_eq!(volume.recovered().files, 2);
    assert_eq!(volume.lookup(root, b"d").unwrap(), file);
    assert_eq!(volume.lookup(root, directory.0.to_string().as_bytes()).unwrap(), directory);
    assert_eq!(volume.lookup(directory, b"x").unwrap(), inside);
    assert_sound(&unmount(volume), "moved aside");
}

/// `chattr -i f; rm f`, a new f, fsync: Linux's recovery ignores the flags at the checkpoint.
#[test]
fn a_recovery_removes_what_was_immutable_at_the_checkpoint() {
    let mut volume = mount(device_of(&empty_image("")));
    let root = volume.root();
    let old = volume.create(root, b"f", &NewNode::FILE).unwrap();
    volume.sync().unwrap();
    let file = volume.create(root, b"e", &NewNode::FILE).unwrap();
    volume.fsync(nid(file), false).unwrap();
    let mut image = image_of(&cut(volume));
    in_chain(&mut image, nid(file), b"e", 0)[92] = b'f';
    // FS_IMMUTABLE_FL in i_flags.
    in_chain(&mut image, nid(old), b"f", 0)[80] |= 0x10;
    let volume = mount(device_of(&image));
    assert_eq!(volume.recovered().files, 1);
    assert_eq!(volume.lookup(root, b"f").unwrap(), file);
    assert_sound(&unmount(volume), "immutable");
}

/// A chain that says that a file is now compressed: it would have other addresses by its rules, and
/// Linux does not fsync such a file with marked nodes.
#[test]
fn a_chain_of_a_compressed_file_is_refused() {
    let image = empty_image("extra_attr,compression");
    let mut volume = mount(device_of(&image));
    let inode = volume.create(volume.root(), b"file", &NewNode::FILE).unwrap();
    let nid = NodeId(inode.0 as u32);
    Changes::write(&mut volume, inode, 0, Payload::Bytes(&[1; 9000])).unwrap();
    volume.sync().unwrap();
    Changes::write(&mut volume, inode, 0, Payload::Bytes(&[2; 9000])).unwrap();
    Changes::sync(&mut volume, Some(inode)).unwrap();
    let mut image = image_of(&volume.abandon().remove(0));
    assert_eq!(
        WritableVolume::mount(vec![device_of(&image.clone())], clock(), WriteOptions::default())
            .unwrap()
            .recovered()
            .files,
        1
    );
    // The newer of the two blocks of its inode.
    let version = |block: &[u8]| {
        let footer = Footer::of_block(block).filter(|footer| (footer.nid(), footer.ino()) == (nid, nid));
        footer.map(|footer| footer.checkpoint.get() as u32)
    };
    let (_, newest) = image.iter_mut().max_by_key(|(_, block)| version(block)).unwrap();
    newest[std::mem::offset_of!(InodeHead, flags)] |= flag::COMPRESSED as u8;
    newest[WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, log_cluster_pages)] = 2;
    let error = WritableVolume::mount(vec![device_of(&image)], clock(), WriteOptions::default()).unwrap_err();
    assert!(error.detail.contains("fsynced as"), "{error}");
}
