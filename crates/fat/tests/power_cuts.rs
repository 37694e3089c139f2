//! Power cuts at every request of a workload, and in the repair after it: what was synced is there, what was not is old or new, a rename is atomic, and
//! the repaired volume is clean to our checker (always) and to fsck.vfat (on a sample).

mod common;

use common::workload::{Oracle, judge, step, tree};
use common::*;
use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_fat::{Fat, FatKind, MountOptions, check};
use nandkit_units::random::Random;
use nandkit_vfs::ErrorKind;

struct Case {
    kind: FatKind,
    options: MountOptions,
    seed: u64,
    steps: u32,
}

/// Runs the workload until the cut; returns the device as the cut left it, or `None` where the workload ended before.
fn run_until_cut(case: &Case, base: &RamDevice, plan: DeviceCutPlan) -> (CutDevice<RamDevice>, Oracle, bool) {
    let mut fat = Fat::mount(CutDevice::new(base.clone(), plan), clock(), case.options).unwrap();
    let mut oracle = Oracle::default();
    let mut random = Random::new(case.seed, "cuts");
    let mut cut = false;
    for _ in 0..case.steps {
        if let Err(error) = step(&mut fat, &mut oracle, &mut random) {
            assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::ReadOnly), "{error}");
            cut = true;
            break;
        }
    }
    (fat.into_device(), oracle, cut)
}

fn cut_everywhere(case: &Case, plans: &[(DeviceCutMoment, Survival)], fsck_every: u64) -> u64 {
    let bytes = match case.kind {
        FatKind::Fat12 => 1 << 20,
        FatKind::Fat16 => 3 << 20,
        FatKind::Fat32 => 36 << 20,
    };
    let base = volume(case.kind, 512, Some(512), bytes);
    let (device, _, cut) = run_until_cut(case, &base, DeviceCutPlan::NONE);
    assert!(!cut);
    let requests = device.requests();
    let mut cuts = 0;
    for request in 1..=requests {
        for &(moment, survival) in plans {
            let plan = DeviceCutPlan::at(request, moment, survival, case.seed + request);
            let what = format!("{:?} seed {} {:?}: {plan}", case.kind, case.seed, case.options.cache);
            let (mut device, oracle, _) = run_until_cut(case, &base, plan);
            device.power_on();
            // Often the repair is cut too.
            let again = device.requests() + 1 + Random::new(plan.seed, "repair").below(6);
            device.set_plan(DeviceCutPlan::at(again, moment, survival, plan.seed));
            if let Err(error) = Fat::mount(&mut device, clock(), case.options) {
                assert_eq!(error.kind, ErrorKind::Device, "{what}: {error}");
            }
            device.power_on();
            device.set_plan(DeviceCutPlan::NONE);
            let mut fat = Fat::mount(device, clock(), case.options).unwrap_or_else(|error| panic!("{what}: {error}"));
            judge(&tree(&fat), &oracle, &what);
            fat.unmount().unwrap();
            let mut device = fat.into_device();
            let report = check(&mut device, &clock()).unwrap();
            assert!(report.is_clean(), "{what}: {:?}", report.findings);
            cuts += 1;
            if cuts % fsck_every == 0 {
                assert_clean(&device, &what);
            }
        }
    }
    cuts
}

const IN_ORDER: [(DeviceCutMoment, Survival); 2] =
    [(DeviceCutMoment::Inside, Survival::All), (DeviceCutMoment::After, Survival::All)];
const VOLATILE: [(DeviceCutMoment, Survival); 3] = [
    (DeviceCutMoment::Before, Survival::None),
    (DeviceCutMoment::Inside, Survival::Prefix),
    (DeviceCutMoment::Inside, Survival::Subset),
];

fn cuts(kind: FatKind, steps: u32) {
    // More by `NANDKIT_FAT_CUT_ROUNDS=50 cargo test -p nandkit-fat --test power_cuts`.
    let rounds = std::env::var("NANDKIT_FAT_CUT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut cuts = 0;
    for (seed, options) in
        (0..rounds).flat_map(|n| [(3 * n, WRITE_THROUGH), (3 * n + 1, WRITE_BACK), (3 * n + 2, WRITE_BACK)])
    {
        let case = Case { kind, options, seed: seed + 100_000 * kind as u64, steps };
        cuts += cut_everywhere(&case, &IN_ORDER, 60);
        cuts += cut_everywhere(&case, &VOLATILE, 60);
        // In-order devices need no barriers.
        let case = Case { options: MountOptions { barriers: false, ..options }, ..case };
        cuts += cut_everywhere(&case, &IN_ORDER, 60);
    }
    println!("{kind:?}: {cuts} cuts");
}

#[test]
fn fat12_survives_cuts_at_every_request() {
    cuts(FatKind::Fat12, 80);
}

#[test]
fn fat16_survives_cuts_at_every_request() {
    cuts(FatKind::Fat16, 80);
}

#[test]
fn fat32_survives_cuts_at_every_request() {
    cuts(FatKind::Fat32, 20);
}
