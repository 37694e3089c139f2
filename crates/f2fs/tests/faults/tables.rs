//! Faults of the NAT, the SIT and the summaries.

use nandkit_f2fs::FindingKind::*;

use super::*;

pub const TABLES: &[Case] = &[
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
