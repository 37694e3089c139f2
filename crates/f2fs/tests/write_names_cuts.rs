//! Power cuts at every request while names come, go and move: after each, the tree is that of the
//! last checkpoint plus the names fsynced since, and nothing in between.

use crate::writing;

use crate::made::{clock, complaints};
use crate::writing::findings;
use crate::writing::oracle::{Image, Oracle, device_of, empty_image, image_of, write_image};
use crate::writing::trees::{Known, tree};
use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::write::Making;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::random::Random;

const STEPS: u32 = 220;

struct Shape {
    features: &'static str,
    options: WriteOptions,
    survival: Survival,
    seed: u64,
}

fn shapes() -> [Shape; 3] {
    let options = WriteOptions { ordered_fsync: true, ..WriteOptions::default() };
    let blocks = Making { inline_entries: false, ..Making::default() };
    [
        Shape { features: "", options, survival: Survival::Subset, seed: 1 },
        Shape {
            features: "extra_attr,inode_checksum,flexible_inline_xattr,quota,project_quota",
            options: WriteOptions { strict_fsync: true, ..options },
            survival: Survival::None,
            seed: 2,
        },
        Shape { features: "", options: WriteOptions { making: blocks, ..options }, survival: Survival::All, seed: 3 },
    ]
}

/// Runs up to a cut; returns the device and what may be on it. `None` if the run ends before.
fn cut_run(image: &Image, shape: &Shape, plan: DeviceCutPlan) -> Option<(RamDevice, Known)> {
    let device = CutDevice::new(device_of(image), plan);
    let mut volume = WritableVolume::mount(vec![device], clock(), shape.options).unwrap();
    let (mut known, mut random) = (Known::of(&volume), Random::new(shape.seed, "cuts of names"));
    let ended = (0..STEPS).try_for_each(|_| known.step(&mut volume, &mut random, &mut |_| ()));
    let device = volume.abandon().remove(0);
    if !device.is_off() {
        ended.unwrap();
        assert!(known.checkpoints > 5, "{} checkpoints", known.checkpoints);
        return None;
    }
    Some((device.into_inner().unwrap(), known))
}

#[test]
fn trees_are_whole_behind_cuts_at_every_request() {
    let scratch = tempfile::tempdir().unwrap();
    for shape in shapes() {
        let image = empty_image(shape.features);
        let (mut request, mut with_more) = (1, 0);
        loop {
            let moment = [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After];
            let plan = DeviceCutPlan::at(request, moment[request as usize % 3], shape.survival, request);
            let Some((device, known)) = cut_run(&image, &shape, plan) else { break };
            let context = format!("seed {}, {plan:?}", shape.seed);
            let volume = WritableVolume::mount(vec![device], clock(), shape.options);
            let volume = volume.unwrap_or_else(|error| panic!("{context}: {error}"));
            known.judge(&volume, &context);
            with_more += u32::from(tree(&volume) != known.durable);
            let device = writing::unmount(volume);
            let image = image_of(&device);
            assert_eq!(findings(device_of(&image)), Vec::<String>::new(), "{context}: check");
            if request % 17 == 0 {
                let path = scratch.path().join("image");
                write_image(&path, &image);
                assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
            }
            request += 1;
        }
        assert!(request > 60 && with_more > 5, "{request} requests, {with_more} trees with more than the checkpoint's");
    }
}
