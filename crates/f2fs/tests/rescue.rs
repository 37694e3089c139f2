//! Finds files by their own nodes when superblocks, checkpoints and tables are lost.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::ram_of_bytes;
use crate::damaged::{base, damage};
use crate::made::{all_kinds, clock, new_image};
use crate::planted::{BLOCK, Planted};
use crate::witness;
use crate::writing::{mount, unmount};
use nandkit_block::RamDevice;
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{Doubt, NodeId, RescuedVolume, WriteOptions};
use nandkit_testkit::hostile;
use nandkit_testkit::listing::{self, Listing};
use nandkit_testkit::rounds::Rounds;
use nandkit_units::Payload;
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, InodeNumber, NewNode, RenameFlags};

fn rescued(bytes: &[u8]) -> RescuedVolume<RamDevice> {
    RescuedVolume::find(vec![ram_of_bytes(bytes)], clock()).unwrap()
}

/// The doubts of all inodes that have any.
fn doubts(volume: &RescuedVolume<RamDevice>) -> BTreeMap<u64, Vec<Doubt>> {
    let doubtful = volume.files().filter(|file| !file.doubts.is_empty());
    doubtful.map(|file| (file.inode.0, file.doubts)).collect()
}

/// A volume without everything before its main area.
fn without_metadata(planted: &Planted) -> Vec<u8> {
    let mut bytes = planted.bytes.clone();
    bytes[..planted.geometry.main_address().0 as usize * BLOCK].fill(0);
    bytes
}

fn of_sound(planted: &Planted) -> Listing {
    listing::of_volume(planted.volume())
}

#[test]
fn everything_is_found_without_superblock_checkpoint_and_tables() {
    for features in ["", "extra_attr,inode_checksum,inode_crtime,flexible_inline_xattr,quota"] {
        let planted = witness::made_with(features, &all_kinds(700));
        let bytes = without_metadata(&planted);
        let volume = rescued(&bytes);
        assert_eq!(doubts(&volume), BTreeMap::new(), "{features}");
        assert_eq!(listing::of_volume(&volume), of_sound(&planted), "{features}");
        assert!(volume.notes().iter().any(|note| note.contains("no superblock")), "{:?}", volume.notes());
        // The start of the image is missing, so addresses are larger than positions.
        let volume = rescued(&bytes[300 * BLOCK..]);
        assert_eq!((doubts(&volume), listing::of_volume(&volume)), (BTreeMap::new(), of_sound(&planted)));
        // With a superblock, checksums are verified.
        let mut bytes = planted.bytes.clone();
        bytes[2 * BLOCK..planted.geometry.main_address().0 as usize * BLOCK].fill(0);
        let volume = rescued(&bytes);
        assert_eq!((doubts(&volume), listing::of_volume(&volume)), (BTreeMap::new(), of_sound(&planted)));
    }
    let error = RescuedVolume::find(vec![ram_of_bytes(&vec![0x5A; 1 << 20])], clock()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
}

#[test]
fn what_is_lost_or_shared_is_told() {
    let mut planted = witness::made_with("extra_attr", &all_kinds(10));
    // A direct node of a file is lost.
    let (big, film) = (planted.nid("sizes/of-9000000"), planted.nid("kinds/film.mp4"));
    let nids = 4096 - 24 - 20;
    let at = planted.at(big);
    let direct = NodeId(planted.word(at, nids + 4));
    let lost = planted.at(direct);
    planted.block(lost).fill(0);
    // A file's block is used by another one too.
    let other = planted.nid("kinds/base.db");
    let shared = planted.page(film, 1);
    planted.set_page(other, 1, shared.0);
    // A directory is lost.
    let directory = planted.nid("names");
    let at = planted.at(directory);
    planted.block(at).fill(0);
    let volume = rescued(&without_metadata(&planted));
    let found = doubts(&volume);
    let bytes = |nid: NodeId| found[&nid.0.into()].as_slice();
    assert!(matches!(bytes(big), [Doubt::Incomplete { bytes }] if *bytes > 1_000_000), "{:?}", bytes(big));
    for nid in [film, other] {
        assert_eq!(bytes(nid), [Doubt::Reused { bytes: 4096 }]);
    }
    let (paths, before) = (listing::of_volume(&volume), of_sound(&planted));
    // The hard links have a name elsewhere, and the two files are below a stand-in for their
    // directory.
    assert_eq!(found.values().filter(|doubts| **doubts == [Doubt::OwnName]).count(), 2, "{found:?}");
    let moved = paths.keys().filter(|path| path.starts_with(&format!("/lost+found/directory {}/", directory.0)));
    assert_eq!(moved.count(), 2, "{:?}", paths.keys());
    let untouched =
        |path: &&String| !["/names", "/sizes/of-9000000", "/kinds"].iter().any(|part| path.starts_with(part));
    for path in before.keys().filter(untouched) {
        assert_eq!(paths.get(path), before.get(path), "{path}");
    }
    assert!(volume.data_after(InodeNumber(big.0.into()), 0).unwrap().is_some());
}

fn changed(path: &Path) {
    let mut volume = mount(path, WriteOptions::default());
    let root = volume.root();
    let kinds = volume.lookup(root, b"kinds").unwrap();
    let sizes = volume.lookup(root, b"sizes").unwrap();
    volume.remove(kinds, b"two.xz.txt").unwrap();
    volume.rename((kinds, b"film.mp4"), (sizes, b"moved"), RenameFlags::default()).unwrap();
    let volume_changes: &mut dyn Changes = &mut volume;
    let new = volume_changes.create(sizes, b"new", &NewNode::FILE).unwrap();
    volume_changes.write(new, 0, Payload::Bytes(&[7; 5000])).unwrap();
    volume_changes.sync(None).unwrap();
    volume_changes.write(new, 0, Payload::Bytes(&[8; 3000])).unwrap();
    unmount(volume);
}

#[test]
fn the_newest_state_counts_and_deleted_files_are_doubtful() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let features = features_named("extra_attr").unwrap();
    let tree = all_kinds(50);
    let mkfs = Mkfs::new(&tree, MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
    mkfs.write(&mut new_image(&path, 128 << 20), &clock(), &|_| {}).unwrap();
    let deleted = Planted::new(std::fs::read(&path).unwrap()).nid("kinds/two.xz.txt");
    changed(&path);
    let planted = Planted::new(std::fs::read(&path).unwrap());
    let volume = rescued(&without_metadata(&planted));
    let mut found = listing::of_volume(&volume);
    let gone = found.remove("/kinds/two.xz.txt");
    assert!(gone.is_some_and(|text| text.contains(" 20000 ")));
    assert_eq!(found, of_sound(&planted));
    let doubts = doubts(&volume);
    assert_eq!(doubts.keys().copied().collect::<Vec<_>>(), [u64::from(deleted.0)], "{doubts:?}");
}

#[test]
fn names_that_no_directory_can_hold_and_circles_lead_nowhere() {
    let mut planted = witness::made_with("extra_attr", &all_kinds(10));
    let root = planted.at(NodeId::ROOT);
    planted.block(root).fill(0);
    let [kinds, sizes, links] = ["kinds", "sizes", "links"].map(|path| planted.nid(path));
    planted.head(kinds, |head| head.parent = sizes.0.into());
    planted.head(sizes, |head| head.parent = kinds.0.into());
    planted.head(links, |head| {
        head.name[..5].copy_from_slice(b"../..");
        head.parent = links.0.into();
    });
    let volume = rescued(&without_metadata(&planted));
    let paths = listing::of_volume(&volume);
    assert!(paths.keys().all(|path| !path.contains("..")), "{:?}", paths.keys());
    assert!(paths.contains_key(&format!("/lost+found/inode {}/0", links.0)), "{:?}", paths.keys());
    assert!(paths.keys().any(|path| path.ends_with("/film.mp4")), "{:?}", paths.keys());
    let files = volume.files().count();
    assert!(paths.len() >= files - 1, "{} paths of {files} inodes", paths.len());
}

#[test]
fn damaged_images_are_rescued_in_bounds() {
    // For more rounds: `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test all
    // rescue::`.
    let mut rounds = Rounds::of(60);
    let (mut volumes, mut names) = (0, 0);
    for round in &mut rounds {
        let mut random = Random::new(round, "rescue");
        let mut edits = damage(&mut random);
        if random.index(2) == 0 {
            edits.block(0).fill(0);
            edits.block(1).fill(0);
        }
        for _ in 0..random.index(20) {
            let nodes = &base().nodes;
            let (to, from) = (nodes[random.index(nodes.len())], nodes[random.index(nodes.len())]);
            let mut bytes = edits.block(from).clone();
            let byte = [random.index(BLOCK), 4072 + random.index(24), random.index(360)][random.index(3)];
            bytes[byte] ^= 1 << random.index(8);
            *edits.block(to) = bytes;
        }
        if let Ok(volume) = RescuedVolume::find(vec![edits.device()], clock()) {
            volumes += 1;
            names += hostile::roam(&volume, 4000).len();
            assert!(volume.files().count() < 20_000);
        }
    }
    let enough = volumes > rounds.count() / 2 && names > 200 * volumes as usize;
    assert!(enough || rounds.is_replay(), "{volumes} of {}, {names} names", rounds.count());
}
