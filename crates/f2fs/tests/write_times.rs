//! Times of overwrites wait in memory (lazytime) until a sync, an fsync, or a change of the inode.

use crate::made::clock;
use crate::writing::image::nid;
use crate::writing::oracle::{device_of, empty_image, page};
use crate::writing::{findings, unmount};
use nandkit_block::RamDevice;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::{Clock, Nanos, Payload};
use nandkit_vfs::{AttributeChange, Changes, FileSystem, InodeNumber, NewNode, Timestamp};

/// A synced volume with a file of one page; the clock is one second later.
fn volume_with_file() -> (WritableVolume<RamDevice>, Clock, InodeNumber) {
    let clock = clock();
    let mut volume =
        WritableVolume::mount(vec![device_of(&empty_image(""))], clock.clone(), WriteOptions::default()).unwrap();
    let root = volume.root();
    let file = volume.create(root, b"file", &NewNode::FILE).unwrap();
    volume.write(nid(file), 0, Payload::Bytes(&page(1, 0, 1))).unwrap();
    volume.sync().unwrap();
    clock.advance_by(Nanos::from_secs(1));
    (volume, clock, file)
}

fn overwrite(volume: &mut WritableVolume<RamDevice>, file: InodeNumber) {
    let data = page(1, 0, 2);
    assert_eq!(Changes::write(volume, file, 0, Payload::Bytes(&data)).unwrap(), data.len());
}

fn modified(volume: &WritableVolume<RamDevice>, file: InodeNumber) -> Timestamp {
    volume.stat(file).unwrap().modified
}

fn after_a_cut(volume: WritableVolume<RamDevice>, clock: &Clock) -> WritableVolume<RamDevice> {
    WritableVolume::mount(volume.abandon(), clock.clone(), WriteOptions::default()).unwrap()
}

#[test]
fn an_overwrite_is_seen_at_once_and_dirties_no_node() {
    let (mut volume, _, file) = volume_with_file();
    let before = modified(&volume, file);
    overwrite(&mut volume, file);
    assert_eq!(modified(&volume, file).0 - before.0, 1_000_000_000);
    assert!(volume.has_unsynced(nid(file)));
    // A waiting page and a time are nothing that a checkpoint records.
    assert!(!volume.is_changed());
    volume.checkpoint(Reason::Forced).unwrap();
    assert_eq!(modified(&volume, file).0 - before.0, 1_000_000_000);
}

#[test]
fn a_sync_and_an_unmount_take_the_times_along() {
    let (mut volume, clock, file) = volume_with_file();
    let before = modified(&volume, file);
    overwrite(&mut volume, file);
    volume.sync().unwrap();
    let mut volume = after_a_cut(volume, &clock);
    assert_eq!(modified(&volume, file).0 - before.0, 1_000_000_000);
    clock.advance_by(Nanos::from_secs(1));
    overwrite(&mut volume, file);
    let device = unmount(volume);
    let volume = WritableVolume::mount(vec![device], clock, WriteOptions::default()).unwrap();
    assert_eq!(modified(&volume, file).0 - before.0, 2_000_000_000);
    assert_eq!(findings(unmount(volume)), Vec::<String>::new());
}

#[test]
fn an_fsync_takes_them_along_and_one_of_data_alone_does_not() {
    for (data_only, later) in [(false, 1_000_000_000), (true, 0)] {
        let (mut volume, clock, file) = volume_with_file();
        let before = modified(&volume, file);
        overwrite(&mut volume, file);
        volume.fsync(nid(file), data_only).unwrap();
        let volume = after_a_cut(volume, &clock);
        assert_eq!(modified(&volume, file).0 - before.0, later, "data_only: {data_only}");
        let mut bytes = vec![0; 4096];
        volume.read_at(&volume.inode(file).unwrap(), 0, &mut bytes).unwrap();
        assert_eq!(bytes, page(1, 0, 2));
    }
}

#[test]
fn a_time_that_somebody_sets_is_not_undone_by_one_that_waited() {
    let (mut volume, clock, file) = volume_with_file();
    overwrite(&mut volume, file);
    let set = Timestamp(5_000_000_000);
    volume.set_attributes(file, &AttributeChange { modified: Some(set), ..AttributeChange::default() }).unwrap();
    volume.sync().unwrap();
    assert_eq!(modified(&volume, file), set);
    assert_eq!(modified(&after_a_cut(volume, &clock), file), set);
}

#[test]
fn a_file_that_is_removed_takes_its_time_with_it() {
    let (mut volume, clock, file) = volume_with_file();
    overwrite(&mut volume, file);
    let root = volume.root();
    volume.remove(root, b"file").unwrap();
    // Its number is free after a checkpoint, and may be reused.
    volume.sync().unwrap();
    let other = volume.create(root, b"other", &NewNode::FILE).unwrap();
    let made = modified(&volume, other);
    clock.advance_by(Nanos::from_secs(1));
    volume.sync().unwrap();
    assert_eq!(modified(&volume, other), made);
    assert_ne!(nid(other), NodeId(0));
    assert_eq!(findings(unmount(volume)), Vec::<String>::new());
}

#[test]
fn idle_times_take_them_along_with_their_checkpoint() {
    let (mut volume, clock, file) = volume_with_file();
    let before = modified(&volume, file);
    overwrite(&mut volume, file);
    for _ in 0..3 {
        clock.advance_to(volume.next_due());
        volume.work_when_idle().unwrap();
    }
    assert_eq!(modified(&after_a_cut(volume, &clock), file).0 - before.0, 1_000_000_000);
}
