//! Mounts for writing: an inode changed, checkpoints, unmounts. fsck.f2fs and our check find
//! nothing, and nothing else changed.

use crate::common;
use crate::made;

use std::path::Path;

use crate::common::{mkfs, mount_file, plant, sload};
use crate::made::{clock, everything, new_image, patiently};
use crate::writing::image::{Image, MIB, file};
use crate::writing::{assert_sound, mount, open_to_write, unmount};
use nandkit_f2fs::Nodes;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::testing::encode::inode::set_times;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_testkit::listing::{self, Listing};
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode, Timestamp};

fn shown(path: &Path) -> Listing {
    listing::of_volume(&mount_file(path).unwrap())
}

fn some_inodes(path: &Path) -> Vec<NodeId> {
    let volume = mount_file(path).unwrap();
    let mut inodes = vec![NodeId::ROOT];
    let listing = volume.read_dir(volume.root(), 0, &mut |entry| {
        inodes.push(NodeId(entry.inode.0 as u32));
        std::ops::ControlFlow::Continue(())
    });
    listing.unwrap();
    inodes
}

/// Changes the times of some inodes over several checkpoints and mounts.
fn change_times(path: &Path, context: &str) {
    assert_sound(path, context);
    let (before, inodes) = (shown(path), some_inodes(path));
    let time = |seconds: i64| Timestamp(seconds * 1_000_000_000 + 5);
    for round in 0..3 {
        let mut volume = mount(path, WriteOptions::default());
        let version = volume.checkpoint_state().0.head.version.get();
        for (number, &ino) in (1..).zip(&inodes) {
            let (access, change) = (time(100 + round), time(200 + round));
            volume
                .with_inode(ino, |head| {
                    let modified =
                        Timestamp(head.modified.get() as i64 * 1_000_000_000 + i64::from(head.modified_ns.get()));
                    set_times(head, access, modified, change);
                })
                .unwrap();
            if round == 1 {
                volume.checkpoint(Reason::Sync).unwrap();
                assert_eq!(volume.checkpoint_state().0.head.version.get(), version + number);
            }
        }
        if round == 2 {
            // As in a power cut after the checkpoint: node summaries are not in the pack.
            volume.checkpoint(Reason::Sync).unwrap();
            assert!(!volume.checkpoint_state().0.head.has(flag::UNMOUNTED));
            drop(volume.abandon());
        } else {
            unmount(volume);
        }
        assert_sound(path, &format!("{context}, round {round}"));
        listing::assert_same(&before, &shown(path), context);
        let volume = mount_file(path).unwrap();
        for &ino in &inodes {
            let stat = volume.stat(InodeNumber(ino.0.into())).unwrap();
            assert_eq!((stat.accessed, stat.changed), (time(100 + round), time(200 + round)), "{context}");
        }
    }
    // After a clean unmount, a mount without changes writes nothing.
    unmount(mount(path, WriteOptions::default()));
    let bytes = std::fs::read(path).unwrap();
    unmount(mount(path, WriteOptions::default()));
    assert!(bytes == std::fs::read(path).unwrap(), "{context}: a mount without changes wrote");
}

#[test]
fn volumes_of_our_mkfs_are_changed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    for (features, per_section) in
        [("", 1), ("extra_attr,inode_checksum,sb_checksum,inode_crtime,flexible_inline_xattr", 1), ("", 2)]
    {
        let tree = everything();
        let features = features_named(features).unwrap();
        let options = MkfsOptions { features, segments_per_section: per_section, ..MkfsOptions::default() };
        let _ = std::fs::remove_file(&path);
        let new = Mkfs::new(&tree, options).unwrap();
        new.write(&mut new_image(&path, 160 << 20), &clock(), &|_| {}).unwrap();
        change_times(&path, &format!("{features}, {per_section} segments a section"));
    }
}

#[test]
fn volumes_of_f2fs_tools_are_changed() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, path) = (scratch.path().join("source"), scratch.path().join("image"));
    plant(&source, 150);
    for (mib, options) in [
        (160, ""),
        (160, "-O extra_attr,inode_checksum,sb_checksum,inode_crtime,quota,project_quota"),
        (200, "-s 2 -i"),
    ] {
        mkfs(&path, mib, options);
        sload(&path, &source);
        change_times(&path, &format!("mkfs.f2fs {options}"));
    }
}

#[test]
fn what_is_not_written_is_refused_with_the_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    mkfs(&path, 160, "-O extra_attr,ro,sb_checksum");
    let error = WritableVolume::mount(vec![open_to_write(&path)], clock(), WriteOptions::default()).unwrap_err();
    assert!(error.kind == ErrorKind::NotSupported && error.detail.contains("made to be read only"), "{error}");
    mkfs(&path, 160, "");
    let device = patiently(|| nandkit_block::FileDevice::open(&path, 512, nandkit_block::Access::ReadWrite));
    let error = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap_err();
    assert!(error.kind == ErrorKind::NotSupported && error.detail.contains("sectors of 512"), "{error}");
}

#[test]
fn volumes_on_several_devices_are_changed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let names = ["first", "second", "third"];
    for name in names {
        std::fs::File::create(path(name)).unwrap().set_len(64 << 20).unwrap();
    }
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    common::run("mkfs.f2fs", &["-f", "-q", "-c", &text("second"), "-c", &text("third"), &text("first")]);
    let devices = || names.iter().map(|name| open_to_write(&path(name))).collect::<Vec<_>>();
    let mut volume = WritableVolume::mount(devices(), clock(), WriteOptions::default()).unwrap();
    let root = volume.root();
    let content: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 4096 * 7 + at) as u8).collect();
    for number in 0..25 {
        let ino = volume.create(root, format!("{number}").as_bytes(), &NewNode::FILE).unwrap();
        Changes::write(&mut volume, ino, 0, Payload::Bytes(&content)).unwrap();
    }
    volume.unmount().map_err(|(_, error)| error).unwrap();
    assert_eq!(made::complaints(&path("first")), Vec::<String>::new());
    let volume = WritableVolume::mount(devices(), clock(), WriteOptions::default()).unwrap();
    let mut found = vec![0; content.len()];
    for number in 0..25 {
        let ino = volume.lookup(root, format!("{number}").as_bytes()).unwrap();
        volume.read(ino, 0, ReadInto::Bytes(&mut found)).unwrap();
        assert!(found == content, "{number}");
    }
}

/// A chain of an earlier mount may start where the warm node log continues; its version becomes
/// outdated with the first checkpoint of a mount, which precedes any node.
#[test]
fn the_first_change_of_a_mount_is_a_checkpoint_whatever_it_is() {
    let (image, mut volume, root) = Image::mounted(96 * MIB, "extra_attr,quota");
    let files: Vec<_> = (0..100).map(|number| file(&mut volume, root, format!("{number}").as_bytes())).collect();
    for inode in &files {
        Changes::write(&mut volume, *inode, 0, Payload::Bytes(&vec![1; 100_000])).unwrap();
        volume.sync().unwrap();
    }
    for inode in &files {
        Changes::write(&mut volume, *inode, 0, Payload::Bytes(&[2; 50_000])).unwrap();
    }
    drop(image.remount(volume, "before"));
    let version = |volume: &WritableVolume<_>| volume.checkpoint_state().0.head.version.get();
    let mut volume = image.mount();
    let before = version(&volume);
    let _ = volume.collect_one(Collection::Foreground).unwrap();
    assert_eq!(version(&volume), before + 1, "a collection");
    drop(image.remount(volume, "collected"));
    let mut volume = image.mount();
    let quota = NodeId(volume.superblock().0.quota_inodes[0].get());
    let (before, at) = (version(&volume), volume.entry(quota).unwrap().address.get());
    let change = AttributeChange { uid: Some(77_777), ..AttributeChange::default() };
    volume.set_attributes(files[0], &change).unwrap();
    assert_eq!(version(&volume), before + 1, "a new owner");
    assert_eq!(volume.entry(quota).unwrap().address.get(), at, "the checkpoint wrote the quota file");
    drop(image.remount(volume, "owned"));
}
