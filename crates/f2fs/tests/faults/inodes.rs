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
    ("blocks", Complains, |p| in_head(p, SMALL, |head| head.blocks = (head.blocks.get() + 1).into(), Count)),
    ("links of a file too high", Complains, |p| nowhere(in_head(p, SMALL, |head| head.links = 2.into(), Links))),
    ("links of a file too low", Complains, |p| nowhere(in_head(p, BIG, |head| head.links = 1.into(), Links))),
    ("links of a directory", Complains, |p| nowhere(in_head(p, "sizes", |head| head.links = 3.into(), Links))),
    ("largest extent", Complains, |p| {
        in_head(p, BIG, |head| head.extent.address = (head.extent.address.get() + 1).into(), Extent)
    }),
    ("kind", Complains, |p| {
        let nid = p.nid("devices/socket");
        p.head(nid, |head| head.mode = (0o010_755).into());
        let name = dentry_block(p, "devices");
        one(Dentry, nid, name)
    }),
    ("no kind", Complains, |p| in_head(p, "devices/socket", |head| head.mode = 0o755.into(), Inode)),
    ("word before inline content", Complains, |p| {
        let nid = p.nid("many/1-n");
        p.set_page(nid, 0, 9);
        one(Inode, nid, p.at(nid))
    }),
    ("content that is said not to be", Complains, |p| {
        in_head(p, "many/1-n", |head| head.inline &= !inline::DATA_EXISTS, Inode)
    }),
    ("size beyond the inode's room", Complains, |p| in_head(p, "many/1-n", |head| head.size = 50_000.into(), Inode)),
    ("nanoseconds", Silent, |p| in_head(p, SMALL, |head| head.changed_ns = 1_000_000_000.into(), Inode)),
    ("length of the name in the inode", Complains, |p| in_head(p, SMALL, |head| head.name_length = 300.into(), Inode)),
    ("size of the extra attributes", Silent, |p| in_bytes(p, "devices/socket", |block| block[360] = 50, Inode)),
    ("inline entries in a file", Complains, |p| in_head(p, SMALL, |head| head.inline |= inline::DENTRY, Inode)),
    ("nodes beside inline content", Silent, |p| in_bytes(p, "many/1-n", |block| block[4052] = 9, Inode)),
    ("link with NUL in its target", Silent, |p| {
        let nid = p.nid("links/1");
        let byte = p.address_byte(nid, 1);
        p.inode(nid, |block| block[byte + 50] = 0);
        one(Inode, nid, p.at(nid))
    }),
    ("link of no bytes", Silent, |p| in_head(p, "links/1", |head| head.size = 0.into(), Inode)),
    ("link without a target", Silent, |p| {
        let nid = p.nid("links/1");
        let byte = p.address_byte(nid, 1);
        p.inode(nid, |block| block[byte..byte + 100].fill(0));
        one(Inode, nid, p.at(nid))
    }),
    ("magic of the attributes", Silent, |p| {
        nowhere(in_bytes(p, "attributes/small", |block| block[4052 - 200] ^= 1, Xattr))
    }),
    ("magic of the attributes zero", Silent, |p| {
        nowhere(in_bytes(p, "attributes/small", |block| block[4052 - 200..4052 - 196].fill(0), Xattr))
    }),
    ("attribute that reaches out", Silent, |p| {
        nowhere(in_bytes(
            p,
            "attributes/small",
            |block| block[4052 - 200 + 24 + 2..4052 - 200 + 24 + 4].fill(0xFF),
            Xattr,
        ))
    }),
    ("index of an attribute", Silent, |p| {
        nowhere(in_bytes(p, "attributes/small", |block| block[4052 - 200 + 24] = 99, Xattr))
    }),
    ("access control list", Silent, |p| {
        nowhere(in_bytes(p, "attributes/acl", |block| block[4052 - 200 + 24 + 4] = 9, Xattr))
    }),
    ("node of attributes dropped", Complains, |p| {
        let nid = p.nid("attributes/both");
        let here = p.at(nid);
        let node = NodeId(p.word(here, 76));
        let lost = p.at(node);
        p.head(nid, |head| head.xattr_nid = 0.into());
        // An attribute continued in the node.
        vec![(Unreached, Some(nid), Some(lost)), (Count, Some(nid), Some(here)), (Xattr, Some(nid), None)]
    }),
    ("compressed, on a volume without", Complains, |p| {
        in_head(p, SMALL, |head| head.flags = (head.flags.get() | 4).into(), Inode)
    }),
];
