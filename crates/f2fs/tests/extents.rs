//! Extents of files, as reported by writable and by read-only volumes.

use std::ops::ControlFlow;

use crate::made::{clock, everything};
use crate::writing::unmount;
use nandkit_block::RamDevice;
use nandkit_f2fs::Blocks;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{BlockAddress, F2fs, MountOptions, WritableVolume, WriteOptions};
use nandkit_testkit::fs_suite::extents::{self, DeviceMaker};
use nandkit_testkit::fs_suite::{FsMaker, VolumeSize};
use nandkit_units::{Cause, Clock};
use nandkit_vfs::{ExtentKind, FileKind, FileSystem, InodeNumber};

struct Maker {
    features: &'static str,
    options: WriteOptions,
}

impl FsMaker for Maker {
    type Fs = WritableVolume<RamDevice>;

    fn make(&self, _volume: VolumeSize) -> Self::Fs {
        let mut device = RamDevice::with_sectors(4096, 96 << 8).unwrap();
        let options = MkfsOptions { features: features_named(self.features).unwrap(), ..MkfsOptions::default() };
        Mkfs::new(&EmptyTree::new(&options), options.clone()).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
        WritableVolume::mount(vec![device], clock(), self.options).unwrap()
    }

    fn remount(&self, fs: Self::Fs) -> Self::Fs {
        WritableVolume::mount(vec![unmount(fs)], clock(), self.options).unwrap()
    }

    fn clock(&self, _fs: &Self::Fs) -> Clock {
        clock()
    }
}

/// Reads bytes of the volume from the device.
fn read(blocks: &impl Blocks, address: u64, into: &mut [u8]) -> Result<(), String> {
    let (first, within) = (address / 4096, (address % 4096) as usize);
    let mut bytes = vec![0; (within + into.len()).next_multiple_of(4096)];
    blocks.read(Cause::UserData, BlockAddress(first as u32), &mut bytes).map_err(|error| error.to_string())?;
    into.copy_from_slice(&bytes[within..within + into.len()]);
    Ok(())
}

impl DeviceMaker for Maker {
    fn read_device(&self, fs: &Self::Fs, address: u64, into: &mut [u8]) -> Result<(), String> {
        read(fs, address, into)
    }
}

#[test]
fn a_volume_that_is_written_conforms() {
    let newer = "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr";
    for (features, lfs, ipu_policy) in [("", false, None), (newer, false, Some(0)), ("", true, None)] {
        let options = WriteOptions { lfs, ipu_policy, ..WriteOptions::default() };
        extents::run(&Maker { features, options }).unwrap_or_else(|found| panic!("{features:?}, lfs {lfs}: {found}"));
    }
}

/// Checks the extents of all regular files; returns how many there are of each kind.
fn judge_all(volume: &(impl FileSystem + Blocks), context: &str) -> [usize; 5] {
    let (mut counts, mut pending) = ([0; 5], vec![volume.root()]);
    while let Some(directory) = pending.pop() {
        let mut files: Vec<(Vec<u8>, InodeNumber)> = Vec::new();
        let listed = volume.read_dir(directory, 0, &mut |entry| {
            match entry.kind {
                FileKind::Directory => pending.push(entry.inode),
                FileKind::Regular => files.push((entry.name.to_vec(), entry.inode)),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        listed.unwrap();
        for (name, inode) in files {
            let judged = extents::judge(volume, inode, &|address, into: &mut [u8]| read(volume, address, into));
            let name = String::from_utf8_lossy(&name).into_owned();
            for extent in judged.unwrap_or_else(|wrong| panic!("{context}, {name}: {wrong}")) {
                counts[extent.kind as usize] += 1;
            }
        }
    }
    counts
}

#[test]
fn a_tree_of_all_sizes_lies_where_readers_are_told() {
    let features = "extra_attr,inode_checksum,flexible_inline_xattr";
    let options = MkfsOptions { features: features_named(features).unwrap(), ..MkfsOptions::default() };
    let mut device = RamDevice::with_sectors(4096, 128 << 8).unwrap();
    let tree = everything();
    Mkfs::new(&tree, options).unwrap().write(&mut device, &clock(), &|_| {}).unwrap();
    let reader = F2fs::mount(device, clock(), MountOptions::default()).unwrap();
    let of_reader = judge_all(&reader, "read-only");
    let written = of_reader[ExtentKind::Written as usize];
    assert!(written > 8 && of_reader[ExtentKind::Inline as usize] > 4900, "{of_reader:?}");
    // The largest file needs several nodes but is a single run.
    let largest = reader.lookup(reader.lookup(reader.root(), b"sizes").unwrap(), b"of-17000000").unwrap();
    assert_eq!(nandkit_vfs::all_extents(&reader, largest).unwrap().len(), 1);
    let writer = WritableVolume::mount(
        reader.into_devices(),
        clock(),
        WriteOptions { atomicity: nandkit_f2fs::write::Atomicity::Told, ..WriteOptions::default() },
    )
    .unwrap();
    assert_eq!(judge_all(&writer, "for writing"), of_reader);
}
