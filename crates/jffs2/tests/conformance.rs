//! The conformance suite of file systems, and random operations compared with the model, on NAND
//! and NOR, in both byte orders.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::promise::formatted;
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{DamageKind, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_testkit::fs_suite::{self, FsMaker, VolumeSize};
use nandkit_testkit::model_compare::{self, Kind, Plan};
use nandkit_testkit::rounds;
use nandkit_units::{Clock, FlashGeometry};
use nandkit_vfs::Features;
use nandkit_vfs::check::Kind as _;
use nandkit_vfs::model::ModelOptions;

/// Number of nodes checked, and number of erases of the volume before that.
#[derive(Default)]
struct Checked {
    nodes: AtomicU64,
    erases: AtomicU64,
}

/// Makes volumes of one geometry. A remount uses the volume as it was left, and the counts must
/// agree with the nodes.
struct Maker {
    /// Block size in bytes, and the geometry of a device of a given size.
    geometry: fn(u32) -> FlashGeometry,
    erase_size: u32,
    options: MountOptions,
    /// The totals, if each remount checks the volume; then only names in removed directories may be
    /// found.
    checks: Option<Checked>,
}

impl FsMaker for Maker {
    type Fs = Jffs2<StrictFlash>;

    fn make(&self, volume: VolumeSize) -> Self::Fs {
        let bytes = match volume {
            VolumeSize::Roomy => 48 << 20,
            // Enough blocks for those that are kept.
            VolumeSize::Small => (2 << 20).max(24 * self.erase_size),
        };
        formatted((self.geometry)(bytes / self.erase_size), &self.options)
    }

    fn remount(&self, fs: Self::Fs) -> Self::Fs {
        fs.catalogue().recount().unwrap();
        let clock = self.clock(&fs);
        let fs = Jffs2::mount(fs.into_flash(), clock, self.options.clone()).unwrap();
        fs.catalogue().recount().unwrap();
        if let Some(checked) = &self.checks {
            let report = fs.check(false).unwrap();
            let wrong: Vec<_> =
                report.findings.iter().filter(|found| found.kind != DamageKind::Remains.name()).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
            checked.nodes.fetch_add(report.count("nodes"), Ordering::Relaxed);
            let erases = fs.flash().erases.iter().copied().map(u64::from).sum();
            checked.erases.fetch_max(erases, Ordering::Relaxed);
        }
        fs
    }

    fn clock(&self, fs: &Self::Fs) -> Clock {
        fs.clock().clone()
    }
}

fn makers() -> Vec<(&'static str, Maker)> {
    let maker = |geometry: fn(u32) -> FlashGeometry, erase_size, order, compression, use_summaries| {
        let write = WriteOptions { compression, ..WriteOptions::default() };
        let options = MountOptions { order: Some(order), use_summaries, write, ..MountOptions::default() };
        Maker { geometry, erase_size, options, checks: Option::None }
    };
    use CompressionMode::{None, Priority, Size};
    let (little, big) = (ByteOrder::Little, ByteOrder::Big);
    vec![
        ("NAND 128 KiB", maker(|blocks| FlashGeometry::nand(2048, 64, 64, blocks), 128 << 10, little, Priority, true)),
        ("NAND 16 KiB", maker(|blocks| FlashGeometry::nand(512, 16, 32, blocks), 16 << 10, big, None, true)),
        ("NOR 4 KiB", maker(|blocks| nor(4 << 10, blocks), 4 << 10, little, Size, false)),
        ("NOR 64 KiB", maker(|blocks| nor(64 << 10, blocks), 64 << 10, big, Priority, true)),
    ]
}

/// What the format can store.
const MODEL: ModelOptions = ModelOptions {
    features: Features {
        exchange: false,
        atomic_writes: false,
        owner_max: u16::MAX as u32,
        modified_step_ns: 1_000_000_000,
        ..ModelOptions::POSIX.features
    },
    name_max: 254,
    file_size_max: u32::MAX as u64 >> 1,
    xattr_value_max: 3000,
    target_max: 254,
    allocation: false,
    ..ModelOptions::POSIX
};

fn conforms(number: usize) {
    let (name, maker) = makers().swap_remove(number);
    if let Err(violations) = fs_suite::run(&maker) {
        panic!("{name}:\n{violations}");
    }
}

#[test]
fn nand_of_128_kib_conforms() {
    conforms(0);
}

#[test]
fn nand_of_16_kib_conforms() {
    conforms(1);
}

#[test]
fn nor_of_4_kib_conforms() {
    conforms(2);
}

#[test]
fn nor_of_64_kib_conforms() {
    conforms(3);
}

/// Number of operations for each geometry; more by `NANDKIT_ROUNDS`.
#[test]
fn agrees_with_the_model() {
    let operations = rounds::count(2000) as u32;
    for (seed, (name, maker)) in makers().iter().enumerate() {
        let mut plan = Plan::new(seed as u64 + 1, operations, MODEL);
        // Comparisons and remounts cost time in proportion to the volume, so long runs have about
        // as many of them as short ones.
        let rarer = (operations / 10_000).max(1);
        plan.compare_every *= rarer;
        for (_, weight) in plan.weights.iter_mut().filter(|(kind, _)| *kind != Kind::Remount) {
            *weight *= rarer;
        }
        match model_compare::run(maker, &plan) {
            Ok(summary) => assert_eq!(summary.operations, operations),
            Err(disagreement) => panic!("{name}:\n{disagreement}"),
        }
    }
}

/// Does thousands of operations with the collector at work on a nearly full volume, and a check
/// after each remount.
#[test]
fn a_check_of_an_aged_volume_finds_nothing_but_remains() {
    for (seed, (name, mut maker)) in makers().into_iter().enumerate() {
        maker.checks = Some(Checked::default());
        let plan =
            Plan { volume_size: VolumeSize::Small, file_bytes_max: 40_000, ..Plan::new(seed as u64 + 7, 6_000, MODEL) };
        match model_compare::run(&maker, &plan) {
            Ok(summary) => assert_eq!(summary.operations, 6_000),
            Err(disagreement) => panic!("{name}:\n{disagreement}"),
        }
        let Checked { nodes, erases } = maker.checks.unwrap();
        let (nodes, erases) = (nodes.into_inner(), erases.into_inner());
        let blocks = u64::from((2_u32 << 20).max(24 * maker.erase_size) / maker.erase_size);
        assert!(nodes > 6_000 && erases > 2 * blocks, "{name}: {nodes} nodes checked, {erases} erases");
    }
}
