//! The short form of `cargo xtask soak f2fs`: cuts at each request, and within recoveries, on every
//! shape of volume.

use crate::made::clock;
use crate::soaking::shapes::shapes;
use crate::soaking::{CAUSES, Course, Tally, soak};
use crate::writing::oracle::{device_of, empty_image};
use crate::writing::{findings, unmount};
use nandkit_block::wrap::{DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_testkit::record::{MemoryDisk, RecordingDevice, RequestReplay};
use nandkit_vfs::{Changes, FileSystem, NewNode};

#[test]
fn cuts_on_every_shape_lose_nothing() {
    let course = Course { lives: 1, steps: 20, recovery_every: 8, fsck_every: 60, ..Course::USUAL };
    let mut tally = Tally::default();
    (0..shapes().len() as u64).for_each(|seed| soak(1000 * shapes().len() as u64 + seed, course, &mut tally));
    let of = |cause: usize| tally.cuts.iter().filter(|cut| cut.0 == cause).count();
    let counts: Vec<_> = CAUSES.iter().enumerate().map(|(cause, name)| (*name, of(cause))).collect();
    println!("{} cuts, {} volumes shown to fsck.f2fs: {counts:?}", tally.cuts.len(), tally.seen_by_fsck);
    assert!(tally.cuts.len() > 550 && tally.seen_by_fsck > 8, "{} cuts", tally.cuts.len());
    assert!(counts.iter().all(|(_, count)| *count > 10), "{counts:?}");
}

/// A pack's new first block with the old last one is no damage, although both are valid.
#[test]
fn a_pack_that_a_cut_left_between_its_ends_is_no_fault() {
    let mut medium = MemoryDisk::copy_of(&device_of(&empty_image(""))).unwrap();
    // Both packs are written, and the last one says that the volume was cleanly unmounted.
    for name in [b"one", b"two"] {
        let mut volume = WritableVolume::mount(vec![medium], clock(), WriteOptions::default()).unwrap();
        volume.create(volume.root(), name, &NewNode::FILE).unwrap();
        medium = unmount(volume);
    }
    let (device, log) = RecordingDevice::new(medium.clone());
    let mut volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    volume.create(volume.root(), b"three", &NewNode::FILE).unwrap();
    volume.checkpoint(Reason::Sync).unwrap();
    drop(volume.abandon());
    let (mut replay, mut left) = (RequestReplay::new(medium, log.take()), 0);
    while let Some((number, _)) = replay.peek() {
        let plan = DeviceCutPlan::at(number, DeviceCutMoment::Before, Survival::All, 1);
        let report = nandkit_f2fs::check(vec![replay.cut(plan).unwrap()], clock()).unwrap();
        left += u32::from(report.findings.iter().any(|found| found.detail.contains("as a cut leaves it")));
        assert_eq!(findings(replay.cut(plan).unwrap()), Vec::<String>::new(), "{plan:?}");
        replay.advance().unwrap();
    }
    assert!(left > 0, "no cut came between the two ends");
}
