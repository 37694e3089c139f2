//! Faults planted one at a time, grouped by the part of the volume, with the expected findings.

mod directories;
mod inodes;
mod nodes;
mod tables;
mod volume;

use nandkit_f2fs::layout::dentry::Slot;
use nandkit_f2fs::layout::inode::inline;
use nandkit_f2fs::layout::{DentryArea, DentryRoom, InodeHead};
use nandkit_f2fs::{BlockAddress, FindingKind, NodeId};

use super::planted::{PACK, Planted};

pub use directories::DIRECTORIES;
pub use inodes::INODES;
pub use nodes::NODES;
pub use tables::TABLES;
pub use volume::VOLUME;

/// The expected findings: kind, inode, block.
pub type Expected = Vec<(FindingKind, Option<NodeId>, Option<BlockAddress>)>;

/// Whether fsck.f2fs reports the fault too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fsck {
    Complains,
    Silent,
}
pub use Fsck::{Complains, Silent};

pub type Case = (&'static str, Fsck, fn(&mut Planted) -> Expected);

pub const BIG: &str = "sizes/of-9000000";
pub const SMALL: &str = "kinds/film.mp4";

pub fn one(kind: FindingKind, inode: NodeId, at: BlockAddress) -> Expected {
    vec![(kind, Some(inode), Some(at))]
}

pub fn volume(kind: FindingKind) -> Expected {
    vec![(kind, None, None)]
}

pub fn at(kind: FindingKind, at: BlockAddress) -> Expected {
    vec![(kind, None, Some(at))]
}

/// Changes the head of an inode; the finding must name the inode and its block.
pub fn in_head(p: &mut Planted, path: &str, change: impl FnOnce(&mut InodeHead), kind: FindingKind) -> Expected {
    let nid = p.nid(path);
    p.head(nid, change);
    one(kind, nid, p.at(nid))
}

/// Changes the bytes of an inode; the finding must name the inode and its block.
pub fn in_bytes(p: &mut Planted, path: &str, change: impl FnOnce(&mut [u8]), kind: FindingKind) -> Expected {
    let nid = p.nid(path);
    p.inode(nid, change);
    one(kind, nid, p.at(nid))
}

/// Removes the block from the expected findings.
pub fn nowhere(mut expected: Expected) -> Expected {
    expected[0].2 = None;
    expected
}

pub fn pack() -> BlockAddress {
    BlockAddress(PACK as u32)
}

/// The first slot of a name in an area, and the offsets of its entry and its name.
pub fn find(area: &[u8], name: &[u8]) -> (usize, usize, usize) {
    let room = DentryRoom::of(area.len());
    let found = DentryArea::new(area).slots_from(0).find_map(|slot| match slot {
        Slot::Entry(entry) if entry.name == name => Some(entry.slot),
        _ => None,
    });
    let slot = found.unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(name)));
    (slot, room.entries + slot * 11, room.names + slot * 8)
}

/// A block of the directory `many`, the slot of one of its entries whose name takes at least two
/// slots, and the name.
pub fn entry_of_many(planted: &mut Planted) -> (NodeId, BlockAddress, usize, Vec<u8>) {
    let many = planted.nid("many");
    let level_three = 2 + 4 + 8;
    for page in level_three..200 {
        let here = planted.page(many, page);
        if here.0 == 0 {
            continue;
        }
        for slot in DentryArea::new(planted.block(here)).slots_from(0) {
            if let Slot::Entry(entry) = slot
                && entry.name.len() > 20
            {
                return (many, here, entry.slot, entry.name.to_vec());
            }
        }
    }
    panic!("no entry")
}

pub const ENTRIES: usize = 30;
pub const NAMES: usize = 2384;

/// An inode in a node segment that no log uses.
pub fn full_node_segment(p: &Planted) -> NodeId {
    let volume = p.volume();
    let many = p.nid("many");
    let inode = |number: u32| {
        let name = format!("{number}-{}", "n".repeat(number as usize % 90));
        let found =
            nandkit_vfs::FileSystem::lookup(volume, nandkit_vfs::InodeNumber(many.0.into()), name.as_bytes()).unwrap();
        NodeId(found.0 as u32)
    };
    let at = |nid: NodeId| BlockAddress(nandkit_f2fs::Nodes::entry(volume, nid).unwrap().address.get());
    (0..5000).map(inode).find(|nid| p.has_ssa(at(*nid)) && p.geometry.main(at(*nid)).unwrap().1 > 0).unwrap()
}

/// The block with the entries of a directory that has one: its inode or its first page.
pub fn dentry_block(p: &mut Planted, path: &str) -> BlockAddress {
    let nid = p.nid(path);
    let here = p.at(nid);
    if p.block(here)[3] & inline::DENTRY != 0 { here } else { p.page(nid, 0) }
}

/// Changes the area of a directory that has one.
pub fn area(p: &mut Planted, path: &str, change: impl FnOnce(&mut [u8])) {
    let nid = p.nid(path);
    let here = p.at(nid);
    if p.block(here)[3] & inline::DENTRY != 0 {
        p.inline_area(nid, change);
    } else {
        let page = p.page(nid, 0);
        change(p.block(page));
    }
}
