//! Faults of nodes and of the addresses in them.

use nandkit_f2fs::FindingKind::*;

use super::*;

pub const NODES: &[Case] = &[
    ("footer: nid of an inode", Complains, |p| in_bytes(p, SMALL, |block| block[4072] ^= 0x40, Footer)),
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
        nowhere(in_bytes(p, SMALL, |block| block[4052..4056].copy_from_slice(&9000_u32.to_le_bytes()), Nat))
    }),
    ("reference to a node that cannot be", Complains, |p| {
        nowhere(in_bytes(p, SMALL, |block| block[4052..4056].copy_from_slice(&0x7FFF_FFFF_u32.to_le_bytes()), Tree))
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
