//! Volumes that are written: the conformance suite, and random operations compared with the model.

use nandkit_codec::compression::Compression;
use nandkit_testkit::clock;
use nandkit_testkit::fs_suite::{self, FsMaker, VolumeSize};
use nandkit_testkit::model_compare::{self, Kind, Plan};
use nandkit_testkit::rounds;
use nandkit_ubifs::{BuildOptions, Lebs as _, Ubifs, WriteOptions};
use nandkit_units::Clock;
use nandkit_vfs::Features;
use nandkit_vfs::model::ModelOptions;

use crate::strict_lebs::{Cut, StrictLebs, strict};

/// What the format can store.
pub const MODEL: ModelOptions = ModelOptions {
    features: Features { posix_acls: false, atomic_writes: false, ..ModelOptions::POSIX.features },
    name_max: 255,
    file_size_max: 1 << 41,
    xattr_value_max: 4096,
    target_max: 4096,
    allocation: false,
    ..ModelOptions::POSIX
};

/// Makes volumes of one shape; a remount uses the volume as it was left, and checks it.
pub struct Maker {
    pub options: BuildOptions,
}

/// A mounted volume with its clock. Where pages are small, some of files wait in memory.
fn mounted(lebs: StrictLebs, clock: Clock) -> Ubifs {
    let dirty_max = if lebs.leb_size() == 15_360 { 20 * 4096 } else { 0 };
    let options = WriteOptions { dirty_max, ..WriteOptions::default() };
    Ubifs::mount_for_writing(Box::new(lebs), clock, options).unwrap()
}

impl FsMaker for Maker {
    type Fs = Ubifs;

    fn make(&self, volume: VolumeSize) -> Self::Fs {
        let bytes = match volume {
            VolumeSize::Roomy => 96 << 20,
            VolumeSize::Small => 3 << 20,
        };
        let lebs = (bytes / self.options.leb_size).max(40);
        let options = BuildOptions { leb_count_max: lebs, ..self.options.clone() };
        mounted(StrictLebs::formatted(&options), clock())
    }

    fn remount(&self, fs: Self::Fs) -> Self::Fs {
        let clock = self.clock(&fs);
        let lebs = strict(fs.into_lebs()).copy(Cut::default());
        let fs = mounted(lebs.clone(), clock);
        let report = Ubifs::mount(Box::new(lebs)).unwrap().check().unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        fs
    }

    fn clock(&self, fs: &Self::Fs) -> Clock {
        fs.clock().unwrap().clone()
    }
}

/// Shapes of volumes, by name.
pub fn shapes() -> Vec<(&'static str, BuildOptions)> {
    let plain = BuildOptions { compression: Compression::None, ..BuildOptions::default() };
    vec![
        ("pages of 2 KiB", BuildOptions { min_io_size: 2048, leb_size: 126_976, ..plain.clone() }),
        ("pages of 512 bytes", BuildOptions { min_io_size: 512, leb_size: 15_360, fanout: 4, ..plain.clone() }),
        ("NOR", BuildOptions { min_io_size: 8, leb_size: 65_408, compression: Compression::Lzo, ..plain }),
    ]
}

fn conforms(number: usize) {
    let (name, options) = shapes().swap_remove(number);
    if let Err(violations) = fs_suite::run(&Maker { options }) {
        panic!("{name}:\n{violations}");
    }
}

#[test]
fn pages_of_2_kib_conform() {
    conforms(0);
}

#[test]
fn pages_of_512_bytes_conform() {
    conforms(1);
}

#[test]
fn nor_conforms() {
    conforms(2);
}

/// Number of operations for each shape; more by `NANDKIT_ROUNDS`.
#[test]
fn agrees_with_the_model() {
    let operations = rounds::count(1400) as u32;
    for (seed, (name, options)) in shapes().into_iter().enumerate() {
        let mut plan = Plan::new(seed as u64 + 1, operations, MODEL);
        let rarer = (operations / 10_000).max(1);
        plan.compare_every *= rarer;
        for (_, weight) in plan.weights.iter_mut().filter(|(kind, _)| *kind != Kind::Remount) {
            *weight *= rarer;
        }
        match model_compare::run(&Maker { options }, &plan) {
            Ok(summary) => assert_eq!(summary.operations, operations),
            Err(disagreement) => panic!("{name}:\n{disagreement}"),
        }
    }
}
