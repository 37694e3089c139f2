//! Nodes with correct checksums and arbitrary content: no volume of them leads to a panic, an
//! endless walk, or sums that do not agree.

use crate::common::mount;
use nandkit_jffs2::Ino;
use nandkit_jffs2::MountOptions;
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::testing::encode::{
    DirentFields, InodeFields, Piece, XattrFields, dirent_node, inode_node, xattr_node, xref_node,
};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::listing;
use nandkit_units::FlashKind;
use nandkit_units::random::Random;

const ERASE_SIZE: usize = 4096;

fn number(random: &mut Random) -> u32 {
    match random.index(8) {
        0 => u32::MAX - random.index(3) as u32,
        1 => random.next_u64() as u32,
        _ => random.index(7) as u32,
    }
}

fn node(random: &mut Random, order: ByteOrder, out: &mut Vec<u8>) {
    let start = out.len();
    let bytes: Vec<u8> = (0..random.index(40)).map(|_| random.index(3) as u8 + b'a').collect();
    match random.index(7) {
        0 | 1 => {
            let mode = [0o100_644, 0o040_755, 0o120_777, 0o020_600, 0o010_600, 0][random.index(6)];
            let (inode, version, file_size) = (number(random), number(random), number(random));
            let fields = InodeFields { inode: Ino(inode), version, mode, file_size, ..InodeFields::default() };
            let (offset, size) = (number(random).min(file_size), number(random));
            let piece = Piece { offset, size, compression: random.index(9) as u8, bytes: &bytes };
            inode_node(order, &fields, &piece, out);
        }
        2..=4 => {
            let (parent, version, inode) = (number(random), number(random), number(random));
            let name = [&b"a"[..], b"b", b"..", b"a/b", b"", &bytes][random.index(6)];
            let fields = DirentFields {
                parent: Ino(parent),
                version,
                inode: Ino(inode),
                made: 1,
                kind: [4, 4, 8, 10, 0, 15][random.index(6)],
            };
            dirent_node(order, &fields, name, out);
        }
        5 => {
            let (id, version) = (number(random), number(random));
            let value = &bytes[..bytes.len() / 2];
            xattr_node(order, &XattrFields { id, version, prefix: random.index(7) as u8, name: &bytes, value }, out);
        }
        _ => xref_node(order, Ino(number(random)), number(random), number(random), out),
    }
    if random.index(20) == 0 && out.len() > start {
        let at = start + random.index(out.len() - start);
        out[at] ^= 1 << random.index(8);
    }
    out.resize(out.len().next_multiple_of(4), 0xFF);
}

#[test]
fn nothing_that_nodes_say_makes_a_panic() {
    let (mut mounted, mut shown, mut past) = (0, 0, 0);
    for case in 0..600_u64 {
        let mut random = Random::new(case, "nodes");
        let order = ByteOrder::ALL[random.index(2)];
        let mut image = Vec::new();
        for _ in 0..1 + random.index(5) {
            let mut block = Vec::new();
            let fill = random.index(ERASE_SIZE);
            while block.len() < fill {
                node(&mut random, order, &mut block);
            }
            block.resize(ERASE_SIZE, 0xFF);
            image.extend_from_slice(&block);
        }
        let flash = match random.index(2) {
            0 => RamFlash::nor(image.clone(), ERASE_SIZE as u32),
            _ => RamFlash::nand(image.clone(), ERASE_SIZE as u32, 512, 16),
        };
        assert!(matches!(flash.geometry.kind, FlashKind::Nor | FlashKind::Nand));
        let Ok(volume) = mount(flash.clone(), MountOptions::default()) else { continue };
        mounted += 1;
        assert_eq!(volume.catalogue().recount(), Ok(()), "case {case}");
        shown += listing::of_volume(&volume).len();
        volume.check(false).unwrap();
        for inode in 0..8 {
            for version in volume.versions(Ino(inode)).unwrap_or_default() {
                past += volume
                    .content_within(Ino(inode), version.version, 0..8192)
                    .map_or(0, |content| content.bytes.len());
            }
        }
        past += volume.deleted().unwrap().len();
        let mut output = flash;
        if volume.repair(false, &mut output).unwrap().kept > 0 {
            assert!(
                mount(output, MountOptions { order: Some(order), ..MountOptions::default() }).is_ok(),
                "case {case}"
            );
        }
    }
    assert!(mounted > 300 && shown > 300 && past > 300, "{mounted} {shown} {past}");
}

/// Superseded content and deleted names are listed, and marked as such.
#[test]
fn superseded_content_and_deleted_names_are_had_again() {
    let order = ByteOrder::Big;
    let mut block = Vec::new();
    let mut add = |bytes: Vec<u8>| {
        block.extend_from_slice(&bytes);
        block.resize(block.len().next_multiple_of(4), 0xFF);
    };
    let inode = |version, text: &[u8], offset, file_size| {
        let mut out = Vec::new();
        let fields = InodeFields {
            inode: Ino(5),
            version,
            mode: 0o100_600,
            file_size,
            modified: version,
            ..InodeFields::default()
        };
        inode_node(order, &fields, &Piece { offset, size: text.len() as u32, compression: 0, bytes: text }, &mut out);
        out
    };
    let name = |version, name: &[u8], inode, made| {
        let mut out = Vec::new();
        dirent_node(order, &DirentFields { parent: Ino(1), version, inode, made, kind: 8 }, name, &mut out);
        out
    };
    add(inode(1, b"first words", 0, 11));
    add(name(1, b"old", Ino(5), 10));
    add(inode(2, b"other", 0, 11));
    add(inode(3, b"", 0, 3));
    add(name(2, b"new", Ino(5), 20));
    add(name(3, b"old", Ino(0), 30));
    add(name(4, b"lost", Ino(9), 40));
    add(name(5, b"lost", Ino(0), 50));
    let mut image = block.clone();
    image.resize(4 * ERASE_SIZE, 0xFF);
    let volume = mount(RamFlash::nor(image, ERASE_SIZE as u32), MountOptions::default()).unwrap();
    let shown = listing::of_volume(&volume);
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["/new"]);
    assert_eq!(volume.damage(), []);
    let contents: Vec<Vec<u8>> =
        (1..=3).map(|version| volume.content_within(Ino(5), version, 0..8192).unwrap().bytes).collect();
    assert_eq!(contents, [&b"first words"[..], b"other words", b"oth"]);
    assert_eq!(
        volume.versions(Ino(5)).unwrap().iter().map(|found| (found.version, found.size)).collect::<Vec<_>>(),
        [(1, 11), (2, 11), (3, 3)]
    );
    let deleted = volume.deleted().unwrap();
    let told: Vec<_> = deleted.iter().map(|found| (&found.name[..], found.inode, found.deleted, found.lives)).collect();
    assert_eq!(told, [(&b"lost"[..], Ino(9), Some(50), false), (b"old", Ino(5), Some(30), true)]);
    assert_eq!(deleted[0].parent_path.as_deref(), Some(&b"/"[..]));
}
