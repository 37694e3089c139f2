//! Power cuts at every request of a workload, and in the repair after it: what was synced is there,
//! what was not is old or new, a rename is atomic, and the repaired volume is clean to our checker
//! (always), to fsck.vfat (each 20th), and read alike by mtools and the fatfs crate (each 100th).

use crate::common::judges::judge_image;
use crate::common::*;
use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_fat::{Fat, FatKind, FileSync, MountOptions};
use nandkit_testkit::durability::per_file::{History, step};
use nandkit_testkit::listing::contents_of_volume;
use nandkit_testkit::rounds;
use nandkit_testkit::vfat::Judges;
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, NewNode};

struct Case {
    kind: FatKind,
    options: MountOptions,
    seed: u64,
    steps: u32,
}

/// Runs the workload until the cut. Returns the device as the cut left it, the history, and whether
/// it was cut.
fn run_until_cut(case: &Case, base: &RamDevice, plan: DeviceCutPlan) -> (CutDevice<RamDevice>, History, bool) {
    let mut fat = Fat::mount(CutDevice::new(base.clone(), plan), clock(), case.options).unwrap();
    let mut history = History::default();
    let mut random = Random::new(case.seed, "cuts");
    let mut cut = false;
    for _ in 0..case.steps {
        if let Err(error) = step(&mut fat, &mut history, &mut random) {
            assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
            cut = true;
            break;
        }
    }
    (fat.into_device(), history, cut)
}

/// Cuts at every request of the workload. Returns `before` plus the number of cuts.
fn cut_everywhere(case: &Case, plans: &[(DeviceCutMoment, Survival)], before: u64) -> u64 {
    let bytes = match case.kind {
        FatKind::Fat12 => 1 << 20,
        FatKind::Fat16 => 3 << 20,
        FatKind::Fat32 => 36 << 20,
    };
    let base = volume(case.kind, 512, Some(512), bytes);
    let (mut device, history, cut) = run_until_cut(case, &base, DeviceCutPlan::NONE);
    assert!(!cut);
    let requests = device.requests();
    judge_uncut(&mut device, case, &history);
    let mut cuts = before;
    for request in 1..=requests {
        for &(moment, survival) in plans {
            let plan = DeviceCutPlan::at(request, moment, survival, case.seed + request);
            let what = format!("{:?} seed {} {:?}: {plan:?}", case.kind, case.seed, case.options.cache);
            let (mut device, history, _) = run_until_cut(case, &base, plan);
            device.power_on();
            // In most runs the repair is cut too.
            let again = device.requests() + 1 + Random::new(plan.seed, "repair").below(6);
            device.set_plan(DeviceCutPlan::at(again, moment, survival, plan.seed));
            if let Err(error) = Fat::mount(&mut device, clock(), case.options) {
                assert_eq!(error.kind, ErrorKind::Device, "{what}: {error}");
            }
            device.power_on();
            device.set_plan(DeviceCutPlan::NONE);
            let mut fat = Fat::mount(device, clock(), case.options).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = contents_of_volume(&fat);
            history.judge(&found).unwrap_or_else(|said| panic!("{what}: {said}"));
            fat.unmount().unwrap();
            cuts += 1;
            judge_image(&mut fat.into_device(), &found, Judges::after_cut(cuts), &what);
        }
    }
    cuts
}

/// Judges the image after a run without a cut.
fn judge_uncut(device: &mut CutDevice<RamDevice>, case: &Case, history: &History) {
    let what = format!("{:?} seed {} {:?}, not cut", case.kind, case.seed, case.options.cache);
    let mut fat = Fat::mount(device, clock(), case.options).unwrap();
    let found = contents_of_volume(&fat);
    fat.unmount().unwrap();
    history.judge(&found).unwrap_or_else(|said| panic!("{what}: {said}"));
    judge_image(fat.into_device(), &found, Judges::ALL, &what);
}

const IN_ORDER: [(DeviceCutMoment, Survival); 2] =
    [(DeviceCutMoment::Inside, Survival::All), (DeviceCutMoment::After, Survival::All)];
const VOLATILE: [(DeviceCutMoment, Survival); 3] = [
    (DeviceCutMoment::Before, Survival::None),
    (DeviceCutMoment::Inside, Survival::Prefix),
    (DeviceCutMoment::Inside, Survival::Subset),
];

/// Runs the number of rounds that the environment asks for, with at least `each_round` cuts each.
fn cuts(kind: FatKind, steps: u32, each_round: u64) {
    // More by `NANDKIT_ROUNDS=50 cargo test -p nandkit-fat --test all promise::`.
    let rounds = rounds::count(1);
    let mut cuts = 0;
    for (seed, options) in
        (0..rounds).flat_map(|n| [(3 * n, WRITE_THROUGH), (3 * n + 1, WRITE_BACK), (3 * n + 2, WRITE_BACK)])
    {
        let case = Case { kind, options, seed: seed + 100_000 * kind as u64, steps };
        cuts = cut_everywhere(&case, &IN_ORDER, cuts);
        cuts = cut_everywhere(&case, &VOLATILE, cuts);
        // In-order devices need no barriers.
        let case = Case { options: MountOptions { barriers: false, ..options }, ..case };
        cuts = cut_everywhere(&case, &IN_ORDER, cuts);
    }
    assert!(cuts >= rounds * each_round, "{kind:?}: {cuts} cuts in {rounds} rounds, expected {each_round} in each");
}

#[test]
fn fat12_survives_cuts_at_every_request() {
    cuts(FatKind::Fat12, 80, 2_500);
}

#[test]
fn fat16_survives_cuts_at_every_request() {
    cuts(FatKind::Fat16, 80, 2_500);
}

#[test]
fn fat32_survives_cuts_at_every_request() {
    cuts(FatKind::Fat32, 20, 500);
}

/// As with Linux's `fsync`, the synced file's content is durable. Other files' data in memory are
/// not, though their names and sizes may be. A later write finds a sound volume.
#[test]
fn a_sync_of_one_file_leaves_the_data_of_others_in_memory() {
    let options = MountOptions { file_sync: FileSync::OwnData, ..WRITE_BACK };
    let mut fat = mount(volume(FatKind::Fat16, 512, Some(2048), 16 << 20), options);
    let content = |byte: u8| vec![byte; 10_000];
    let root = fat.root();
    let made = |fat: &mut Fat<RamDevice>, name: &str, byte: u8| {
        let inode = fat.create(root, name.as_bytes(), &NewNode::FILE).unwrap();
        Changes::write(fat, inode, 0, Payload::Bytes(&content(byte))).unwrap();
        inode
    };
    let removed = made(&mut fat, "GONE", 1);
    Changes::sync(&mut fat, Some(removed)).unwrap();
    made(&mut fat, "DATA", 2);
    fat.remove(root, b"GONE").unwrap();
    let marker = made(&mut fat, "MARKER", 3);
    Changes::sync(&mut fat, Some(marker)).unwrap();
    // The volume as a cut leaves it, and as it continues.
    let cut = mount(fat.device_mut().clone(), options);
    let found = contents_of_volume(&cut);
    let of = |name: &str| found.get(name).and_then(|file| file.as_deref());
    assert_eq!(of("MARKER"), Some(&content(3)[..]));
    assert!(of("DATA") != Some(&content(2)[..]) && of("GONE").is_none());
    let more = made(&mut fat, "MORE", 4);
    Changes::sync(&mut fat, Some(more)).unwrap();
    fat.unmount().unwrap();
    let mut device = fat.into_device();
    let found = contents_of_volume(&mount(device.clone(), options));
    let of = |name: &str| found.get(name).and_then(|file| file.as_deref());
    assert!([("DATA", 2), ("MARKER", 3), ("MORE", 4)].iter().all(|(name, byte)| of(name) == Some(&content(*byte)[..])));
    judge_image(&mut device, &found, Judges::ALL, "unmounted");
}
