//! Inodes that have lost their name are reported by the mount alone and are restored in a repaired
//! image; inodes that were deleted or never finished are not.

use crate::common::{assert_finds_room, mount, run};
use nandkit_jffs2::layout::{ByteOrder, Header, Inode, covered, crc, node_type};
use nandkit_jffs2::testing::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use nandkit_jffs2::{DamageKind, Ino, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::listing::{self, Listing};
use nandkit_testkit::trees;
use nandkit_units::random::Random;
use nandkit_vfs::FileSystem;
use nandkit_vfs::check::{Finding, Kind as _};

const ORDER: ByteOrder = ByteOrder::Little;
const ERASE_SIZE: usize = 16 << 10;
const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;

fn opened(bytes: &[u8], use_summaries: bool) -> Jffs2<RamFlash> {
    let options = MountOptions { use_summaries, ..MountOptions::default() };
    mount(RamFlash::nor(bytes.to_vec(), ERASE_SIZE as u32), options).unwrap()
}

/// The findings of the mount alone, without harmless ones.
fn witnessed(volume: &Jffs2<RamFlash>) -> Vec<Finding> {
    volume.damage().into_iter().filter(|damage| !damage.is_harmless()).collect()
}

fn repaired(bytes: &[u8]) -> Jffs2<RamFlash> {
    let volume = opened(bytes, false);
    let mut output = RamFlash::nor(vec![0; bytes.len()], ERASE_SIZE as u32);
    assert_finds_room(&volume.repair(false, &mut output).unwrap());
    mount(output, MountOptions::default()).unwrap()
}

/// Files of 5000 bytes in the root and in `d`, as mkfs.jffs2 makes them, optionally with summaries.
fn image(summaries: bool) -> (Vec<u8>, Listing) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    std::fs::create_dir_all(root.join("d")).unwrap();
    let mut random = Random::new(77, "tree");
    for number in 0..20 {
        std::fs::write(root.join(format!("f{number}")), trees::content(&mut random, 5000)).unwrap();
    }
    for number in 0..3 {
        std::fs::write(root.join(format!("d/x{number}")), trees::content(&mut random, 5000)).unwrap();
    }
    let text = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    run("mkfs.jffs2", &["-r", &text("root"), "-o", &text("plain"), "-e", "16KiB", "-l", "-p", "-q"]);
    let made = if summaries {
        run("sumtool", &["-i", &text("plain"), "-o", &text("summed"), "-e", "16KiB", "-l"]);
        "summed"
    } else {
        "plain"
    };
    let mut bytes = std::fs::read(text(made)).unwrap();
    bytes.resize(bytes.len().next_multiple_of(ERASE_SIZE) + ERASE_SIZE, 0xFF);
    let volume = opened(&bytes, summaries);
    assert_eq!(volume.damage(), []);
    (bytes, listing::of_volume(&volume))
}

/// The first block of an image of mkfs.jffs2 holds the names in the root. Without it a directory
/// has lost its node and its name, and files have lost their names.
#[test]
fn a_mount_tells_of_lost_names_and_a_repair_brings_back_what_is_whole() {
    for summaries in [false, true] {
        let (mut bytes, before) = image(summaries);
        bytes[..ERASE_SIZE].fill(0xFF);
        let volume = opened(&bytes, summaries);
        let told = witnessed(&volume);
        for name in ["x0", "x1", "x2"] {
            let of_name = |damage: &&Finding| damage.detail.contains(&format!("{name:?}"));
            assert!(told.iter().filter(of_name).all(|damage| damage.kind == DamageKind::Orphan.name()), "{told:?}");
            assert_eq!(told.iter().filter(of_name).count(), 1, "{told:?}");
        }
        let orphans = told.iter().filter(|damage| damage.detail.contains("a file of 5000 bytes")).count();
        assert!(orphans > 0, "{told:?}");
        let shown = listing::of_volume(&volume);
        let again = repaired(&bytes);
        let after = listing::of_volume(&again);
        assert!(shown.iter().all(|(path, text)| after.get(path) == Some(text)));
        // Everything intact is there: the same contents, whatever the names.
        let contents = |listing: &Listing| {
            let mut all: Vec<String> = listing.values().filter(|text| text.starts_with("Regular")).cloned().collect();
            all.sort();
            all
        };
        let (left, is) = (contents(&shown), contents(&after));
        assert_eq!(is.len(), left.len() + orphans + 3, "{after:?}");
        for name in ["x0", "x1", "x2"] {
            let found = after.iter().find(|(path, _)| path.ends_with(&format!("/{name}"))).map(|(_, text)| text);
            assert_eq!(found, before.get(&format!("/d/{name}")), "{after:?}");
        }
        let left: Vec<_> = again.check(false).unwrap().findings;
        assert!(left.iter().all(|finding| finding.kind == DamageKind::Missing.name()), "{left:?}");
    }
}

/// An image of one block, built node by node.
struct TestImage(Vec<u8>);

impl TestImage {
    fn new() -> Self {
        let mut volume = Self(Header::new(ORDER, node_type::CLEANMARKER, 12).encode(ORDER).to_vec());
        volume.inode(2, 1, FILE, b"content");
        volume.name(1, 1, 2, 8, b"file");
        volume
    }

    fn node(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.0);
        self.0.resize(self.0.len().next_multiple_of(4), 0xFF);
    }

    fn inode(&mut self, inode: u32, version: u32, mode: u32, bytes: &[u8]) {
        let file_size = bytes.len() as u32;
        let fields = InodeFields { inode: Ino(inode), version, mode, file_size, ..InodeFields::default() };
        let piece = Piece { offset: 0, size: file_size, compression: 0, bytes };
        self.node(|out| inode_node(ORDER, &fields, &piece, out));
    }

    fn name(&mut self, parent: u32, version: u32, inode: u32, kind: u8, name: &[u8]) {
        let fields = DirentFields { parent: Ino(parent), version, inode: Ino(inode), made: 1, kind };
        self.node(|out| dirent_node(ORDER, &fields, name, out));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(3 * ERASE_SIZE, 0xFF);
        bytes
    }

    fn told(&self) -> Vec<String> {
        let volume = opened(&self.bytes(), true);
        let told: Vec<String> = witnessed(&volume).into_iter().map(|damage| damage.detail).collect();
        let checked = volume.check(false).unwrap();
        let checked: Vec<String> = checked.findings.into_iter().map(|finding| finding.detail).collect();
        assert_eq!(told, checked, "a check says the same");
        told
    }
}

#[test]
fn whole_inodes_without_a_name_are_told_with_what_they_are() {
    let mut volume = TestImage::new();
    volume.inode(3, 1, FILE, b"nobody's");
    volume.inode(4, 1, 0o120_777, b"target");
    volume.inode(5, 1, DIRECTORY, b"");
    volume.inode(6, 1, FILE, b"inside");
    volume.name(5, 1, 6, 8, b"inside");
    volume.name(1, 2, 2, 8, b"again");
    let told = volume.told();
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, expected) in told.iter().zip(["a file of 8 bytes", "a link", "a directory with 1 names"]) {
        assert!(told.contains(expected), "{told:?}");
    }
    let again = repaired(&volume.bytes());
    assert_eq!(again.check(false).unwrap().findings, []);
    let paths: Vec<String> = listing::of_volume(&again).into_keys().collect();
    let under = ["", "/#3", "/#4", "/#5", "/#5/inside"].map(|path| format!("/lost+found{path}"));
    assert_eq!(paths, [&["/again".to_owned(), "/file".to_owned()][..], &under].concat());
    // A second repair finds nothing to do, and a repair with an existing directory of this name
    // uses it.
    volume.inode(7, 1, DIRECTORY, b"");
    volume.name(1, 3, 7, 4, b"lost+found");
    volume.name(7, 1, 2, 8, b"#3");
    let paths: Vec<String> = listing::of_volume(&repaired(&volume.bytes())).into_keys().collect();
    assert!(
        paths.contains(&"/lost+found/#3.1".to_owned()) && paths.contains(&"/lost+found/#4".to_owned()),
        "{paths:?}"
    );
    assert_eq!(paths.iter().filter(|path| path.starts_with("/lost+found")).count(), 6, "{paths:?}");
}

#[test]
fn what_was_taken_away_or_never_finished_is_not_told() {
    // A deletion, or a name given to another inode, may be the reason that an inode has no name.
    let mut deleted = TestImage::new();
    deleted.inode(3, 1, FILE, b"deleted");
    deleted.name(1, 2, 0, 0, b"gone");
    let mut replaced = TestImage::new();
    replaced.inode(3, 1, FILE, b"newer");
    replaced.name(1, 2, 3, 8, b"file");
    // Nodes that were moved show that the volume was in use.
    let mut moved = TestImage::new();
    moved.inode(3, 2, FILE, b"second");
    moved.inode(3, 1, FILE, b"first");
    // An interrupted creation: the inode's first node is the last one written.
    let mut cut = [0o120_777, DIRECTORY, FILE].map(|mode| {
        let mut volume = TestImage::new();
        volume.inode(3, 1, mode, if mode == 0o120_777 { b"target" } else { b"" });
        volume
    });
    for volume in [&deleted, &replaced, &moved].into_iter().chain(&cut) {
        assert_eq!(volume.told(), [] as [&str; 0]);
    }
    // Something was written after it, so the name was there and is lost.
    for volume in &mut cut {
        volume.name(1, 2, 2, 8, b"again");
        assert_eq!(volume.told().len(), 1);
    }
}

/// Found by `cargo xtask kernel test` on 2026-11-23: such a volume was refused as damaged.
#[test]
fn names_that_linux_leaves_of_a_removed_directory_are_remains_without_a_word_of_deletions() {
    let mut collected = TestImage::new();
    collected.name(96, 1, 7, 8, b"in a removed directory");
    let kinds = |volume: &TestImage| {
        let checked = opened(&volume.bytes(), true).check(false).unwrap();
        checked.findings.into_iter().map(|finding| finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&collected), [DamageKind::Orphan.name()], "nothing tells of a volume in use");
    collected.inode(3, 2, FILE, b"second");
    collected.inode(3, 1, FILE, b"first");
    collected.name(1, 2, 3, 8, b"kept");
    assert_eq!(witnessed(&opened(&collected.bytes(), true)), []);
    assert_eq!(kinds(&collected), [DamageKind::Remains.name()]);
    assert_eq!(repaired(&collected.bytes()).check(false).unwrap().findings, []);
}

/// A torn write is harmless, whoever finds it; a node whose checksums are all correct was written
/// as it is.
#[test]
fn only_what_a_power_cut_leaves_is_harmless() {
    let mut torn = TestImage::new();
    let whole = torn.bytes();
    torn.inode(2, 2, FILE, b"what was to come");
    *torn.0.last_mut().unwrap() ^= 1;
    let mut hostile = TestImage::new();
    let start = hostile.0.len();
    hostile.inode(2, 2, FILE, b"no zlib at all, and the size is absurd");
    let mut node = Inode::decode(ORDER, &hostile.0[start..]).unwrap();
    (node.compression, node.data_size) = (6, 0x7FFF_FFFF);
    node.node_crc = crc(&node.encode(ORDER)[..covered::INODE]);
    hostile.0[start..start + 68].copy_from_slice(&node.encode(ORDER));
    let mut nameless = TestImage::new();
    nameless.name(1, 2, 2, 8, b"a/b");
    for (volume, harmless) in [(&torn, true), (&hostile, false), (&nameless, false)] {
        let mounted = opened(&volume.bytes(), true);
        let shown = listing::of_volume(&mounted);
        let checked = mounted.check(false).unwrap();
        assert_eq!(checked.findings.len(), 1, "{checked:?}");
        assert_eq!(checked.findings[0].is_harmless(), harmless, "{checked:?}");
        if harmless {
            assert_eq!(shown, listing::of_volume(&opened(&whole, true)));
            let found = mounted.damage();
            assert!(!found.is_empty() && witnessed(&mounted).is_empty(), "{found:?}");
        }
        assert!(mounted.stat(mounted.root()).is_ok());
    }
}
