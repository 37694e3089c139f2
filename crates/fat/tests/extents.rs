//! The extents of files, in every type of FAT, with and without a cache.

use crate::common::*;
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_fat::{Fat, FatKind, FormatOptions, MountOptions, format};
use nandkit_testkit::fs_suite::extents::{self, DeviceMaker};
use nandkit_testkit::fs_suite::{FsMaker, VolumeSize};
use nandkit_units::{Clock, Context, Lba, ReadInto};

struct Maker {
    kind: FatKind,
    options: MountOptions,
}

impl FsMaker for Maker {
    type Fs = Fat<RamDevice>;

    fn make(&self, _volume: VolumeSize) -> Self::Fs {
        let (bytes, cluster_size) = match self.kind {
            FatKind::Fat12 => (60 << 20, Some(16 << 10)),
            FatKind::Fat16 => (64 << 20, Some(2048)),
            FatKind::Fat32 => (40 << 20, Some(512)),
        };
        let mut device = ram(512, bytes);
        let options = FormatOptions { kind: Some(self.kind), cluster_size, ..FormatOptions::default() };
        format(&mut device, &clock(), &options).unwrap();
        mount(device, self.options)
    }

    fn remount(&self, mut fs: Self::Fs) -> Self::Fs {
        fs.unmount().unwrap();
        let clock = fs.clock();
        Fat::mount(fs.into_device(), clock, self.options).unwrap()
    }

    fn clock(&self, fs: &Self::Fs) -> Clock {
        fs.clock()
    }
}

impl DeviceMaker for Maker {
    fn read_device(&self, fs: &Self::Fs, address: u64, into: &mut [u8]) -> Result<(), String> {
        let (first, within) = (address / 512, (address % 512) as usize);
        let mut bytes = vec![0; (within + into.len()).next_multiple_of(512)];
        let done = fs.with_device(|device| device.read(&Context::default(), Lba(first), ReadInto::Bytes(&mut bytes)));
        done.map_err(|error| error.to_string())?;
        into.copy_from_slice(&bytes[within..within + into.len()]);
        Ok(())
    }
}

#[test]
fn all_types_conform() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        for options in [WRITE_THROUGH, WRITE_BACK] {
            extents::run(&Maker { kind, options }).unwrap_or_else(|found| panic!("{kind:?}, {options:?}: {found}"));
        }
    }
}
