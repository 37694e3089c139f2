//! Volumes of F2FS with anything changed in their metadata: checked, and read as far as they mount.
//!
//! An input is a list of changes to a volume that is made here (`volume/mod.rs`).

#![no_main]

mod volume;

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nandkit_block::RamDevice;
use nandkit_f2fs::{F2fs, MountOptions, check};
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::{FileKind, FileSystem};

const FEATURES: &str = "extra_attr,inode_checksum,quota,lost_found,compression";

/// Reads what can be reached, to a bounded depth.
fn roam(volume: &F2fs<RamDevice>) {
    let mut next = vec![(volume.root(), 0)];
    let mut steps = 0;
    while let Some((directory, depth)) = next.pop() {
        let mut found = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            found.push((entry.name.to_vec(), entry.inode, entry.kind));
            if found.len() < 500 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for (name, inode, kind) in found {
            steps += 1;
            if steps > 1000 {
                return;
            }
            let _ = volume.lookup(directory, &name);
            let _ = volume.read(inode, 3000, ReadInto::Bytes(&mut [0; 5000]));
            let _ = volume.symlinks().unwrap().read_link(inode);
            let _ = volume.xattrs().unwrap().all_xattrs(inode);
            if kind == FileKind::Directory && depth < 6 {
                next.push((inode, depth + 1));
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let device = volume::changed(FEATURES, data);
    let report = check(vec![device.clone()], Clock::default());
    if data.len() < 5 {
        assert_eq!(report.as_ref().unwrap().findings, [], "the base is sound");
    }
    if let Ok(volume) = F2fs::mount(device, Clock::default(), MountOptions { cached_blocks: 64 }) {
        roam(&volume);
    }
});
