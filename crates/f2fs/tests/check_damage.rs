//! One fault planted in a sound volume, checksums mended: exactly that fault is found, with its inode and its block. What fsck.f2fs says of the same volume stands beside it.

mod common;
mod made;
mod planted;

use made::{clock, complaints, everything, new_image};
use nandkit_f2fs::FindingKind::*;
use nandkit_f2fs::layout::checkpoint::flag;
use nandkit_f2fs::layout::dentry::Slot;
use nandkit_f2fs::layout::inode::inline;
use nandkit_f2fs::layout::{BLOCKS_PER_SEGMENT, DentryArea, DentryRoom};
use nandkit_f2fs::mkfs::{Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{BlockAddress, FindingKind, Log, NodeId, check, repair};
use planted::{BLOCK, PACK, Planted};

/// What has to be found.
type Expected = Vec<(FindingKind, Option<NodeId>, Option<BlockAddress>)>;

/// Whether fsck.f2fs complains too.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fsck {
    Complains,
    Silent,
}
use Fsck::{Complains, Silent};

type Case = (&'static str, Fsck, fn(&mut Planted) -> Expected);

const BIG: &str = "sizes/of-9000000";
const SMALL: &str = "kinds/film.mp4";

fn one(kind: FindingKind, inode: NodeId, at: BlockAddress) -> Expected {
    vec![(kind, Some(inode), Some(at))]
}

fn volume(kind: FindingKind) -> Expected {
    vec![(kind, None, None)]
}

fn at(kind: FindingKind, at: BlockAddress) -> Expected {
    vec![(kind, None, Some(at))]
}

fn pack() -> BlockAddress {
    BlockAddress(PACK as u32)
}

/// The first slot of a name in an area, and where its entry and its name begin.
fn find(area: &[u8], name: &[u8]) -> (usize, usize, usize) {
    let room = DentryRoom::of(area.len());
    let found = DentryArea::new(area).slots_from(0).find_map(|slot| match slot {
        Slot::Entry(entry) if entry.name == name => Some(entry.slot),
        _ => None,
    });
    let slot = found.unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(name)));
    (slot, room.entries + slot * 11, room.names + slot * 8)
}

/// A block of the directory `many`, the slot of one of its entries with a name of at least two slots, and the name.
fn entry_of_many(planted: &mut Planted) -> (NodeId, BlockAddress, usize, Vec<u8>) {
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

const ENTRIES: usize = 30;
const NAMES: usize = 2384;

const VOLUME: &[Case] = &[
    ("second superblock blank", Silent, |p| {
        p.block(BlockAddress(1)).fill(0);
        volume(Superblock)
    }),
    ("first superblock's checksum", Silent, |p| {
        p.bytes[1024 + 3068] ^= 1;
        volume(Superblock)
    }),
    ("superblocks differ", Silent, |p| {
        p.superblock(1, |superblock| superblock.volume_name[0] = 65.into());
        volume(Superblock)
    }),
    ("other pack damaged", Silent, |p| {
        p.bytes[(PACK + 512) * BLOCK + 300] ^= 1;
        at(Checkpoint, BlockAddress(PACK as u32 + 512))
    }),
    ("marked as in need of fsck", Silent, |p| {
        p.checkpoint(|head| head.flags = (head.flags.get() | flag::FSCK).into());
        at(State, pack())
    }),
    ("unknown flag", Silent, |p| {
        p.checkpoint(|head| head.flags = (head.flags.get() | 0x10_0000).into());
        at(Checkpoint, pack())
    }),
    ("first and last block of the pack differ", Silent, |p| {
        let last = PACK + p.state.head.pack_blocks.get() as usize - 1;
        p.checkpoint_block(last, |head| head.elapsed_seconds = 7.into());
        at(Checkpoint, pack())
    }),
    ("next free nid", Silent, |p| {
        p.checkpoint(|head| head.next_free_nid = 0x7FFF_FFFF.into());
        volume(Count)
    }),
    ("blocks for users", Complains, |p| {
        p.checkpoint(|head| head.user_blocks = (head.user_blocks.get() * 2).into());
        at(Checkpoint, pack())
    }),
    ("count of blocks", Complains, |p| {
        p.checkpoint(|head| head.valid_blocks = (head.valid_blocks.get() + 1).into());
        volume(Count)
    }),
    ("count of nodes", Complains, |p| {
        p.checkpoint(|head| head.valid_nodes = (head.valid_nodes.get() + 1).into());
        volume(Count)
    }),
    ("count of inodes", Complains, |p| {
        p.checkpoint(|head| head.valid_inodes = (head.valid_inodes.get() - 1).into());
        volume(Count)
    }),
    ("count of free segments", Complains, |p| {
        p.checkpoint(|head| head.free_segments = (head.free_segments.get() - 1).into());
        volume(Count)
    }),
    ("log on a block in use", Complains, |p| {
        let log = p.state.logs[Log::WarmNode.index()];
        p.checkpoint(|head| head.node_offsets[1] = (log.next - 1).into());
        at(Segment, BlockAddress(p.geometry.segment_start(log.segment).0 + u32::from(log.next) - 1))
    }),
    ("type of a log's segment", Complains, |p| {
        let log = p.state.logs[Log::WarmNode.index()];
        p.write_state(|state| {
            let entry = state.sit_journal.iter_mut().find(|(segment, _)| *segment == log.segment).unwrap();
            let count = entry.1.count_and_type.get() & 0x3FF;
            entry.1.count_and_type = (count | 5 << 10).into();
        });
        at(Segment, BlockAddress(p.geometry.segment_start(log.segment).0 + u32::from(log.next)))
    }),
    ("deleted and open, with a name", Complains, |p| {
        let nid = p.nid(SMALL);
        p.write_state(|state| {
            state.orphans.push(nid);
            state.nat_bits = None;
        });
        vec![(Links, Some(nid), None)]
    }),
    ("NAT's journal with a nid that cannot be", Silent, |p| {
        p.write_state(|state| {
            let (_, entry) = state.nat_journal[0];
            state.nat_journal.push((NodeId(u32::MAX), entry));
        });
        volume(Nat)
    }),
    ("nat_bits", Silent, |p| {
        let (blocks, bytes) = p.geometry.nat_bits_size();
        let start = BlockAddress(PACK as u32 + BLOCKS_PER_SEGMENT - blocks);
        let byte = 8 + bytes + 5;
        p.block(start)[byte] ^= 4;
        volume(Nat)
    }),
];

const TABLES: &[Case] = &[
    ("NAT: owner of an inode", Complains, |p| {
        let nid = p.nid(SMALL);
        p.nat(nid, |entry| entry.ino = 4000.into());
        one(Nat, nid, p.at(nid))
    }),
    ("NAT: owner of a direct node", Complains, |p| {
        let nid = p.nid(BIG);
        let inode = p.at(nid);
        let direct = NodeId(p.word(inode, 4052));
        p.nat(direct, |entry| entry.ino = 4000.into());
        one(Nat, nid, p.at(direct))
    }),
    ("NAT: two nids at one address", Complains, |p| {
        let nid = p.nid(SMALL);
        let entry = p.entry(nid);
        let unused = NodeId(p.state.head.next_free_nid.get());
        p.nat(unused, |free| *free = entry);
        at(Nat, p.at(nid))
    }),
    ("NAT: address outside", Complains, |p| {
        let nid = p.nid("devices/socket");
        let here = p.at(nid);
        p.nat(nid, |entry| entry.address = 7.into());
        let _ = here;
        vec![(Nat, Some(nid), None)]
    }),
    ("NAT: entry of the node area", Silent, |p| {
        p.nat(NodeId(1), |entry| entry.ino = 9.into());
        at(Nat, p.nat_place(NodeId(1)).0)
    }),
    ("NAT: version", Complains, |p| {
        let nid = p.nid(SMALL);
        let first = p.page(nid, 0);
        p.nat(nid, |entry| entry.version = 3);
        one(Summary, nid, first)
    }),
    ("SIT: block that nobody uses", Complains, |p| {
        let last = nandkit_f2fs::SegmentIndex(p.geometry.main_segments - 1);
        let unused = BlockAddress(p.geometry.segment_start(last).0 + 3);
        p.mark(unused, true);
        at(Sit, unused)
    }),
    ("SIT: block in use is free", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.mark(here, false);
        one(Sit, nid, here)
    }),
    ("SIT: count", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.sit(here, |entry| entry.count_and_type = (entry.count_and_type.get() - 1).into());
        at(Sit, p.sit_place(here).0)
    }),
    ("SIT: node segment called data", Complains, |p| {
        let nid = full_node_segment(p);
        let here = p.at(nid);
        p.sit(here, |entry| entry.count_and_type = (entry.count_and_type.get() & 0x3FF | 1 << 10).into());
        let (segment, _) = p.geometry.main(here).unwrap();
        vec![(Segment, None, Some(p.geometry.segment_start(segment)))]
    }),
    ("SIT: type that there is not", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.sit(here, |entry| entry.count_and_type = (entry.count_and_type.get() & 0x3FF | 6 << 10).into());
        at(Segment, p.sit_place(here).0)
    }),
    ("SSA: nid", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.summary(here, |entry| entry.nid = 77.into());
        one(Summary, nid, here)
    }),
    ("SSA: index", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.summary(here, |entry| entry.index = 77.into());
        one(Summary, nid, here)
    }),
    ("SSA: version", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        p.summary(here, |entry| entry.version = 7);
        one(Summary, nid, here)
    }),
    ("SSA: of a node", Complains, |p| {
        let nid = full_node_segment(p);
        let here = p.at(nid);
        p.summary(here, |entry| entry.nid = 77.into());
        one(Summary, nid, here)
    }),
    ("SSA: footer", Complains, |p| {
        let nid = p.nid(BIG);
        let here = p.page(nid, 5);
        let (segment, _) = p.geometry.main(here).unwrap();
        let ssa = p.geometry.ssa(segment);
        p.block(ssa)[4091] = 1;
        at(Summary, ssa)
    }),
];

/// An inode in a node segment that no log has.
fn full_node_segment(p: &Planted) -> NodeId {
    let volume = p.volume();
    let many = p.nid("many");
    let inode = |number: u32| {
        let name = format!("{number}-{}", "n".repeat(number as usize % 90));
        let found =
            nandkit_vfs::FileSystem::lookup(volume, nandkit_vfs::InodeNumber(many.0.into()), name.as_bytes()).unwrap();
        NodeId(found.0 as u32)
    };
    let at = |nid: NodeId| BlockAddress(nandkit_f2fs::blocks::Nodes::entry(volume, nid).unwrap().address.get());
    (0..5000).map(inode).find(|nid| p.has_ssa(at(*nid)) && p.geometry.main(at(*nid)).unwrap().1 > 0).unwrap()
}

const NODES: &[Case] = &[
    ("footer: nid of an inode", Complains, |p| {
        let nid = p.nid(SMALL);
        p.inode(nid, |block| block[4072] ^= 0x40);
        one(Footer, nid, p.at(nid))
    }),
    ("footer: owner of a direct node", Complains, |p| {
        let nid = p.nid(BIG);
        let inode = p.at(nid);
        let direct = NodeId(p.word(inode, 4052));
        let here = p.at(direct);
        p.set_word(here, 4076, 4000);
        one(Footer, nid, here)
    }),
    ("footer: place of a direct node", Silent, |p| {
        let nid = p.nid(BIG);
        let inode = p.at(nid);
        let direct = NodeId(p.word(inode, 4052));
        let here = p.at(direct);
        let flags = p.word(here, 4080);
        p.set_word(here, 4080, flags ^ 6 << 3);
        one(Tree, nid, here)
    }),
    ("node twice in a tree", Complains, |p| {
        let nid = p.nid("sizes/of-3575809");
        let inode = p.at(nid);
        let direct = p.word(inode, 4052);
        assert!(direct != 0 && p.word(inode, 4056) == 0);
        p.inode(nid, |block| block[4056..4060].copy_from_slice(&direct.to_le_bytes()));
        vec![(Tree, Some(nid), None)]
    }),
    ("reference to a free node", Complains, |p| {
        let nid = p.nid(SMALL);
        p.inode(nid, |block| block[4052..4056].copy_from_slice(&9000_u32.to_le_bytes()));
        vec![(Nat, Some(nid), None)]
    }),
    ("reference to a node that cannot be", Complains, |p| {
        let nid = p.nid(SMALL);
        p.inode(nid, |block| block[4052..4056].copy_from_slice(&0x7FFF_FFFF_u32.to_le_bytes()));
        vec![(Tree, Some(nid), None)]
    }),
    ("node that nothing refers to", Complains, |p| {
        let nid = p.nid("sizes/of-3575809");
        let inode = p.at(nid);
        let direct = NodeId(p.word(inode, 4052));
        let first = p.at(direct);
        p.head(nid, |head| head.extent.length = 0.into());
        p.inode(nid, |block| block[4052..4056].fill(0));
        vec![(Unreached, Some(nid), Some(first)), (Count, Some(nid), Some(inode))]
    }),
    ("address outside the main area", Complains, |p| {
        let nid = p.nid(BIG);
        let (inode, old) = (p.at(nid), p.page(nid, 5));
        p.head(nid, |head| head.extent.length = 0.into());
        p.set_page(nid, 5, 0x7000_0000);
        vec![(Address, Some(nid), Some(inode)), (Sit, None, Some(old))]
    }),
    ("block with two owners", Complains, |p| {
        let (nid, other) = (p.nid(BIG), p.nid("sizes/of-3000000"));
        let (old, target) = (p.page(nid, 5), p.page(other, 7));
        p.head(nid, |head| head.extent.length = 0.into());
        p.set_page(nid, 5, target.0);
        vec![(Owners, Some(nid), Some(target)), (Sit, None, Some(old))]
    }),
    ("mark of compression in a plain file", Complains, |p| {
        let nid = p.nid(BIG);
        let (inode, old) = (p.at(nid), p.page(nid, 5));
        p.head(nid, |head| head.extent.length = 0.into());
        p.set_page(nid, 5, 0xFFFF_FFFE);
        p.mark(old, false);
        one(Address, nid, inode)
    }),
];

const INODES: &[Case] = &[
    ("checksum", Complains, |p| {
        let nid = p.nid(SMALL);
        let here = p.at(nid);
        p.block(here)[33] ^= 1;
        one(InodeChecksum, nid, here)
    }),
    ("blocks", Complains, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.blocks = (head.blocks.get() + 1).into());
        one(Count, nid, p.at(nid))
    }),
    ("links of a file too high", Complains, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.links = 2.into());
        vec![(Links, Some(nid), None)]
    }),
    ("links of a file too low", Complains, |p| {
        let nid = p.nid(BIG);
        p.head(nid, |head| head.links = 1.into());
        vec![(Links, Some(nid), None)]
    }),
    ("links of a directory", Complains, |p| {
        let nid = p.nid("sizes");
        p.head(nid, |head| head.links = 3.into());
        vec![(Links, Some(nid), None)]
    }),
    ("largest extent", Complains, |p| {
        let nid = p.nid(BIG);
        p.head(nid, |head| head.extent.address = (head.extent.address.get() + 1).into());
        one(Extent, nid, p.at(nid))
    }),
    ("kind", Complains, |p| {
        let nid = p.nid("devices/socket");
        p.head(nid, |head| head.mode = (0o010_755).into());
        let name = dentry_block(p, "devices");
        one(Dentry, nid, name)
    }),
    ("no kind", Complains, |p| {
        let nid = p.nid("devices/socket");
        p.head(nid, |head| head.mode = 0o755.into());
        one(Inode, nid, p.at(nid))
    }),
    ("word before inline content", Complains, |p| {
        let nid = p.nid("many/1-n");
        p.set_page(nid, 0, 9);
        one(Inode, nid, p.at(nid))
    }),
    ("content that is said not to be", Complains, |p| {
        let nid = p.nid("many/1-n");
        p.head(nid, |head| head.inline &= !inline::DATA_EXISTS);
        one(Inode, nid, p.at(nid))
    }),
    ("size beyond the inode's room", Complains, |p| {
        let nid = p.nid("many/1-n");
        p.head(nid, |head| head.size = 50_000.into());
        one(Inode, nid, p.at(nid))
    }),
    ("nanoseconds", Silent, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.changed_ns = 1_000_000_000.into());
        one(Inode, nid, p.at(nid))
    }),
    ("length of the name in the inode", Complains, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.name_length = 300.into());
        one(Inode, nid, p.at(nid))
    }),
    ("size of the extra attributes", Silent, |p| {
        let nid = p.nid("devices/socket");
        p.inode(nid, |block| block[360] = 50);
        one(Inode, nid, p.at(nid))
    }),
    ("inline entries in a file", Complains, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.inline |= inline::DENTRY);
        one(Inode, nid, p.at(nid))
    }),
    ("nodes beside inline content", Silent, |p| {
        let nid = p.nid("many/1-n");
        p.inode(nid, |block| block[4052] = 9);
        one(Inode, nid, p.at(nid))
    }),
    ("link with NUL in its target", Silent, |p| {
        let nid = p.nid("links/1");
        let byte = p.address_byte(nid, 1);
        p.inode(nid, |block| block[byte + 50] = 0);
        one(Inode, nid, p.at(nid))
    }),
    ("magic of the attributes", Silent, |p| {
        let nid = p.nid("attributes/small");
        p.inode(nid, |block| block[4052 - 200] ^= 1);
        vec![(Xattr, Some(nid), None)]
    }),
    ("magic of the attributes zero", Silent, |p| {
        let nid = p.nid("attributes/small");
        p.inode(nid, |block| block[4052 - 200..4052 - 196].fill(0));
        vec![(Xattr, Some(nid), None)]
    }),
    ("attribute that reaches out", Silent, |p| {
        let nid = p.nid("attributes/small");
        p.inode(nid, |block| block[4052 - 200 + 24 + 2..4052 - 200 + 24 + 4].fill(0xFF));
        vec![(Xattr, Some(nid), None)]
    }),
    ("index of an attribute", Silent, |p| {
        let nid = p.nid("attributes/small");
        p.inode(nid, |block| block[4052 - 200 + 24] = 99);
        vec![(Xattr, Some(nid), None)]
    }),
    ("access control list", Silent, |p| {
        let nid = p.nid("attributes/acl");
        p.inode(nid, |block| block[4052 - 200 + 24 + 4] = 9);
        vec![(Xattr, Some(nid), None)]
    }),
    ("node of attributes dropped", Complains, |p| {
        let nid = p.nid("attributes/both");
        let here = p.at(nid);
        let node = NodeId(p.word(here, 76));
        let lost = p.at(node);
        p.head(nid, |head| head.xattr_nid = 0.into());
        // An attribute went on in the node.
        vec![(Unreached, Some(nid), Some(lost)), (Count, Some(nid), Some(here)), (Xattr, Some(nid), None)]
    }),
    ("compressed, on a volume without", Complains, |p| {
        let nid = p.nid(SMALL);
        p.head(nid, |head| head.flags = (head.flags.get() | 4).into());
        one(Inode, nid, p.at(nid))
    }),
];

/// The block with the names of a directory that has one: its inode or its first page.
fn dentry_block(p: &mut Planted, path: &str) -> BlockAddress {
    let nid = p.nid(path);
    let here = p.at(nid);
    if p.block(here)[3] & inline::DENTRY != 0 { here } else { p.page(nid, 0) }
}

/// Changes the area of a directory with one area.
fn area(p: &mut Planted, path: &str, change: impl FnOnce(&mut [u8])) {
    let nid = p.nid(path);
    let here = p.at(nid);
    if p.block(here)[3] & inline::DENTRY != 0 {
        p.inline_area(nid, change);
    } else {
        let page = p.page(nid, 0);
        change(p.block(page));
    }
}

const DIRECTORIES: &[Case] = &[
    ("hash", Complains, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        p.block(here)[ENTRIES + slot * 11 + 3] ^= 0x80;
        one(Dentry, many, here)
    }),
    ("type", Complains, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        let ino = NodeId(p.word(here, ENTRIES + slot * 11 + 4));
        p.block(here)[ENTRIES + slot * 11 + 10] = 7;
        let _ = many;
        one(Dentry, ino, here)
    }),
    ("type that there is not", Complains, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        p.block(here)[ENTRIES + slot * 11 + 10] = 9;
        one(Dentry, many, here)
    }),
    ("inode that there is not", Complains, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        let ino = NodeId(p.word(here, ENTRIES + slot * 11 + 4));
        p.set_word(here, ENTRIES + slot * 11 + 4, 9000);
        vec![(Dentry, Some(many), Some(here)), (Unreached, Some(ino), Some(p.at(ino)))]
    }),
    ("node that is no inode", Complains, |p| {
        let (_, here, slot, _) = entry_of_many(p);
        let (ino, big) = (NodeId(p.word(here, ENTRIES + slot * 11 + 4)), p.nid(BIG));
        let inode = p.at(big);
        let direct = NodeId(p.word(inode, 4052));
        p.set_word(here, ENTRIES + slot * 11 + 4, direct.0);
        let direct_at = p.at(direct);
        vec![
            (Nat, Some(direct), Some(direct_at)),
            (Footer, Some(direct), Some(direct_at)),
            (Tree, Some(big), None),
            (Unreached, Some(ino), Some(p.at(ino))),
        ]
    }),
    ("length of a name", Complains, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        let ino = NodeId(p.word(here, ENTRIES + slot * 11 + 4));
        p.block(here)[ENTRIES + slot * 11 + 8] = 0;
        let mut expected = vec![(Unreached, Some(ino), Some(p.at(ino)))];
        let slots = nandkit_f2fs::layout::dentry::slots_of(entry_length(p, ino));
        expected.extend((0..slots).map(|_| (Dentry, Some(many), Some(here))));
        expected
    }),
    ("bit of the second slot of a name", Silent, |p| {
        let (many, here, slot, _) = entry_of_many(p);
        let bit = slot + 1;
        p.block(here)[bit / 8] &= !(1 << (bit % 8));
        one(Dentry, many, here)
    }),
    ("bits of a name", Silent, |p| {
        let (_, here, slot, name) = entry_of_many(p);
        let ino = NodeId(p.word(here, ENTRIES + slot * 11 + 4));
        for bit in slot..slot + name.len().div_ceil(8) {
            p.block(here)[bit / 8] &= !(1 << (bit % 8));
        }
        one(Unreached, ino, p.at(ino))
    }),
    ("wrong bucket", Complains, |p| {
        let (many, here, slot, mut name) = entry_of_many(p);
        let old = nandkit_f2fs::directory::hash(&name);
        // The bucket of a level is the hash modulo a power of two: another last bit is another bucket.
        while nandkit_f2fs::directory::hash(&name) & 1 == old & 1 {
            name[0] += 1;
        }
        let hash = nandkit_f2fs::directory::hash(&name);
        p.block(here)[NAMES + slot * 8] = name[0];
        p.set_word(here, ENTRIES + slot * 11, hash);
        one(Directory, many, here)
    }),
    ("name with a slash", Silent, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        area(p, "devices", |area| {
            let (_, entry, name) = find(area, b"socket");
            area[name + 1] = b'/';
            area[entry..entry + 4].copy_from_slice(&nandkit_f2fs::directory::hash(b"s/cket").to_le_bytes());
        });
        one(Dentry, nid, here)
    }),
    ("name twice", Silent, |p| {
        let (nid, here) = (p.nid("links"), dentry_block(p, "links"));
        area(p, "links", |area| {
            let (_, entry, name) = find(area, b"1");
            area[name] = b'0';
            area[entry..entry + 4].copy_from_slice(&nandkit_f2fs::directory::hash(b"0").to_le_bytes());
        });
        one(Dentry, nid, here)
    }),
    ("..", Complains, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        area(p, "devices", |area| {
            let entry = DentryRoom::of(area.len()).entries + 11;
            area[entry + 4] ^= 1;
        });
        one(Directory, nid, here)
    }),
    (".", Complains, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        area(p, "devices", |area| {
            let entry = DentryRoom::of(area.len()).entries;
            area[entry + 4] ^= 1;
        });
        one(Directory, nid, here)
    }),
    ("no ..", Complains, |p| {
        let nid = p.nid("devices");
        area(p, "devices", |area| area[0] &= !2);
        one(Directory, nid, p.at(nid))
    }),
    ("parent in a directory's inode", Complains, |p| {
        let nid = p.nid("devices");
        p.head(nid, |head| head.parent = 77.into());
        one(Directory, nid, p.at(nid))
    }),
    ("levels", Silent, |p| {
        let nid = p.nid("many");
        p.head(nid, |head| head.depth = 2.into());
        one(Directory, nid, p.at(nid))
    }),
    ("size", Silent, |p| {
        let nid = p.nid("many");
        p.head(nid, |head| head.size = 8192.into());
        one(Directory, nid, p.at(nid))
    }),
    ("directory with two names", Complains, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        let (many, socket) = (p.nid("many"), p.nid("devices/socket"));
        area(p, "devices", |area| {
            let (_, entry, _) = find(area, b"socket");
            area[entry + 4..entry + 8].copy_from_slice(&many.0.to_le_bytes());
            area[entry + 10] = 2;
        });
        vec![(Directory, Some(nid), Some(here)), (Unreached, Some(socket), Some(p.at(socket)))]
    }),
    ("directory within itself", Complains, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        let socket = p.nid("devices/socket");
        area(p, "devices", |area| {
            let (_, entry, _) = find(area, b"socket");
            area[entry + 4..entry + 8].copy_from_slice(&nid.0.to_le_bytes());
            area[entry + 10] = 2;
        });
        vec![(Directory, Some(nid), Some(here)), (Unreached, Some(socket), Some(p.at(socket)))]
    }),
    ("directory without a name", Complains, |p| {
        let nid = p.nid("devices");
        let root = p.geometry.main_address();
        let _ = root;
        let page = p.page(NodeId(3), 0);
        let (slot, ..) = find(p.block(page), b"devices");
        p.block(page)[slot / 8] &= !(1 << (slot % 8));
        vec![(Unreached, Some(nid), Some(p.at(nid))), (Links, Some(NodeId(3)), None)]
    }),
];

/// Bytes of the name that an inode has in itself.
fn entry_length(p: &mut Planted, ino: NodeId) -> usize {
    let here = p.at(ino);
    p.word(here, 88) as usize
}

fn base() -> Planted {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let features = features_named("extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found").unwrap();
    let tree = everything();
    let mkfs = Mkfs::new(&tree, MkfsOptions { features, ..MkfsOptions::default() }).unwrap();
    mkfs.write(&mut new_image(&path, 128 << 20), &clock(), &|_| {}).unwrap();
    Planted::new(std::fs::read(&path).unwrap())
}

/// A repaired copy is sound to us and to fsck.f2fs, and has all files but those that cannot be had.
fn repaired(name: &str, planted: &Planted, before: u64, path: &std::path::Path, wrong: &mut Vec<String>) {
    let repair = match repair(vec![planted.device()], clock()) {
        Ok(repair) => repair,
        Err(error) => {
            wrong.push(format!("{name}: no repair: {error}"));
            return;
        }
    };
    let mut copy = planted.clone();
    for (at, bytes) in &repair.blocks {
        copy.block(*at).copy_from_slice(bytes);
    }
    let again = check(vec![copy.device()], clock()).unwrap();
    let told = |report: &nandkit_f2fs::CheckReport| -> Vec<String> {
        report.findings.iter().map(|found| format!("{} {}", found.finding.kind.name(), found.finding)).collect()
    };
    if !again.findings.is_empty() || !repair.after.findings.is_empty() {
        wrong.push(format!("{name}: repaired, and {:?}\n   {:?}", told(&again), told(&repair.after)));
    }
    copy.write(path);
    let complaints = complaints(path);
    if !complaints.is_empty() {
        wrong.push(format!("{name}: repaired, and fsck.f2fs: {complaints:?}"));
    }
    let kept = again.files + again.others + again.directories;
    if kept + u64::from(DROPPED.contains(&name)) != before {
        wrong.push(format!("{name}: {kept} of {before} inodes, dropped {:?}", repair.dropped));
    }
}

/// Faults by which an inode is lost: nothing can be made of it.
const DROPPED: [&str; 3] = ["NAT: address outside", "no kind", "size of the extra attributes"];

fn run(cases: &[Case]) {
    let base = base();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let mut wrong = Vec::new();
    let sound = check(vec![base.device()], clock()).unwrap();
    let inodes = sound.files + sound.others + sound.directories;
    for (name, fsck, plant) in cases {
        let mut planted = base.clone();
        let mut expected = plant(&mut planted);
        let report = check(vec![planted.device()], clock()).unwrap();
        let faults = report.findings.iter().filter(|found| !found.harmless);
        let mut found: Expected =
            faults.map(|found| (found.finding.kind, found.finding.inode, found.finding.at)).collect();
        expected.sort();
        found.sort();
        // Of segments the inode concerned is that of the first block.
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(f, e)| f.0 == e.0 && f.2 == e.2 && (f.1 == e.1 || f.0 == Segment));
        if !same {
            let told: Vec<String> = report
                .findings
                .iter()
                .map(|found| format!("{} {}", found.finding.kind.name(), found.finding))
                .collect();
            wrong.push(format!("{name}: expected {expected:?}, found {found:?}\n    {}", told.join("\n    ")));
        }
        for finding in report.findings.iter().filter(|found| !found.harmless) {
            if let (Some(inode), Some(shown)) = (finding.finding.inode, &finding.path) {
                let shown = String::from_utf8_lossy(shown);
                if !["name with a slash", "name twice", "node that is no inode"].contains(name)
                    && base.nid(&shown) != inode
                {
                    wrong.push(format!("{name}: {shown} is not inode {}", inode.0));
                }
            }
        }
        planted.write(&path);
        let told = complaints(&path);
        if told.is_empty() != (*fsck == Silent) {
            wrong.push(format!("{name}: fsck.f2fs, expected {fsck:?}: {:?}", told.first()));
        }
        repaired(name, &planted, inodes, &path, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn faults_of_superblocks_and_checkpoint_are_found() {
    run(VOLUME);
}

#[test]
fn faults_of_the_tables_are_found() {
    run(TABLES);
}

#[test]
fn faults_of_nodes_and_addresses_are_found() {
    run(NODES);
}

#[test]
fn faults_of_inodes_and_attributes_are_found() {
    run(INODES);
}

#[test]
fn faults_of_directories_are_found() {
    run(DIRECTORIES);
}
