//! Atomic writes: a commit is all or nothing at every cut, and the result is sound to fsck.f2fs and
//! our check.

use crate::made::{clock, complaints};
use crate::writing::oracle::{BLOCK, SECTORS, device_of, empty_image, image_of};
use crate::writing::{findings, unmount};
use nandkit_block::BlockDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::random::hash;
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{AtomicWrites, Changes, FileSystem, InodeNumber, NewNode};

const FEATURES: [&str; 2] = ["", "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr"];

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (hash(seed, at, 9) as u8).max(1)).collect()
}

fn content<D: BlockDevice>(volume: &WritableVolume<D>, inode: InodeNumber) -> Vec<u8> {
    let mut bytes = vec![0; volume.stat(inode).unwrap().size as usize];
    volume.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// The writes of one draft over a file of 5 MB with several nodes: in the middle, around node
/// borders, and past the end.
const WRITES: [(u64, usize); 5] =
    [(10_000, 9000), (3_770_000, 30_000), (100, 10), (4_999_000, 90_000), (1 << 20, 4096)];

fn changed(old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    for (number, (at, length)) in WRITES.into_iter().enumerate() {
        new.resize(new.len().max(at as usize + length), 0);
        new[at as usize..][..length].copy_from_slice(&pattern(length, 50 + number as u64));
    }
    new
}

/// What a scenario does between starting the draft and committing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    /// A checkpoint that includes the draft with some of its blocks.
    Checkpoint,
    /// An fsync of another file, so that the chain has its nodes.
    OtherFsync,
    /// The file itself was made and fsynced since the checkpoint, so it is in the chain.
    NewFile,
}

fn commit<D: BlockDevice>(volume: &mut WritableVolume<D>, between: Between, new_file: bool) -> nandkit_vfs::Result<()> {
    let name: &[u8] = if new_file { b"new" } else { b"file" };
    let inode = volume.lookup(volume.root(), name)?;
    let draft = volume.begin_atomic(inode)?;
    for (number, (at, length)) in WRITES.into_iter().enumerate() {
        Changes::write(volume, draft, at, Payload::Bytes(&pattern(length, 50 + number as u64)))?;
        match (number, between) {
            (2, Between::Checkpoint) => {
                volume.sync()?;
            }
            (2, Between::OtherFsync) => {
                let other = volume.lookup(volume.root(), b"other")?;
                Changes::write(volume, other, 5000, Payload::Bytes(&pattern(5000, 7)))?;
                Changes::sync(volume, Some(other))?;
            }
            _ => {}
        }
    }
    volume.commit_atomic(draft)
}

#[test]
fn a_cut_at_any_request_leaves_the_file_old_or_new() {
    let scratch = tempfile::tempdir().unwrap();
    let old = pattern(5_000_000, 1);
    let new = changed(&old);
    for (features, between) in [
        (FEATURES[0], Between::Nothing),
        (FEATURES[1], Between::Checkpoint),
        (FEATURES[0], Between::OtherFsync),
        (FEATURES[1], Between::NewFile),
    ] {
        let options = WriteOptions { ordered_fsync: true, ..WriteOptions::default() };
        let mut volume = WritableVolume::mount(vec![device_of(&empty_image(features))], clock(), options).unwrap();
        let root = volume.root();
        for name in [&b"file"[..], b"other"] {
            let inode = volume.create(root, name, &NewNode::FILE).unwrap();
            Changes::write(&mut volume, inode, 0, Payload::Bytes(&old)).unwrap();
        }
        volume.sync().unwrap();
        let image = image_of(&unmount(volume));
        for survival in [Survival::Subset, Survival::None, Survival::All] {
            let (mut request, mut seen) = (1, [0; 2]);
            loop {
                let moment =
                    [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][request as usize % 3];
                let plan = DeviceCutPlan::at(request, moment, survival, request);
                let context = format!("{between:?}, {plan:?}");
                let mut volume =
                    WritableVolume::mount(vec![CutDevice::new(device_of(&image), plan)], clock(), options).unwrap();
                volume.segments_mut().sit_mut().keep_truth();
                let is_new = between == Between::NewFile;
                let prepared = if is_new { prepare_new(&mut volume, &old) } else { Ok(()) };
                let was_prepared = prepared.is_ok();
                let done = prepared.and_then(|()| commit(&mut volume, between, is_new));
                let device = volume.abandon().remove(0);
                if !device.is_off() {
                    done.unwrap();
                    break;
                }
                let device = device.into_inner().unwrap();
                let volume = WritableVolume::mount(vec![device], clock(), options)
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = volume.lookup(volume.root(), if is_new { b"new" } else { b"file" });
                if was_prepared || found.is_ok() && !is_new {
                    let found = content(&volume, found.unwrap_or_else(|error| panic!("{context}: {error}")));
                    assert!(found == old || found == new, "{context}: the file is a mix");
                    assert!(done.is_err() || found == new, "{context}: what was committed is lost");
                    seen[usize::from(found == new)] += 1;
                }
                // No draft is left.
                let device = unmount(volume);
                let after = image_of(&device);
                assert_eq!(findings(device_of(&after)), Vec::<String>::new(), "{context}: check");
                if request % 7 == 0 {
                    let path = scratch.path().join("image");
                    let mut bytes = vec![0; SECTORS as usize * BLOCK];
                    for (sector, content) in after {
                        bytes[sector as usize * BLOCK..][..BLOCK].copy_from_slice(&content);
                    }
                    std::fs::write(&path, bytes).unwrap();
                    assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
                }
                request += 1;
            }
            println!("{between:?}, {survival:?}: {request} requests, {seen:?} old and new");
            assert!(request > 4 && seen[0] > 0, "{between:?}: {request} requests, {seen:?}");
        }
    }
}

fn prepare_new<D: BlockDevice>(volume: &mut WritableVolume<D>, old: &[u8]) -> nandkit_vfs::Result<()> {
    let inode = volume.create(volume.root(), b"new", &NewNode::FILE)?;
    Changes::write(volume, inode, 0, Payload::Bytes(old))?;
    Changes::sync(volume, Some(inode))
}

/// A commit of a single batch needs no checkpoint and leaves one marked node on the device.
#[test]
fn a_commit_is_no_checkpoint() {
    let mut volume =
        WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), WriteOptions::default()).unwrap();
    let inode = volume.create(volume.root(), b"file", &NewNode::FILE).unwrap();
    Changes::write(&mut volume, inode, 0, Payload::Bytes(&pattern(5_000_000, 1))).unwrap();
    volume.sync().unwrap();
    let version = volume.checkpoint_state().0.head.version.get();
    for round in 0..5 {
        let draft = volume.begin_atomic(inode).unwrap();
        Changes::write(&mut volume, draft, round * 900_000, Payload::Bytes(&pattern(20_000, round))).unwrap();
        volume.commit_atomic(draft).unwrap();
    }
    assert_eq!(volume.checkpoint_state().0.head.version.get(), version);
    assert_eq!(volume.orphans().count(), 0);
    volume.checkpoint(Reason::Sync).unwrap();
    let expected = content(&volume, inode);
    let volume = WritableVolume::mount(vec![volume.abandon().remove(0)], clock(), WriteOptions::default()).unwrap();
    assert!(content(&volume, inode) == expected);
}

/// Pending times of an overwrite do not replace those of a later commit.
#[test]
fn a_commit_has_the_last_word_on_times() {
    let clock = clock();
    let mut volume =
        WritableVolume::mount(vec![device_of(&empty_image(""))], clock.clone(), WriteOptions::default()).unwrap();
    let root = volume.root();
    let inode = volume.create(root, b"file", &NewNode::FILE).unwrap();
    Changes::write(&mut volume, inode, 0, Payload::Bytes(&pattern(20_000, 1))).unwrap();
    volume.sync().unwrap();
    clock.advance_by(nandkit_units::Nanos::from_secs(10));
    Changes::write(&mut volume, inode, 0, Payload::Bytes(&pattern(10, 2))).unwrap();
    let draft = volume.begin_atomic(inode).unwrap();
    clock.advance_by(nandkit_units::Nanos::from_secs(10));
    Changes::write(&mut volume, draft, 4096, Payload::Bytes(&pattern(10, 3))).unwrap();
    volume.commit_atomic(draft).unwrap();
    let now = volume.stat(inode).unwrap().modified;
    volume.sync().unwrap();
    assert_eq!(volume.stat(inode).unwrap().modified, now);
    let made = volume.create(root, b"now", &NewNode::FILE).unwrap();
    assert_eq!(volume.stat(made).unwrap().modified, now);
}
