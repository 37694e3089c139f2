//! Volumes of F2FS with anything changed in their metadata: mounted for writing, changed, unmounted
//! and checked; a sound one is mounted once more.
//!
//! An input is how the volume is mounted (one byte), how many operations follow (one byte, four
//! bytes each), and changes to a volume that is made here (`volume/mod.rs`). Where nothing was
//! changed, what is left must be sound.

#![no_main]

mod volume;

use libfuzzer_sys::fuzz_target;
use nandkit_block::RamDevice;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::write::ActiveLogs;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions, check};
use nandkit_units::{Clock, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, Links, NewNode, RenameFlags, XattrChanges};

const FEATURES: &str = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,lost_found,quota,project_quota";

/// Names of the base and new ones.
const NAMES: [&[u8]; 8] = [b"sizes", b"many", b"deep", b"link", b"lost+found", b"new", b"other", b"A longer name, new"];
const SIZES: [u64; 6] = [0, 100, 4096, 90_000, 5_000_000, u64::MAX - 9];

/// One operation; errors are fine.
fn operate(volume: &mut WritableVolume<RamDevice>, [what, who, how, more]: [u8; 4]) {
    let nid = NodeId(3 + u32::from(who) * 2);
    let inode = InodeNumber(u64::from(nid.0));
    let at = SIZES[usize::from(how) % SIZES.len()];
    let name = |number: u8| NAMES[usize::from(number) % NAMES.len()];
    let directory = if how & 0x80 == 0 { volume.root() } else { inode };
    let bytes = vec![what; [1, 3000, 5000, 200_000][usize::from(more) % 4]];
    // Each result may be an error.
    match what % 16 {
        0 | 1 => drop(volume.write(nid, at, Payload::Bytes(&bytes))),
        2 => drop(volume.truncate(nid, at)),
        3 => drop(volume.punch(nid, at, 70_000)),
        4 => drop(volume.allocate_range(nid, at, 90_000, more & 1 == 0)),
        5 => drop(volume.fsync(nid, more & 1 == 0)),
        6 => drop(volume.checkpoint(Reason::Sync)),
        7 => drop(volume.collect_one(if more & 1 == 0 { Collection::Foreground } else { Collection::Background })),
        8 => drop(volume.create(directory, name(more), &NewNode::FILE)),
        9 => drop(volume.create(directory, name(more), &NewNode::DIRECTORY)),
        10 => drop(volume.remove(directory, name(more))),
        11 => drop(volume.rename((volume.root(), name(who)), (directory, name(more)), RenameFlags::Replace)),
        12 => drop(volume.link(inode, directory, name(more))),
        13 => drop(volume.set_xattr(inode, b"user.fuzz", &bytes[..bytes.len().min(1000)])),
        14 => drop(FileSystem::read(volume, inode, at, ReadInto::Bytes(&mut [0; 5000]))),
        _ => drop(volume.sync()),
    }
}

fuzz_target!(|data: &[u8]| {
    let [how, count, rest @ ..] = data else { return };
    let (operations, edits) = rest.split_at(usize::from(count % 40 * 4).min(rest.len()));
    let logs = [ActiveLogs::Two, ActiveLogs::Four, ActiveLogs::Six, ActiveLogs::Six][usize::from(how & 3)];
    let options = WriteOptions {
        lfs: how & 4 == 0,
        strict_fsync: how & 8 == 0,
        logs,
        cached_blocks: 64,
        ..WriteOptions::default()
    };
    let device = volume::changed(FEATURES, edits);
    let Ok(mut mounted) = WritableVolume::mount(vec![device], Clock::default(), options) else {
        assert!(edits.len() >= 5, "the base is sound");
        return;
    };
    for operation in operations.chunks_exact(4) {
        operate(&mut mounted, [operation[0], operation[1], operation[2], operation[3]]);
    }
    let mut devices = match mounted.unmount() {
        Ok(devices) => devices,
        Err((stopped, _)) => stopped.abandon(),
    };
    let report = check(devices.iter_mut().collect(), Clock::default());
    if edits.len() < 5 {
        let report = report.as_ref().unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
    if report.is_ok_and(|report| report.is_clean()) {
        WritableVolume::mount(devices, Clock::default(), options).unwrap();
    }
});
