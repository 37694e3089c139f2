//! The classes of bytes on a volume for which damage is counted.

use std::collections::BTreeMap;
use std::ops::Range;

use nandkit_f2fs::Nodes;
use nandkit_f2fs::layout::dentry::{Slot, slots_of};
use nandkit_f2fs::layout::{BLOCKS_PER_SEGMENT, DentryArea, DentryRoom, Footer, InodeHead, NodeOffset};
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{BlockAddress, Log, NodeId, SegmentIndex};
use nandkit_vfs::source::MemoryTree;

use crate::made::{clock, new_image};
use crate::planted::{BLOCK, PACK, Planted};

/// Classes of bytes: block numbers and byte ranges of each.
pub type Classes = BTreeMap<&'static str, Vec<(u32, Range<usize>)>>;

/// The features of the two kinds of volumes: with every checksum of the format, and with none.
pub const FEATURES: [&str; 2] = ["extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found,quota", ""];

/// A volume with a tree.
pub fn made_with(features: &str, tree: &MemoryTree) -> Planted {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let features = features_named(features).unwrap();
    let mkfs = Mkfs::new(tree, MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
    mkfs.write(&mut new_image(&path, 128 << 20), &clock(), &|_| {}).unwrap();
    Planted::new(std::fs::read(&path).unwrap())
}

/// The classes of a volume.
pub fn classes_of(planted: &Planted) -> Classes {
    let mut classes = Classes::new();
    metadata(planted, &mut classes);
    nodes(planted, &mut classes);
    classes
}

fn add(classes: &mut Classes, class: &'static str, at: u32, bytes: Range<usize>) {
    if !bytes.is_empty() {
        classes.entry(class).or_default().push((at, bytes));
    }
}

fn metadata(p: &Planted, classes: &mut Classes) {
    add(classes, "superblock, first", 0, 1024..4096);
    add(classes, "superblock, second", 1, 1024..4096);
    let (first, blocks) = (PACK as u32, p.state.head.pack_blocks.get());
    add(classes, "checkpoint, first block", first, 0..BLOCK);
    add(classes, "checkpoint, last block", first + blocks - 1, 0..BLOCK);
    add(classes, "checkpoint, other pack's first block", first + 512, 0..BLOCK);
    add(classes, "checkpoint, NAT journal in use", first + 1, 0..2 + p.state.nat_journal.len() * 13);
    add(classes, "checkpoint, SIT journal in use", first + 1, 507..507 + 2 + p.state.sit_journal.len() * 78);
    for (number, log) in [Log::HotNode, Log::WarmNode, Log::ColdNode].into_iter().enumerate() {
        for block in 0..usize::from(p.state.logs[log.index()].next) {
            add(
                classes,
                "checkpoint, nids of the node logs",
                first + blocks - 4 + number as u32,
                block * 7..block * 7 + 4,
            );
        }
    }
    let (bits_blocks, bytes) = p.geometry.nat_bits_size();
    add(classes, "checkpoint, nat_bits", first + BLOCKS_PER_SEGMENT - bits_blocks, 8..8 + 2 * bytes);
    for segment in 0..p.geometry.main_segments {
        let segment = SegmentIndex(segment);
        let start = p.geometry.segment_start(segment);
        if p.state.sit_journal.iter().any(|(known, _)| *known == segment) {
            continue;
        }
        let (at, byte) = p.sit_place(start);
        let entry = &p.bytes[at.0 as usize * BLOCK + byte..][..74];
        let used = entry[2..66].iter().any(|&byte| byte != 0);
        let class = if used {
            "SIT, count, type and map of segments in use"
        } else {
            "SIT, count, type and map of free segments"
        };
        add(classes, class, at.0, byte..byte + 66);
        add(classes, "SIT, times", at.0, byte + 66..byte + 74);
        add(classes, "SIT, copy that does not count", at.0 + p.geometry.sit_blocks(), byte..byte + 74);
        if !used || !p.has_ssa(start) {
            continue;
        }
        let ssa = p.geometry.ssa(segment).0;
        let is_node = entry[1] >> 2 >= 3;
        for block in (0..512).filter(|block| nandkit_f2fs::testing::bits::msb_first::get(&entry[2..66], *block)) {
            match is_node {
                true => add(classes, "SSA, nid of a node in use", ssa, block * 7..block * 7 + 4),
                false => add(classes, "SSA, summary of data in use", ssa, block * 7..block * 7 + 7),
            }
        }
        add(classes, "SSA, kind in the footer", ssa, 4091..4092);
        add(classes, "SSA, journal and checksum", ssa, 3584..4091);
    }
}

fn nodes(p: &Planted, classes: &mut Classes) {
    let volume = p.volume();
    let quota = [4, 5, 6].map(NodeId);
    let has_quota = volume.superblock().0.quota_inodes[0].get() != 0;
    for nid in 3..p.state.head.next_free_nid.get() + 100 {
        let nid = NodeId(nid);
        let Ok(entry) = volume.entry(nid) else { continue };
        let journal = p.state.nat_journal.iter().any(|(known, _)| *known == nid);
        if !journal {
            let (at, byte) = p.nat_place(nid);
            let used = if entry.is_free() {
                "NAT, address of free entries"
            } else {
                "NAT, owner and address of entries in use"
            };
            add(classes, used, at.0, byte + if entry.is_free() { 5 } else { 1 }..byte + 9);
            add(classes, "NAT, versions", at.0, byte..byte + 1);
            add(classes, "NAT, copy that does not count", at.0 + 512, byte..byte + 9);
        }
        if entry.is_free() {
            continue;
        }
        let at = entry.address.get();
        let block = &p.bytes[at as usize * BLOCK..][..BLOCK];
        let footer = Footer::of_block(block).unwrap();
        add(classes, "footer, nid, owner and place", at, 4072..4083);
        add(classes, "footer, version and next", at, 4084..4096);
        if footer.offset() == NodeOffset::XATTR {
            add(classes, "node of attributes", at, 0..4072);
        } else if footer.offset() != NodeOffset::INODE {
            let n = 1018;
            let nids = [3, 4 + n, 5 + 2 * n].contains(&footer.offset().0);
            let used = (0..1018).filter(|index| block[index * 4..index * 4 + 4] != [0; 4]);
            for index in used {
                add(
                    classes,
                    if nids { "indirect node, nids" } else { "direct node, addresses" },
                    at,
                    index * 4..index * 4 + 4,
                );
            }
        } else {
            inode(p, classes, nid, at, block, has_quota && quota.contains(&nid));
        }
    }
}

fn inode(p: &Planted, classes: &mut Classes, nid: NodeId, at: u32, block: &[u8], is_quota: bool) {
    let head = InodeHead::of_block(block).unwrap();
    add(classes, "inode, whole", at, 0..BLOCK);
    add(classes, "inode, mode, flags, links, size, blocks", at, 0..32);
    add(classes, "inode, owners", at, 4..12);
    add(classes, "inode, times and generation", at, 32..72);
    add(classes, "inode, name", at, 92..92 + head.name_length.get() as usize);
    add(classes, "inode, extent", at, 348..360);
    let shape = nandkit_f2fs::layout::inode_shape(&p.geometry, p.geometry.features, block).unwrap();
    let kind = head.mode.get() >> 12;
    if head.inline & 2 != 0 {
        add(classes, "inode, inline data", at, shape.inline.start..shape.inline.start + head.size.get() as usize);
        return;
    }
    if head.inline & 4 != 0 {
        entries(classes, at, shape.inline.start, &block[shape.inline]);
        return;
    }
    if !matches!(kind, 4 | 8 | 10) {
        return;
    }
    for index in 0..usize::from(shape.count) {
        let byte = shape.addresses.start + index * 4;
        let address = u32::from_le_bytes(*block[byte..].first_chunk().unwrap());
        if p.geometry.main(BlockAddress(address)).is_none() {
            continue;
        }
        add(classes, "inode, addresses", at, byte..byte + 4);
        match kind {
            4 => entries(classes, address, 0, &p.bytes[address as usize * BLOCK..][..BLOCK]),
            10 => add(classes, "link's target in a block", address, 0..(head.size.get() as usize).min(BLOCK)),
            _ if is_quota => add(classes, "quota file, records", address, 1024 + 16..1024 + 16 + 72),
            _ => add(classes, "file data", address, 0..BLOCK),
        }
    }
    let _ = nid;
}

/// The parts of a directory's area.
fn entries(classes: &mut Classes, at: u32, start: usize, area: &[u8]) {
    let room = DentryRoom::of(area.len());
    add(classes, "directory, bitmap", at, start..start + room.slots / 8);
    for slot in DentryArea::new(area).slots_from(0) {
        let Slot::Entry(entry) = slot else { continue };
        let (dentry, name) = (room.entries + entry.slot * 11, room.names + entry.slot * 8);
        add(classes, "directory, entries in use", at, start + dentry..start + dentry + 11);
        add(classes, "directory, names in use", at, start + name..start + name + entry.name.len());
        let end = name + slots_of(entry.name.len()) * 8;
        add(classes, "directory, rest of names' slots", at, start + name + entry.name.len()..start + end);
    }
}
