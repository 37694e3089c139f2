//! Repairs of volumes with unreadable sectors write the replacements without reading them.

use crate::made::{all_kinds, clock};
use crate::planted::Planted;
use crate::witness::made_with;
use nandkit_block::wrap::{DeviceFault, DeviceFaultWhen, FaultDevice};
use nandkit_block::{ErrorKind, Operation};
use nandkit_f2fs::check::{Repair, Waiting};
use nandkit_f2fs::{BlockAddress, NodeId, SegmentIndex, check, repair};
use nandkit_units::Lba;

/// Repairs the volume without these blocks; the result is sound without them being read.
fn repaired_without(planted: &Planted, blocks: &[BlockAddress]) -> (Repair, Planted) {
    let lost = |at: &BlockAddress| {
        DeviceFault::new(Operation::Read, DeviceFaultWhen::Sector(Lba(at.0.into())), ErrorKind::Unreadable)
    };
    let repair = repair(vec![FaultDevice::new(planted.device(), blocks.iter().map(lost))], clock(), Waiting::Refused);
    let repair = repair.unwrap();
    assert!(repair.after.is_clean(), "{:?}", repair.after.findings);
    let mut copy = planted.clone();
    for at in blocks {
        copy.block(*at).fill(0xEE);
    }
    for (at, bytes) in &repair.blocks {
        copy.block(*at).copy_from_slice(bytes);
    }
    (repair, copy)
}

#[test]
fn a_block_of_the_nat_without_nodes_is_written_anew() {
    let planted = made_with("extra_attr,inode_checksum", &all_kinds(700));
    let last = NodeId(planted.geometry.nid_end() as u32 - 1);
    let (at, _) = planted.nat_place(last);
    let (repair, _) = repaired_without(&planted, &[at]);
    assert!(repair.blocks.get(&at).is_some_and(|block| block.iter().all(|byte| *byte == 0)));
}

/// The new first page of a directory is placed where nothing can be read.
#[test]
fn a_page_that_is_given_is_not_read() {
    let mut planted = made_with("extra_attr,inode_checksum", &all_kinds(700));
    let many = planted.nid("many");
    planted.set_page(many, 0, 0);
    let geometry = planted.geometry.clone();
    let places = |segment: u32| geometry.segment_start(SegmentIndex(segment));
    let is_empty = |at: &BlockAddress| {
        let at = at.0 as usize * 4096;
        planted.bytes[at..at + 512 * 4096].iter().all(|byte| *byte == 0)
    };
    let empty: Vec<BlockAddress> = (0..geometry.main_segments).map(places).filter(is_empty).collect();
    let (repair, copy) = repaired_without(&planted, &empty);
    assert!(empty.iter().any(|at| repair.blocks.contains_key(at)), "none of them was used");
    assert_eq!(check(vec![copy.device()], clock()).unwrap().findings, []);
}
