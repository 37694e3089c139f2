//! Writable volumes, and the judges of what they leave.

#![allow(dead_code, reason = "each test uses its part")]

pub mod image;
pub mod oracle;
pub mod trees;

use std::path::Path;

use nandkit_block::{Access, BlockDevice, FileDevice};
use nandkit_f2fs::{WritableVolume, WriteOptions, check};
use nandkit_units::Clock;

use crate::made::{clock, complaints, open_image, patiently};

/// Opens an image for writing, with sectors as large as blocks.
pub fn open_to_write(path: &Path) -> FileDevice {
    patiently(|| FileDevice::open(path, 4096, Access::ReadWrite))
}

/// Mounts an image file for writing.
pub fn mount(path: &Path, options: WriteOptions) -> WritableVolume<FileDevice> {
    WritableVolume::mount(vec![open_to_write(path)], clock(), options).unwrap()
}

/// Unmounts a volume and returns its device.
pub fn unmount<D: BlockDevice + std::fmt::Debug>(volume: WritableVolume<D>) -> D {
    volume.unmount().map_err(|(_, error)| error).unwrap().remove(0)
}

/// The findings of our check; empty for a sound volume.
pub fn findings<D: BlockDevice>(device: D) -> Vec<String> {
    let report = check(vec![device], Clock::default()).unwrap();
    report.faults().map(ToString::to_string).collect()
}

/// Checks that neither fsck.f2fs nor our own check finds anything.
pub fn assert_sound(path: &Path, context: &str) {
    assert_eq!(complaints(path), Vec::<String>::new(), "{context}: fsck.f2fs");
    assert_eq!(findings(open_image(path)), Vec::<String>::new(), "{context}: check");
}
