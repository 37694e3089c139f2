//! Inodes and names with correct checksums that cannot exist: a check reports where each of them
//! is, and a repaired volume has none.

use crate::common::{assert_finds_room, mount};
use nandkit_jffs2::layout::{ByteOrder, Header, node_type};
use nandkit_jffs2::testing::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use nandkit_jffs2::{DamageKind, Ino, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::listing::{self, Listing};
use nandkit_vfs::check::{Finding, Kind as _, Severity};

const ERASE_SIZE: u32 = 8192;
const ORDER: ByteOrder = ByteOrder::Little;

/// A volume that grows node by node, with `/d/file`, `/link` and `/plain`.
struct TestImage(Vec<u8>);

impl TestImage {
    fn new() -> Self {
        let mut volume = Self(Header::new(ORDER, node_type::CLEANMARKER, 12).encode(ORDER).to_vec());
        volume.inode(2, 1, 0o040_755, b"");
        volume.name(1, 1, 2, 4, b"d");
        volume.inode(3, 1, 0o100_644, b"content");
        volume.name(2, 2, 3, 8, b"file");
        volume.inode(4, 1, 0o120_777, b"d/file");
        volume.name(1, 2, 4, 10, b"link");
        volume.inode(5, 1, 0o100_600, b"as it was");
        volume.name(1, 3, 5, 8, b"plain");
        volume
    }

    fn node(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let at = self.0.len();
        write(&mut self.0);
        self.0.resize(self.0.len().next_multiple_of(4), 0xFF);
        at as u32
    }

    /// Appends an inode node and returns its address, as the methods below do for theirs.
    fn inode(&mut self, inode: u32, version: u32, mode: u32, bytes: &[u8]) -> u32 {
        let file_size = bytes.len() as u32;
        let fields = InodeFields { inode: Ino(inode), version, mode, file_size, ..InodeFields::default() };
        let piece = Piece { offset: 0, size: file_size, compression: 0, bytes };
        self.node(|out| inode_node(ORDER, &fields, &piece, out))
    }

    fn name(&mut self, parent: u32, version: u32, inode: u32, kind: u8, name: &[u8]) -> u32 {
        let fields = DirentFields { parent: Ino(parent), version, inode: Ino(inode), made: 1, kind };
        self.node(|out| dirent_node(ORDER, &fields, name, out))
    }

    fn mount(&self) -> Jffs2<RamFlash> {
        let mut bytes = self.0.clone();
        bytes.resize(3 * ERASE_SIZE as usize, 0xFF);
        mount(RamFlash::nor(bytes, ERASE_SIZE), MountOptions::default()).unwrap()
    }

    fn shown(&self) -> Listing {
        listing::of_volume(&self.mount())
    }
}

/// Asserts that the only finding has this kind, node and path and contains these words, and that a
/// repaired volume has no findings and the expected content.
fn told(volume: &TestImage, kind: DamageKind, at: u32, path: Option<&str>, words: &[&str], repaired: &Listing) {
    let mounted = volume.mount();
    let report = mounted.check(false).unwrap();
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    let shown = finding.paths.first().map(|path| format!("/{}", String::from_utf8_lossy(path)));
    let expected = (kind.name(), Some(at.into()), path);
    assert_eq!((finding.kind, finding.offset, shown.as_deref()), expected, "{finding:?}");
    for word in words {
        assert!(finding.detail.contains(word), "{word:?} is not in {:?}", finding.detail);
    }
    if kind != DamageKind::Remains {
        // A mount alone reports it too.
        let mounted = volume.mount();
        mounted.witness_contradictions().unwrap();
        assert_eq!(mounted.damage(), [Finding { paths: Vec::new(), ..finding.clone() }], "witnessed");
    }
    let mut output = RamFlash::nor(vec![0; 3 * ERASE_SIZE as usize], ERASE_SIZE);
    assert_finds_room(&mounted.repair(false, &mut output).unwrap());
    let again = mount(output, MountOptions::default()).unwrap();
    assert_eq!(again.check(false).unwrap().findings, []);
    listing::assert_same(&listing::of_volume(&again), repaired, "repaired");
}

/// The content of the sound volume without the content under these paths.
fn without(paths: &[&str]) -> Listing {
    let mut shown = TestImage::new().shown();
    shown.retain(|path, _| !paths.iter().any(|top| path.starts_with(top)));
    shown
}

#[test]
fn a_sound_volume_has_no_findings() {
    let volume = TestImage::new();
    let mounted = volume.mount();
    mounted.witness_contradictions().unwrap();
    assert_eq!(mounted.check(false).unwrap().findings, []);
    assert_eq!(volume.shown().len(), 4);
}

#[test]
fn an_inode_of_no_type_is_told() {
    let mut volume = TestImage::new();
    let at = volume.inode(6, 1, 0o644, b"x");
    volume.name(1, 4, 6, 8, b"untyped");
    told(&volume, DamageKind::Inode, at, Some("/untyped"), &["no type", "0o644", "expected"], &without(&[]));
}

#[test]
fn an_inode_of_an_impossible_type_is_told_and_what_it_was_comes_back() {
    for mode in [0o177_777, 0o030_644, 0o110_000] {
        let mut volume = TestImage::new();
        // The newest node is nonsense; an older one has the file's real type.
        let at = volume.inode(5, 2, mode, b"");
        told(&volume, DamageKind::Inode, at, Some("/plain"), &["type that does not exist"], &without(&[]));
    }
}

#[test]
fn a_nul_in_the_target_of_a_link_is_told() {
    let mut volume = TestImage::new();
    let at = volume.inode(6, 1, 0o120_777, b"../etc\0/x");
    volume.name(2, 3, 6, 10, b"short");
    told(&volume, DamageKind::Inode, at, Some("/d/short"), &["target of 9 bytes", "NUL at byte 6"], &without(&[]));
}

#[test]
fn a_root_that_is_no_directory_is_told_and_what_is_in_it_stays() {
    for (mode, word) in [(0o100_644, "a file"), (0o120_777, "a link"), (0o644, "of no possible type")] {
        let mut volume = TestImage::new();
        let at = volume.inode(1, 9, mode, b"hello");
        told(&volume, DamageKind::Inode, at, Some("/"), &["root", word, "expected a directory"], &without(&[]));
        assert_eq!(volume.shown(), without(&[]));
    }
}

#[test]
fn names_under_a_file_or_a_link_are_told() {
    for (parent, path, what) in [(3, "/d/file", "a file"), (4, "/link", "a link")] {
        let mut volume = TestImage::new();
        volume.inode(6, 1, 0o100_644, b"never seen");
        let at = volume.name(parent, 9, 6, 8, b"below");
        let words = ["\"below\" of inode 6", what, "expected a directory"];
        // The inode below has no possible name, and gets one.
        let mut again = TestImage::new();
        again.inode(6, 1, 0o100_644, b"never seen");
        again.name(1, 9, 6, 8, b"below");
        let mut shown = without(&[]);
        shown.insert("/lost+found".to_owned(), "Directory 700 0:0".to_owned());
        shown.insert("/lost+found/#6".to_owned(), again.shown()["/below"].clone());
        told(&volume, DamageKind::Reference, at, Some(path), &words, &shown);
    }
}

#[test]
fn names_in_a_directory_that_is_not_there_are_told_and_come_back() {
    let mut volume = TestImage::new();
    volume.inode(6, 1, 0o100_644, b"never seen");
    let at = volume.name(99, 1, 6, 8, b"stray");
    let mut shown = without(&[]);
    shown.insert("/lost+found".to_owned(), "Directory 700 0:0".to_owned());
    shown.insert("/lost+found/dir-99".to_owned(), "Directory 755 0:0".to_owned());
    let mut again = TestImage::new();
    again.inode(6, 1, 0o100_644, b"never seen");
    again.name(1, 4, 6, 8, b"stray");
    shown.insert("/lost+found/dir-99/stray".to_owned(), again.shown()["/stray"].clone());
    told(&volume, DamageKind::Orphan, at, None, &["\"stray\" of inode 6", "directory 99"], &shown);
    // The inode has another name, by which the finding names it.
    let mut volume = TestImage::new();
    let at = volume.name(99, 1, 5, 8, b"second");
    let report = volume.mount().check(false).unwrap();
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.offset, finding.paths.clone())).collect();
    assert_eq!(found, [(Some(at.into()), vec![b"plain".to_vec()])]);
}

/// The nodes of a removed directory are erased in any order, so what is left of it is not damage.
#[test]
fn what_a_removed_directory_left_behind_is_told_as_harmless() {
    let mut volume = TestImage::new();
    volume.name(1, 9, 0, 0, b"removed");
    let at = volume.name(99, 1, 6, 8, b"stray");
    assert_eq!(DamageKind::Remains.severity(), Severity::Harmless);
    told(&volume, DamageKind::Remains, at, None, &["directory 99", "deleted"], &without(&[]));
    // A name that was removed in it as well is not a finding at all.
    volume.name(99, 2, 0, 0, b"stray");
    assert_eq!(volume.mount().check(false).unwrap().findings, []);
}

#[test]
fn a_name_of_another_type_than_its_inode_is_told_and_gets_the_right_one() {
    for (inode, wrong, path, right) in
        [(5, 4, "/plain", "a file"), (5, 0, "/plain", "a file"), (2, 8, "/d", "a directory")]
    {
        let mut volume = TestImage::new();
        let at = volume.name(1, 9, inode, wrong, path.trim_start_matches('/').as_bytes());
        told(&volume, DamageKind::Reference, at, Some(path), &["says that its inode is", right], &without(&[]));
    }
}
