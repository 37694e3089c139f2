//! Volumes whose size changed: by resize.f2fs.

use crate::common::{mkfs, plant, sload};
use crate::made::{all_kinds, clock, complaints, open_image};
use crate::planted::{BLOCK, PACK};
use crate::writing::{assert_sound, mount, unmount};
use crate::{made, witness};
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::{WriteOptions, check};
use nandkit_vfs::{Changes, FileSystem, NewNode};

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
