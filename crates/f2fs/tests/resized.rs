//! Volumes resized by resize.f2fs and by our own resize.

use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{mkfs, mount_file, plant, ram_of_bytes, sload};
use crate::damaged::damage;
use crate::made::{all_kinds, clock, complaints, open_image};
use crate::planted::{BLOCK, PACK};
use crate::writing::{assert_sound, mount, unmount};
use crate::{made, witness};
use nandkit_f2fs::check::{Resize, resize};
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::{F2fs, MountOptions, WriteOptions, check};
use nandkit_testkit::listing::{self, Listing};
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, NewNode};

#[test]
fn a_volume_of_resize_f2fs_is_sound_and_can_be_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (image, tree) = (directory.path().join("i"), directory.path().join("tree"));
    plant(&tree, 100);
    mkfs(&image, 100, "");
    sload(&image, &tree);
    std::fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(200 << 20).unwrap();
    let command = format!("PATH=$PATH:/usr/sbin:/sbin; yes y | resize.f2fs {}", image.display());
    let (status, told) = made::run("sh", &["-c", &command]);
    assert_eq!(status, 0, "{told}");
    let first = made::block(&open_image(&image), PACK as u64);
    assert!(nandkit_units::is_zeroed(&first), "resize.f2fs leaves the other pack without its first block");
    assert_eq!(complaints(&image), Vec::<String>::new());
    let report = check(vec![open_image(&image)], clock()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let mut volume = mount(&image, WriteOptions::default());
    let root = volume.root();
    volume.create(root, b"new", &NewNode::DIRECTORY).unwrap();
    unmount(volume);
    assert_sound(&image, "a directory more");
}

#[test]
fn a_newer_pack_that_lost_its_first_block_is_damage() {
    let mut planted = witness::made_with("extra_attr", &all_kinds(10));
    let other = PACK + 512;
    planted.bytes[other * BLOCK..][..BLOCK].fill(0);
    let findings = check(vec![planted.device()], clock()).unwrap().findings;
    assert_eq!(findings, [], "the pack that is not in use");
    // The last block of a newer checkpoint is still there.
    let last = planted.bytes[PACK * BLOCK..][..BLOCK].to_vec();
    planted.bytes[(other + 6) * BLOCK..][..BLOCK].copy_from_slice(&last);
    planted.checkpoint_block(other + 6, |head| {
        head.version = (head.version.get() + 1).into();
        head.flags = (head.flags.get() | flag::UNMOUNTED).into();
    });
    let report = check(vec![planted.device()], clock()).unwrap();
    let faults: Vec<_> = report.faults().collect();
    assert!(faults.len() == 1 && faults[0].detail.contains("lost its first block"), "{faults:?}");
}

/// Applies a planned resize to a volume.
fn applied(bytes: &[u8], plan: &Resize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().max(plan.bytes as usize), 0);
    for (at, block) in &plan.blocks {
        bytes[at.0 as usize * BLOCK..][..BLOCK].copy_from_slice(block);
    }
    bytes.truncate(plan.bytes as usize);
    bytes
}

fn resized(bytes: &[u8], to: u64) -> nandkit_vfs::Result<(Vec<u8>, Resize)> {
    let plan = resize(ram_of_bytes(bytes), clock(), to)?;
    Ok((applied(bytes, &plan), plan))
}

fn shown(bytes: &[u8]) -> Listing {
    listing::of_volume(&F2fs::mount(ram_of_bytes(bytes), clock(), MountOptions::default()).unwrap())
}

/// Writes an image file with holes for zeroes.
fn write_sparse(path: &Path, bytes: &[u8]) {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (number, piece) in bytes.chunks(1 << 16).enumerate().filter(|(_, piece)| !nandkit_units::is_zeroed(piece)) {
        file.write_all_at(piece, (number << 16) as u64).unwrap();
    }
}

/// Checks that fsck.f2fs and our own check find nothing, and that all files are there.
fn judged(bytes: &[u8], expected: &Listing, context: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("i");
    write_sparse(&path, bytes);
    assert_sound(&path, context);
    assert_eq!(&listing::of_volume(&mount_file(&path).unwrap()), expected, "{context}");
}

const MIB: u64 = 1 << 20;

#[test]
fn volumes_grow_and_shrink_with_all_their_files() {
    let all = "extra_attr,inode_checksum,sb_checksum,quota";
    for (features, sizes) in [("", &[1200, 99][..]), (all, &[300, 128])] {
        let planted = witness::made_with(features, &all_kinds(300));
        let expected = shown(&planted.bytes);
        let mut bytes = planted.bytes.clone();
        // Shrinking moves logs past the new end, and finally nearly everything; growing beyond what
        // one SSA block describes moves the main area.
        for to in sizes.iter().copied() {
            let (next, plan) = resized(&bytes, to * MIB).unwrap_or_else(|error| panic!("{features} {to}: {error}"));
            assert_eq!(next.len() as u64, plan.bytes, "{to}");
            assert!(plan.bytes <= to * MIB && plan.bytes + 4 * MIB > to * MIB, "{to}: {}", plan.bytes);
            judged(&next, &expected, &format!("{features} {to} MiB"));
            bytes = next;
        }
    }
}

#[test]
fn what_does_not_fit_names_the_least_size_and_it_does() {
    let planted = witness::made_with("extra_attr", &all_kinds(50));
    let expected = shown(&planted.bytes);
    let error = resize(planted.device(), clock(), 20 * MIB).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
    let told = error.detail.split("the least is ").nth(1).unwrap().split(' ').next().unwrap();
    let least: u64 = told.parse().unwrap();
    let (bytes, plan) = resized(&planted.bytes, least).unwrap();
    assert!(plan.bytes == least && plan.moved > 0, "{} {}", plan.bytes, plan.moved);
    judged(&bytes, &expected, "the least size");
    assert_eq!(resize(planted.device(), clock(), least - 1).unwrap_err().kind, ErrorKind::NoSpace);
    // It can be changed, and grow again.
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("i");
    std::fs::write(&path, &bytes).unwrap();
    let mut volume = mount(&path, WriteOptions::default());
    let root = volume.root();
    volume.create(root, b"new", &NewNode::DIRECTORY).unwrap();
    unmount(volume);
    assert_sound(&path, "a change of a shrunk volume");
    let bytes = std::fs::read(&path).unwrap();
    let (grown, _) = resized(&bytes, 256 * MIB).unwrap();
    judged(&grown, &shown(&bytes), "grown again");
    // The same size changes nothing; more than addresses can reach is refused.
    assert!(resize(planted.device(), clock(), planted.bytes.len() as u64).unwrap().blocks.is_empty());
    assert_eq!(resize(planted.device(), clock(), 17 << 40).unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn volumes_of_f2fs_tools_and_compressed_files_change_their_size() {
    let directory = tempfile::tempdir().unwrap();
    let (image, tree) = (directory.path().join("i"), directory.path().join("tree"));
    plant(&tree, 150);
    for options in ["", "-O extra_attr,compression,inode_checksum,quota -i"] {
        mkfs(&image, 150, options);
        sload(&image, &tree);
        let bytes = std::fs::read(&image).unwrap();
        let expected = shown(&bytes);
        for to in [120, 700] {
            let (next, _) = resized(&bytes, to * MIB).unwrap_or_else(|error| panic!("{options} {to}: {error}"));
            judged(&next, &expected, &format!("{options} {to} MiB"));
        }
    }
}

#[test]
fn damaged_volumes_are_not_resized() {
    let (mut done, rounds) = (0, 12);
    for round in 0..rounds {
        let edits = damage(&mut Random::new(round, "resize"));
        let to = [60, 90, 130, 400][round as usize % 4] * MIB;
        if let Ok(plan) = resize(edits.device(), clock(), to) {
            assert!(plan.after.is_clean());
            done += 1;
        }
    }
    assert!(done < rounds);
    let mut planted = witness::made_with("extra_attr", &all_kinds(10));
    let nid = planted.nid("kinds/film.mp4");
    planted.set_page(nid, 0, 5);
    assert_eq!(resize(planted.device(), clock(), 200 * MIB).unwrap_err().kind, ErrorKind::Corrupt);
}
