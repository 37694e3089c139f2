//! Volumes of UBIFS with anything changed in their nodes: mounted, read, and written as far as they
//! let themselves be written; what was written is mounted again.
//!
//! An input is a list of changes to a volume that is made here (`ubifs_volume/mod.rs`).

#![no_main]

mod ubifs_volume;

use libfuzzer_sys::fuzz_target;
use nandkit_testkit::hostile;
use nandkit_ubifs::{Ubifs, WriteOptions};
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{Changes, FileSystem, NewNode};

fuzz_target!(|data: &[u8]| {
    let Ok(volume) = Ubifs::mount(Box::new(ubifs_volume::changed(data))) else {
        assert!(data.len() >= 5, "the base is sound");
        return;
    };
    hostile::roam(&volume, 1000);
    let lebs = volume.into_lebs();
    let Ok(mut volume) = Ubifs::mount_for_writing(lebs, Clock::default(), WriteOptions::default()) else { return };
    let root = volume.root();
    for number in 0..12_u32 {
        let name = format!("other{number}");
        if let Ok(node) = volume.create(root, name.as_bytes(), &NewNode::FILE) {
            let _ = volume.write(node, u64::from(number) * 5000, Payload::Bytes(&[9; 9000]));
        }
        if number % 3 == 0 {
            let _ = volume.remove(root, name.as_bytes());
        }
        if number % 5 == 4 {
            let _ = volume.sync(None);
        }
    }
    if volume.unmount().is_ok() {
        hostile::roam(&Ubifs::mount(volume.into_lebs()).expect("what was written and unmounted"), 1000);
    }
});
