//! Journals that `cargo xtask kernel ubifs` found read otherwise than by Linux, or that Linux's own
//! recovery treats apart.

use std::ops::ControlFlow;
use std::path::PathBuf;

use nandkit_ubifs::Ubifs;
use nandkit_ubifs::layout::{HEADER_SIZE, INODE_XATTR, Key, LOG_LEB, name_hash, node_type};
use nandkit_vfs::{DirectoryEntry, FileSystem};

use crate::volume::{BASE, COLLECTOR, DATA, IN_GROUP, LEB_SIZE, Volume, data, entry, inode, joined};

/// Offset of the number of links in an inode node.
const LINKS_AT: usize = HEADER_SIZE + 68;

/// A volume with these files of 5000 bytes.
fn volume_of(names: &[&str]) -> Volume {
    let directory = tempfile::tempdir().expect("a directory");
    let root: PathBuf = directory.path().join("tree");
    std::fs::create_dir(&root).expect("a root");
    for name in names {
        std::fs::write(root.join(name), vec![7; 5000]).expect("a file");
    }
    Volume::dirty(&root)
}

fn name_key(parent: u32, name: &str) -> Key {
    Key::name(parent, name_hash(0, name.as_bytes()), false)
}

#[test]
fn data_behind_the_size_of_their_inode_make_the_file_longer() {
    let mut volume = volume_of(&["a", "b"]);
    let (number, _) = volume.file("a");
    let node = volume.node(node_type::DATA, 0, &data(number, 2, &[9; 100]));
    volume.add_bud(DATA, &node);
    assert_eq!(volume.file("a").1, 2 * 4096 + 100);
    assert_eq!(volume.file("b").1, 5000);
    assert_eq!(volume.read().1, Vec::<String>::new());
    // A truncation that follows counts, and so does an inode that is newer.
    let mut cut = volume.clone();
    let mut body = number.to_le_bytes().to_vec();
    body.resize(16, 0);
    body.extend([9000_u64.to_le_bytes(), 5000_u64.to_le_bytes()].concat());
    let node = cut.node(node_type::TRUNCATION, 0, &body);
    cut.add_bud(BASE, &node);
    assert_eq!(cut.file("a").1, 5000);
    // A volume that was unmounted needs no recovery.
    volume.set_dirty(false);
    assert_eq!(volume.file("a").1, 5000);
}

#[test]
fn data_without_an_inode_are_removed() {
    let mut volume = volume_of(&["a"]);
    let before = volume.read();
    let node = volume.node(node_type::DATA, 0, &data(900, 0, &[9; 100]));
    volume.add_bud(DATA, &node);
    assert_eq!(volume.read(), before);
}

#[test]
fn a_file_that_was_open_without_a_name_is_gone() {
    let mut volume = volume_of(&["a", "b"]);
    let (number, _) = volume.file("a");
    let at = volume.find(node_type::INODE, Key::inode(number), b"");
    volume.patch(at, LINKS_AT, &0_u32.to_le_bytes());
    let node = volume.node(node_type::DENTRY, 0, &entry(1, "a", 0, false));
    volume.add_bud(BASE, &node);
    assert_eq!(volume.read().1, [format!("orphan: inode {number} has no name")]);
    // The orphan area lists it: it goes, and one that has a name again stays.
    let other = u64::from(volume.file("b").0);
    let numbers = [1 << 63 | 7, u64::from(number), other].map(u64::to_le_bytes).concat();
    let node = volume.node(node_type::ORPHANS, 0, &numbers);
    let orphans = volume.orphan_area();
    volume.image.bytes[orphans..][..node.len()].copy_from_slice(&node);
    let (listing, told) = volume.read();
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(listing.len(), 1, "{listing:?}");
}

#[test]
fn orphans_of_an_earlier_commit_do_not_count() {
    let mut volume = volume_of(&["a", "b"]);
    let number = u64::from(volume.file("a").0);
    let at = volume.find(node_type::INODE, Key::inode(number as u32), b"");
    volume.patch(at, LINKS_AT, &0_u32.to_le_bytes());
    let orphans = volume.orphan_area();
    for (leb, commit, inode) in [(0, 1 << 63 | 9, 77_u64), (1, 8, number)] {
        let node = volume.node(node_type::ORPHANS, 0, &[commit, inode].map(u64::to_le_bytes).concat());
        volume.image.bytes[orphans + leb * LEB_SIZE as usize..][..node.len()].copy_from_slice(&node);
    }
    assert_eq!(volume.read().0.len(), 2);
}

#[test]
fn the_collector_moves_nodes_without_their_groups() {
    let mut volume = volume_of(&["a"]);
    let body = inode(900, 1, 0, b"");
    let nodes = [
        volume.node(node_type::DENTRY, IN_GROUP, &entry(1, "c", 900, false)),
        volume.node(node_type::INODE, IN_GROUP, &body),
    ];
    let mut written = volume.clone();
    volume.add_bud(COLLECTOR, &joined(&nodes));
    let (listing, told) = volume.read();
    assert!(told.is_empty() && listing.len() == 2, "{told:?} {listing:?}");
    // Written as a group, the same nodes lack its end.
    written.add_bud(BASE, &joined(&nodes));
    let (listing, told) = written.read();
    assert!(listing.len() == 1 && told.len() == 1 && told[0].starts_with("torn journal"), "{told:?} {listing:?}");
}

#[test]
fn entries_with_one_hash_survive_being_moved() {
    // 'al' and 'ba' add the same to R5.
    let names = ["alal", "alba", "baal", "baba"];
    let mut volume = volume_of(&names);
    assert!(names.iter().all(|name| name_key(1, name) == name_key(1, "alal")));
    let before = volume.read();
    // The collector moves two of them, and their places hold other nodes then.
    let mut moved = Vec::new();
    for name in &names[1..3] {
        let at = volume.find(node_type::DENTRY, name_key(1, name), name.as_bytes());
        let node = volume.node_at(at);
        let other = volume.node(node_type::DENTRY, 0, &entry(900, "z", 1, false));
        volume.image.bytes[at..][..node.len()].fill(0);
        volume.image.bytes[at..][..node.len().min(other.len())].copy_from_slice(&other[..node.len().min(other.len())]);
        moved.push(node);
    }
    volume.add_bud(COLLECTOR, &joined(&moved));
    assert_eq!(volume.read(), before);
}

#[test]
fn names_with_one_hash_stand_in_the_order_of_their_bytes() {
    let mut volume = volume_of(&["alba"]);
    let (number, _) = volume.file("alba");
    let names = |volume: &Volume, cookie| {
        let volume = Ubifs::mount(Box::new(volume.image.clone())).expect("a volume");
        let mut names = Vec::new();
        let mut sink = |entry: DirectoryEntry<'_>| {
            names.push((String::from_utf8_lossy(entry.name).into_owned(), entry.cookie));
            ControlFlow::Continue(())
        };
        volume.read_dir(volume.root(), cookie, &mut sink).expect("names");
        names
    };
    for (name, inode) in [("baba", number), ("alal", number), ("baal", number), ("baba", 0), ("baba", number)] {
        let node = volume.node(node_type::DENTRY, 0, &entry(1, name, inode, false));
        volume.add_bud(BASE, &node);
    }
    let all = names(&volume, 0);
    assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["alal", "alba", "baal", "baba"]);
    for (done, (_, cookie)) in (1..).zip(&all) {
        assert_eq!(names(&volume, *cookie), all[done..]);
    }
}

#[test]
fn a_removed_file_takes_its_attributes_along() {
    let mut volume = volume_of(&["a"]);
    let (number, _) = volume.file("a");
    let before = volume.read();
    let nodes = [
        volume.node(node_type::XENTRY, IN_GROUP, &entry(number, "user.x", 900, true)),
        volume.node(node_type::INODE, 2, &inode(900, 1, INODE_XATTR, b"value")),
    ];
    volume.add_bud(BASE, &joined(&nodes));
    assert_ne!(volume.read().0, before.0);
    let nodes = [
        volume.node(node_type::DENTRY, IN_GROUP, &entry(1, "a", 0, false)),
        volume.node(node_type::INODE, 2, &inode(number, 0, 0, b"")),
    ];
    volume.add_bud(BASE, &joined(&nodes));
    let (listing, told) = volume.read();
    assert!(told.is_empty() && listing.is_empty(), "{told:?} {listing:?}");
}

#[test]
fn damage_in_the_journal_is_told_and_a_torn_end_is_harmless() {
    let volume = volume_of(&["a"]);
    let told = |content: &dyn Fn(&mut Volume) -> Vec<u8>| {
        let mut volume = volume.clone();
        let content = content(&mut volume);
        volume.add_bud(DATA, &content);
        volume.read().1
    };
    let whole = |volume: &mut Volume, block| volume.node(node_type::DATA, 0, &data(2, block, &[9; 1300]));
    let torn = told(&|volume| joined(&[whole(volume, 0), whole(volume, 1)])[..2200].to_vec());
    assert!(torn.len() == 1 && torn[0].starts_with("torn journal"), "{torn:?}");
    let damaged = told(&|volume| {
        let mut bytes = joined(&[whole(volume, 0), whole(volume, 1), whole(volume, 2)]);
        bytes[100] ^= 1;
        bytes
    });
    assert!(damaged.len() == 1 && damaged[0].starts_with("journal"), "{damaged:?}");
    let mut lost = volume;
    lost.patch(LOG_LEB as usize * LEB_SIZE as usize, HEADER_SIZE, &[99]);
    let (_, told) = lost.read();
    assert!(told.len() == 1 && told[0].contains("the log does not begin"), "{told:?}");
}
