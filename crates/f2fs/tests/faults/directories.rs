//! Faults of directories.

use nandkit_f2fs::FindingKind::*;

use super::*;

pub const DIRECTORIES: &[Case] = &[
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
        let old = nandkit_f2fs::testing::directory::hash(&name);
        // The bucket in a level is the hash modulo a power of two: another last bit means another
        // bucket.
        while nandkit_f2fs::testing::directory::hash(&name) & 1 == old & 1 {
            name[0] += 1;
        }
        let hash = nandkit_f2fs::testing::directory::hash(&name);
        p.block(here)[NAMES + slot * 8] = name[0];
        p.set_word(here, ENTRIES + slot * 11, hash);
        one(Directory, many, here)
    }),
    ("name with a slash", Silent, |p| {
        let (nid, here) = (p.nid("devices"), dentry_block(p, "devices"));
        area(p, "devices", |area| {
            let (_, entry, name) = find(area, b"socket");
            area[name + 1] = b'/';
            area[entry..entry + 4].copy_from_slice(&nandkit_f2fs::testing::directory::hash(b"s/cket").to_le_bytes());
        });
        one(Dentry, nid, here)
    }),
    ("name twice", Silent, |p| {
        let (nid, here) = (p.nid("links"), dentry_block(p, "links"));
        area(p, "links", |area| {
            let (_, entry, name) = find(area, b"1");
            area[name] = b'0';
            area[entry..entry + 4].copy_from_slice(&nandkit_f2fs::testing::directory::hash(b"0").to_le_bytes());
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
    ("parent in a directory's inode", Complains, |p| in_head(p, "devices", |head| head.parent = 77.into(), Directory)),
    ("levels", Silent, |p| in_head(p, "many", |head| head.depth = 2.into(), Directory)),
    ("size", Silent, |p| in_head(p, "many", |head| head.size = 8192.into(), Directory)),
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

/// Length of the name recorded in an inode, in bytes.
fn entry_length(p: &mut Planted, ino: NodeId) -> usize {
    let here = p.at(ino);
    p.word(here, 88) as usize
}
