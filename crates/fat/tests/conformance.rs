//! The conformance suite of file systems, and random operations compared with the model.

use crate::common::judges::judge_image;
use crate::common::*;
use nandkit_block::BlockDevice;
use nandkit_block::RamDevice;
use nandkit_fat::{Fat, FatKind, FormatOptions, MountOptions, format};
use nandkit_testkit::fs_suite::{self, FsMaker, VolumeSize};
use nandkit_testkit::listing::contents_of_volume;
use nandkit_testkit::model_compare::{self, Plan};
use nandkit_testkit::vfat::Judges;
use nandkit_units::{Clock, Context, Lba, Payload, ReadInto};
use nandkit_vfs::model::ModelOptions;

/// Makes volumes of one type. A remount is clean (unmounted, and its image judged), or uses the
/// volume as a crash after a sync leaves it.
struct Maker {
    kind: FatKind,
    options: MountOptions,
    clean: bool,
}

impl Maker {
    fn device(&self, volume: VolumeSize) -> RamDevice {
        let (bytes, cluster_size) = match (volume, self.kind) {
            (VolumeSize::Roomy, FatKind::Fat12) => (60 << 20, Some(16 << 10)),
            (VolumeSize::Roomy, FatKind::Fat16) => (64 << 20, Some(2048)),
            (VolumeSize::Roomy, FatKind::Fat32) => (40 << 20, Some(512)),
            (VolumeSize::Small, FatKind::Fat12) => (1 << 20, Some(1024)),
            (VolumeSize::Small, FatKind::Fat16) => (3 << 20, Some(512)),
            (VolumeSize::Small, FatKind::Fat32) => (36 << 20, Some(512)),
        };
        let mut device = ram(512, bytes);
        let options =
            FormatOptions { kind: Some(self.kind), cluster_size, root_entries: 8192, ..FormatOptions::default() };
        let options =
            if volume == VolumeSize::Small { FormatOptions { root_entries: 512, ..options } } else { options };
        let geometry = format(&mut device, &clock(), &options).unwrap();
        if volume == VolumeSize::Small && self.kind == FatKind::Fat32 {
            // No FAT32 volume is small: all clusters but the first 4,000 are marked bad.
            for copy in 0..geometry.fats {
                let start = geometry.fat_start(copy) / 512;
                let mut fat = vec![0; geometry.fat_bytes() as usize];
                device.read(&Context::default(), Lba(start), ReadInto::Bytes(&mut fat)).unwrap();
                for cluster in 4_002..geometry.clusters as usize + 2 {
                    fat[cluster * 4..cluster * 4 + 4].copy_from_slice(&0x0FFF_FFF7u32.to_le_bytes());
                }
                device.write(&Context::default(), Lba(start), Payload::Bytes(&fat)).unwrap();
            }
        }
        device
    }
}

impl FsMaker for Maker {
    type Fs = Fat<RamDevice>;

    fn make(&self, volume: VolumeSize) -> Self::Fs {
        mount(self.device(volume), self.options)
    }

    fn remount(&self, mut fs: Self::Fs) -> Self::Fs {
        let clock = fs.clock();
        let found = self.clean.then(|| contents_of_volume(&fs));
        if self.clean {
            fs.unmount().unwrap();
        }
        let mut device = fs.into_device();
        if let Some(found) = found {
            judge_image(&mut device, &found, Judges::ALL, "after an unmount");
        }
        let fs = Fat::mount(device, clock, self.options).unwrap();
        if let Some(report) = fs.recovery() {
            assert!(!self.clean, "an unmounted volume needed repair: {report:?}");
            // After a sync everything is in order, except for files without a name.
            assert_eq!(report.repairs() - report.lost_chains, 0, "{report:?}");
        }
        fs
    }

    fn clock(&self, fs: &Self::Fs) -> Clock {
        fs.clock()
    }
}

const MODEL: ModelOptions = ModelOptions::FAT;

fn conforms(kind: FatKind) {
    for (options, clean) in [(WRITE_THROUGH, true), (WRITE_BACK, true), (WRITE_THROUGH, false), (WRITE_BACK, false)] {
        if let Err(violations) = fs_suite::run(&Maker { kind, options, clean }) {
            panic!("{kind:?}, {options:?}, clean {clean}:\n{violations}");
        }
    }
}

#[test]
fn fat12_conforms() {
    conforms(FatKind::Fat12);
}

#[test]
fn fat16_conforms() {
    conforms(FatKind::Fat16);
}

#[test]
fn fat32_conforms() {
    conforms(FatKind::Fat32);
}

/// Compares 20,000 random operations per type with the model, with both kinds of cache, and clean
/// and unclean remounts.
fn agrees_with_the_model(kind: FatKind) {
    for (seed, options, clean) in
        [(1, WRITE_THROUGH, true), (2, WRITE_BACK, true), (3, WRITE_THROUGH, false), (4, WRITE_BACK, false)]
    {
        let plan = Plan::new(seed + 10 * u64::from(kind as u8), 3_000, MODEL);
        match model_compare::run(&Maker { kind, options, clean }, &plan) {
            Ok(summary) => assert_eq!(summary.operations, 3_000),
            Err(disagreement) => panic!("{kind:?}, {options:?}, clean {clean}:\n{disagreement}"),
        }
    }
}

#[test]
fn fat12_agrees_with_the_model() {
    agrees_with_the_model(FatKind::Fat12);
}

#[test]
fn fat16_agrees_with_the_model() {
    agrees_with_the_model(FatKind::Fat16);
}

#[test]
fn fat32_agrees_with_the_model() {
    agrees_with_the_model(FatKind::Fat32);
}
