//! Two superblocks, two checkpoint packs, several devices, and volumes that were cut short.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{mkfs, mount_file, plant, ram_of_bytes, run, sload};
use crate::made::patiently;
use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use nandkit_block::{Access, ErrorKind as BlockErrorKind, FileDevice, Operation, RamDevice};
use nandkit_f2fs::WhichCopy;
use nandkit_f2fs::{F2fs, FindingKind, MountOptions};
use nandkit_testkit::listing::{self, Listing};
use nandkit_units::{Clock, Lba};
use nandkit_vfs::{ErrorKind, FileSystem};

const SUPERBLOCKS: [u64; 2] = [1024, 4096 + 1024];
/// The byte offsets of the packs with the defaults of mkfs.f2fs.
const PACKS: [u64; 2] = [512 * 4096, 1024 * 4096];

fn mount(bytes: &[u8]) -> nandkit_vfs::Result<F2fs<RamDevice>> {
    F2fs::mount(ram_of_bytes(bytes), Clock::default(), MountOptions::default())
}

fn planted(scratch: &Path) -> (Vec<u8>, Listing) {
    let (source, image) = (scratch.join("source"), scratch.join("image"));
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("file"), vec![7; 9000]).unwrap();
    mkfs(&image, 64, "-O extra_attr,sb_checksum");
    sload(&image, &source);
    (fs::read(image).unwrap(), listing::of_directory(&source, None))
}

#[test]
fn one_good_copy_of_each_is_enough_and_the_bad_one_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let (bytes, expected) = planted(scratch.path());
    let whole = mount(&bytes).unwrap();
    assert!(whole.notes().is_empty(), "{:?}", whole.notes());
    listing::assert_same(&listing::of_volume(&whole), &expected, "whole");
    // A byte within the fields, one that only the checksum covers, and the magic number.
    for at in [0, 50, 2000] {
        for (copy, place) in SUPERBLOCKS.into_iter().enumerate() {
            let mut bytes = bytes.clone();
            bytes[place as usize + at] ^= 0x40;
            let volume = mount(&bytes).unwrap();
            listing::assert_same(&listing::of_volume(&volume), &expected, "one superblock");
            let notes = volume.notes();
            assert!(notes.len() == 1 && notes[0].kind == FindingKind::Superblock, "{notes:?}");
            let used = volume.superblock().1;
            assert_eq!(used, if copy == 0 { WhichCopy::Second } else { WhichCopy::First });
        }
    }
    for (copy, place) in PACKS.into_iter().enumerate() {
        let mut bytes = bytes.clone();
        bytes[place as usize + 100] ^= 0x40;
        let volume = mount(&bytes).unwrap();
        listing::assert_same(&listing::of_volume(&volume), &expected, "one pack");
        assert_eq!(volume.checkpoint_state().1, if copy == 0 { WhichCopy::Second } else { WhichCopy::First });
        assert!(volume.notes().iter().any(|note| note.detail.contains("checkpoint pack")), "{:?}", volume.notes());
    }
}

/// One copy is on sectors that the medium lost.
#[test]
fn unreadable_copies_are_as_bad_as_wrong_ones() {
    let scratch = tempfile::tempdir().unwrap();
    let (bytes, expected) = planted(scratch.path());
    let mount_without = |sectors: std::ops::Range<u64>| {
        let lost = |sector| {
            DeviceFault::new(Operation::Read, DeviceFaultWhen::Sector(Lba(sector)), BlockErrorKind::Unreadable)
        };
        let device = FaultDevice::new(ram_of_bytes(&bytes), sectors.map(lost));
        F2fs::mount(device, Clock::default(), MountOptions::default())
    };
    for sectors in [0..1, 1..2, 512..513, 1024..1025] {
        let volume = mount_without(sectors.clone()).unwrap();
        listing::assert_same(&listing::of_volume(&volume), &expected, "one copy unreadable");
        assert!(!volume.notes().is_empty(), "{sectors:?}");
    }
    assert_eq!(mount_without(0..2).unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(mount_without(512..1025).unwrap_err().kind, ErrorKind::Device);
}

#[test]
fn without_a_good_copy_the_error_says_what_is_wrong() {
    let scratch = tempfile::tempdir().unwrap();
    let (bytes, _) = planted(scratch.path());
    let refused = |edits: &[(u64, u8)]| {
        let mut bytes = bytes.clone();
        edits.iter().for_each(|&(at, value)| bytes[at as usize] = value);
        mount(&bytes).unwrap_err()
    };
    let [first, second] = SUPERBLOCKS;
    for (at, value, told) in [
        (0, 1, "no superblock of F2FS"),
        (124, 9, "checksum"),
        (16, 15, "blocks of 2^15 bytes"),
        (20, 8, "blocks a segment"),
        (96, 4, "reserved inodes"),
    ] {
        let error = refused(&[(first + at, value), (second + at, value)]);
        assert!(error.to_string().contains(told), "{error}");
    }
    let [first, second] = PACKS;
    // Versions are random, so no fixed byte is certain to differ.
    let error = refused(&[first, second].map(|at| (at, !bytes[at as usize])));
    assert!(error.kind == ErrorKind::Corrupt && error.to_string().contains("neither checkpoint pack"), "{error}");
    let error = mount(&vec![0; 1 << 20]).unwrap_err();
    assert!(error.to_string().contains("no superblock of F2FS"), "{error}");
    let error = mount(&bytes[..4096]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_volume_cut_short_is_told_and_what_is_there_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let (bytes, expected) = planted(scratch.path());
    let volume = mount(&bytes[..bytes.len() - (4 << 20)]).unwrap();
    assert!(volume.notes().iter().any(|note| note.kind == FindingKind::CutShort), "{:?}", volume.notes());
    listing::assert_same(&listing::of_volume(&volume), &expected, "all that is used is there");
    // Shorter than the metadata areas: nothing can be read, and nothing panics.
    for length in [2 << 20, 4 << 20, 6 << 20, 12 << 20] {
        let error = mount(&bytes[..length]).map(|volume| listing::of_volume(&volume));
        match error {
            Err(error) => assert_eq!(error.kind, ErrorKind::Corrupt, "{error}"),
            Ok(listing) => assert_ne!(listing, expected),
        }
    }
}

#[test]
fn several_devices_are_one_volume() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let source = path("source");
    plant(&source, 100);
    let expected = listing::of_directory(&source, None);
    for (name, mib) in [("first", 32), ("second", 40), ("third", 130)] {
        fs::File::create(path(name)).unwrap().set_len(mib << 20).unwrap();
    }
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let first = text("first");
    run("mkfs.f2fs", &["-f", "-q", "-c", &text("second"), "-c", &text("third"), &first]);
    let (status, told) = crate::made::run("sload.f2fs", &["-P", "-f", source.to_str().unwrap(), &first]);
    assert!([0, 1].contains(&status), "{told}");
    let open = |names: &[&str]| {
        let device = |name: &&str| patiently(|| FileDevice::open(&path(name), 512, Access::ReadOnly));
        F2fs::mount_several(names.iter().map(device).collect(), Clock::default(), MountOptions::default())
    };
    let volume = open(&["first", "second", "third"]).unwrap();
    listing::assert_same(&listing::of_volume(&volume), &expected, "three devices");
    let error = open(&["first"]).unwrap_err();
    assert!(error.kind == ErrorKind::InvalidArgument && error.to_string().contains("the volume is on 3"), "{error}");
    // In another order, the nodes of the second device are not where they should be.
    let swapped = open(&["first", "third", "second"]).map(|volume| listing::of_volume(&volume));
    assert!(swapped.is_err() || swapped.unwrap() != expected);
}

/// Volumes of mkfs.f2fs, from the smallest to one whose bitmaps need payload blocks: each opens,
/// and its root is there.
#[test]
fn volumes_of_all_sizes_open() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    for (gib_16, options) in
        [(1, ""), (160, "-s 3"), (16 * 300, "-i"), (16 * 2000, "-O extra_attr"), (16 * 3000, "-i -t 0")]
    {
        mkfs(&image, gib_16 * 64, options);
        let volume = mount_file(&image).unwrap_or_else(|error| panic!("{gib_16} {options}: {error}"));
        assert!(listing::of_volume(&volume).is_empty());
        let status = volume.volume().unwrap();
        assert!(status.blocks > 0 && status.blocks_free < status.blocks);
        assert!(volume.checkpoint_state().0.nat_bits.is_some() || gib_16 > 1);
        // The NAT only has the root if the checkpoint's bitmaps are found correctly.
        assert_eq!(volume.stat(volume.root()).unwrap().mode, 0o755);
    }
}

/// An unclean volume with fsynced data after the checkpoint is reported. The test sets the mark in
/// the node that mkfs.f2fs puts where the warm node log starts.
#[test]
fn fsynced_data_behind_the_checkpoint_are_told() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    mkfs(&image, 64, "");
    let (at, version) = {
        let volume = mount_file(&image).unwrap();
        assert!(volume.notes().iter().all(|note| note.kind != FindingKind::NotReplayed));
        let (state, _) = volume.checkpoint_state();
        let log = state.logs[nandkit_f2fs::Log::WarmNode.index()];
        let geometry = nandkit_f2fs::Blocks::geometry(&volume);
        (geometry.segment_start(log.segment).0 + u32::from(log.next), state.head.version.get())
    };
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let footer = u64::from(at) * 4096 + 4072;
    file.write_all_at(&9_u32.to_le_bytes(), footer).unwrap();
    file.write_all_at(&9_u32.to_le_bytes(), footer + 4).unwrap();
    file.write_all_at(&3_u32.to_le_bytes(), footer + 8).unwrap();
    file.write_all_at(&version.to_le_bytes(), footer + 12).unwrap();
    file.write_all_at(&(at + 1).to_le_bytes(), footer + 20).unwrap();
    let volume = mount_file(&image).unwrap();
    let told: Vec<_> = volume.notes().iter().filter(|note| note.kind == FindingKind::NotReplayed).collect();
    assert_eq!(told.len(), 1, "{:?}", volume.notes());
    // A cyclic chain without a mark ends.
    file.write_all_at(&1_u32.to_le_bytes(), footer + 8).unwrap();
    for (from, to) in [(at, at + 1), (at + 1, at + 2), (at + 2, at + 1)] {
        let footer = u64::from(from) * 4096 + 4072;
        file.write_all_at(&version.to_le_bytes(), footer + 12).unwrap();
        file.write_all_at(&to.to_le_bytes(), footer + 20).unwrap();
    }
    assert!(mount_file(&image).unwrap().notes().iter().all(|note| note.kind != FindingKind::NotReplayed));
}
