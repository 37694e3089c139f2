//! What F2FS promises after a power cut: durable data is there, and everything else is old or new.
//! Names, links, modes and attributes are tested as for all formats; `writing/oracle.rs` tests what
//! is specific to F2FS: fsyncs of files, drafts, checkpoints and collections.

use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_testkit::durability::{History, Promise, State, observe, step};
use nandkit_units::random::Random;

use crate::made::clock;
use crate::writing::oracle::{Image, device_of, empty_image, image_of};
use crate::writing::{findings, unmount};

const PROMISE: Promise = Promise::SyncedOnly;

/// Operations per run.
const STEPS: usize = 300;

/// Runs up to a cut and returns what the cut left; `None` if the run ends before.
fn cut_run(image: &Image, options: WriteOptions, plan: DeviceCutPlan, seed: u64) -> Option<(RamDevice, History)> {
    let mut volume = WritableVolume::mount(vec![CutDevice::new(device_of(image), plan)], clock(), options).unwrap();
    let (mut history, mut random) = (History::new(State::empty()), Random::new(seed, "what to do"));
    let ended = (0..STEPS).try_for_each(|_| step(&mut volume, &mut history, &mut random).map(drop));
    let device = volume.abandon().remove(0);
    if !device.is_off() {
        ended.unwrap();
        return None;
    }
    Some((device.into_inner().unwrap(), history))
}

#[test]
fn what_was_synced_survives_cuts_at_every_request() {
    use DeviceCutMoment::{After, Before, Inside};
    let in_place = WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() };
    let log_structured = WriteOptions { lfs: true, ..WriteOptions::default() };
    let shapes = [
        ("", WriteOptions::default(), Survival::Subset),
        ("extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr", in_place, Survival::All),
        ("", log_structured, Survival::Prefix),
    ];
    for (seed, (features, options, survival)) in (1..).zip(shapes) {
        let image = empty_image(features);
        let mut cuts = 0;
        for request in 1.. {
            let moment = [Before, Inside, After][request as usize % 3];
            let plan = DeviceCutPlan::at(request, moment, survival, request);
            let Some((device, history)) = cut_run(&image, options, plan, seed) else { break };
            let context = format!("seed {seed}, {plan:?}");
            let volume = WritableVolume::mount(vec![device], clock(), options);
            let volume = volume.unwrap_or_else(|error| panic!("{context}: {error}"));
            let judged = history.judge(&observe(&volume), history.under_way(), PROMISE);
            judged.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
            let wrong = findings(device_of(&image_of(&unmount(volume))));
            assert_eq!(wrong, Vec::<String>::new(), "{context}: check");
            cuts += 1;
        }
        assert!(cuts > 60, "seed {seed}: {cuts} cuts only");
    }
}
