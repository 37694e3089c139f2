//! Faults of inodes and extended attributes.

use nandkit_f2fs::FindingKind::*;
use nandkit_f2fs::layout::inode::inline;

use super::*;

pub const INODES: &[Case] = &[
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
    ("link of no bytes", Silent, |p| {
        let nid = p.nid("links/1");
        p.head(nid, |head| head.size = 0.into());
        one(Inode, nid, p.at(nid))
    }),
    ("link without a target", Silent, |p| {
        let nid = p.nid("links/1");
        let byte = p.address_byte(nid, 1);
        p.inode(nid, |block| block[byte..byte + 100].fill(0));
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
