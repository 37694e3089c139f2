//! Volumes of F2FS with anything changed in their metadata: checked, and read as far as they mount.
//!
//! An input is a list of changes to a volume that is made here (`volume/mod.rs`).

#![no_main]

mod volume;

use libfuzzer_sys::fuzz_target;
use nandkit_f2fs::{F2fs, MountOptions, check};
use nandkit_testkit::hostile;
use nandkit_units::Clock;

const FEATURES: &str = "extra_attr,inode_checksum,quota,lost_found,compression";

fuzz_target!(|data: &[u8]| {
    let device = volume::changed(FEATURES, data);
    let report = check(vec![device.clone()], Clock::default());
    if data.len() < 5 {
        assert_eq!(report.as_ref().unwrap().findings, [], "the base is sound");
    }
    if let Ok(volume) = F2fs::mount(device, Clock::default(), MountOptions { cached_blocks: 64 }) {
        hostile::roam(&volume, 1000);
    }
});
