//! Compares the table and the free nids with a plain map, over many checkpoints.

use nandkit_block::RamDevice;
use nandkit_units::random::Random;
use nandkit_units::{Cause, Clock};

use super::*;
use crate::device::{Atomicity, DeviceBlocks, Devices, WritableBlocks};
use crate::ids::BlockAddress;
use crate::layout::Geometry;
use crate::nids::Nids;

fn device() -> WritableBlocks<RamDevice> {
    let geometry = Geometry::for_tests(4096);
    let device = RamDevice::with_sectors(4096, 4096 + 100 * 512).unwrap();
    let mut devices = Devices::new(vec![device], Clock::default()).unwrap();
    devices.arrange(&geometry, &mut |_| {}).unwrap();
    WritableBlocks::new(DeviceBlocks { devices, geometry }, Atomicity::Required, &mut |_| {}).unwrap()
}

fn map(device: &WritableBlocks<RamDevice>) -> Vec<u8> {
    vec![0; device.geometry().nat_blocks() as usize / 8]
}

#[test]
fn entries_survive_checkpoints_and_nids_are_never_handed_out_twice() {
    let mut device = device();
    let mut meta = MetaBlocks::new(64);
    let mut nat = Nat::new(map(&device), &[]);
    let mut nids = Nids::new(NodeId(4));
    let mut random = Random::new(5, "nat");
    let mut used: BTreeMap<NodeId, NatEntry> = BTreeMap::new();
    let mut freed: Vec<NodeId> = Vec::new();
    for step in 0..6000u32 {
        match random.below(10) {
            0..6 => {
                let nid = nids.take(&nat, &meta, &device).unwrap();
                assert!(!used.contains_key(&nid) && !freed.contains(&nid) && nid.0 > 3, "step {step}: {nid}");
                let old = nat.entry(&meta, &device, nid).unwrap();
                nat.set(nid, &old, nid, DataAddress::Reserved, false);
                let old = nat.entry(&meta, &device, nid).unwrap();
                nat.set(nid, &old, nid, DataAddress::At(BlockAddress(4096 + step)), false);
                used.insert(nid, nat.entry(&meta, &device, nid).unwrap());
                assert!(nat.needs_dentry_mark(nid));
            }
            6..9 => {
                let skip = random.below(used.len().max(1) as u64) as usize;
                if let Some(nid) = used.keys().nth(skip).copied() {
                    let old = used.remove(&nid).unwrap();
                    nat.set(nid, &old, nid, DataAddress::Hole, false);
                    freed.push(nid);
                }
            }
            _ if step % 4 == 0 => {
                let unmount = random.below(4) == 0;
                nat.flush(&mut meta, &device, unmount).unwrap();
                meta.write(&mut device, Cause::Checkpoint).unwrap();
                nat.checkpointed();
                freed.clear();
                assert!(nat.journal().len() <= 38 && (!unmount || nat.journal().is_empty()));
                // As after a mount.
                (nat, meta) = (Nat::new(nat.map().to_vec(), &nat.journal()), MetaBlocks::new(64));
                nids = Nids::new(nids.hint());
                for (nid, entry) in &used {
                    assert_eq!(nat.entry(&meta, &device, *nid).unwrap(), *entry);
                    assert!(nat.is_checkpointed(*nid) && !nat.needs_inode(*nid));
                }
            }
            _ => {}
        }
    }
    assert!(used.len() > 1000);
}

#[test]
fn a_volume_without_a_free_nid_says_so() {
    let device = device();
    let meta = MetaBlocks::new(64);
    let mut nat = Nat::new(map(&device), &[]);
    let mut nids = Nids::new(NodeId(1_000_000_000));
    let end = device.geometry().nid_end();
    let free = NatEntry::default();
    for _ in 4..end {
        let nid = nids.take(&nat, &meta, &device).unwrap();
        nat.set(nid, &free, nid, DataAddress::Reserved, false);
    }
    assert_eq!(nids.take(&nat, &meta, &device).unwrap_err().kind, nandkit_vfs::ErrorKind::NoSpace);
}

#[test]
fn fsync_marks_follow_what_was_written() {
    let mut nat = Nat::new(vec![0; 128], &[]);
    let (ino, node, free) = (NodeId(10), NodeId(11), NatEntry::default());
    assert!(!nat.needs_inode(ino) && !nat.needs_dentry_mark(ino));
    nat.set(ino, &free, ino, DataAddress::Reserved, false);
    assert!(nat.needs_inode(ino) && nat.needs_dentry_mark(ino) && !nat.is_checkpointed(ino));
    nat.set(ino, &free, ino, DataAddress::At(BlockAddress(5000)), true);
    assert!(!nat.needs_inode(ino) && !nat.needs_dentry_mark(ino) && !nat.is_checkpointed(ino));
    // A node of the file that was written without a mark.
    nat.set(node, &free, ino, DataAddress::At(BlockAddress(5001)), false);
    assert!(nat.needs_inode(ino));
    nat.checkpointed();
    assert!(!nat.needs_inode(ino) && nat.is_checkpointed(ino));
}
