//! Power cuts in the middle of an fsync: what was durable before is there, whatever part of the
//! fsync the device kept.

use nandkit_block::RamDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::Blocks;
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::{Log, NodeId, WritableVolume, WriteOptions};
use nandkit_units::Payload;
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode, Result, XattrChanges, Xattrs};

use crate::made::clock;
use crate::writing::oracle::{Image, device_of, empty_image, image_of};
use crate::writing::unmount;

type Cut = CutDevice<RamDevice>;

/// Seeds of what survives, per request.
const SEEDS: u64 = 12;

/// A volume prepared by `make`, with the file `f`.
fn image(make: impl FnOnce(&mut WritableVolume<RamDevice>, NodeId)) -> (Image, NodeId) {
    let mut volume =
        WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), WriteOptions::default()).unwrap();
    let ino = NodeId(volume.create(volume.root(), b"f", &NewNode::FILE).unwrap().0 as u32);
    make(&mut volume, ino);
    volume.sync().unwrap();
    (image_of(&unmount(volume)), ino)
}

/// Does `work` with a cut in each of its requests, and passes on what the next mount finds. Returns
/// how many cuts there were.
fn cut_in_each_request(
    image: &Image,
    work: impl Fn(&mut WritableVolume<Cut>) -> Result<()>,
    judge: impl Fn(&WritableVolume<RamDevice>, &str),
) -> u32 {
    let mut cuts = 0;
    for (ordered_fsync, survival) in [(false, Survival::Subset), (true, Survival::Subset), (true, Survival::Prefix)] {
        for request in 1.. {
            let before = cuts;
            for seed in 0..SEEDS {
                let plan = DeviceCutPlan::at(request, DeviceCutMoment::Inside, survival, seed);
                let options = WriteOptions { ordered_fsync, ..WriteOptions::default() };
                let device = CutDevice::new(device_of(image), plan);
                let mut volume = WritableVolume::mount(vec![device], clock(), options).unwrap();
                let done = work(&mut volume);
                let device = volume.abandon().remove(0);
                if !device.is_off() {
                    done.unwrap();
                    continue;
                }
                let device = device.into_inner().unwrap();
                let volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
                judge(&volume, &format!("ordered {ordered_fsync}, {survival:?}, request {request}, seed {seed}"));
                cuts += 1;
            }
            if cuts == before {
                break;
            }
        }
    }
    cuts
}

fn content(volume: &WritableVolume<RamDevice>, ino: NodeId, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; length];
    volume.read_at(&volume.inode_at(ino).unwrap(), 0, &mut bytes).unwrap();
    bytes
}

/// The first attributes are in the inode, the rest in a node: a new value of one moves all others.
#[test]
fn attributes_that_nobody_touched_survive() {
    let values = |volume: &mut WritableVolume<RamDevice>, ino: NodeId| {
        let file = InodeNumber(ino.0.into());
        volume.write(ino, 0, Payload::Bytes(&[7; 8192])).unwrap();
        volume.set_xattr(file, b"user.a", &[1; 100]).unwrap();
        for number in 0..6 {
            volume.set_xattr(file, format!("user.k{number}").as_bytes(), &[number; 300]).unwrap();
        }
    };
    let (image, ino) = image(values);
    let file = InodeNumber(ino.0.into());
    let work = |volume: &mut WritableVolume<Cut>| {
        volume.set_xattr(file, b"user.a", &[2; 20])?;
        volume.fsync(ino, false)
    };
    let cuts = cut_in_each_request(&image, work, |volume, context| {
        for number in 0..6 {
            let found = volume.xattr(file, format!("user.k{number}").as_bytes());
            assert_eq!(found.unwrap(), [number; 300], "{context}");
        }
        let changed = volume.xattr(file, b"user.a").unwrap();
        assert!([vec![1; 100], vec![2; 20]].contains(&changed), "{context}: {changed:?}");
    });
    assert!(cuts > 60, "{cuts}");
}

/// The nodes refer to copies of which the device may have kept none yet.
#[test]
fn pages_that_the_collector_moved_survive() {
    let (image, ino) = image(|volume, ino| {
        let other = NodeId(volume.create(volume.root(), b"g", &NewNode::FILE).unwrap().0 as u32);
        volume.write(ino, 0, Payload::Bytes(&[7; 20 * 4096])).unwrap();
        volume.write(other, 0, Payload::Bytes(&vec![9; 700 * 4096])).unwrap();
        volume.sync().unwrap();
        volume.remove(volume.root(), b"g").unwrap();
    });
    let work = |volume: &mut WritableVolume<Cut>| {
        volume.collect_one(Collection::Foreground)?;
        volume.write(ino, 30 * 4096, Payload::Bytes(&[8; 100]))?;
        volume.fsync(ino, false)
    };
    let cuts = cut_in_each_request(&image, work, |volume, context| {
        assert!(content(volume, ino, 20 * 4096).iter().all(|&byte| byte == 7), "{context}");
    });
    assert!(cuts > 60, "{cuts}");
}

#[test]
fn content_that_left_its_inode_survives() {
    let (image, ino) = image(|volume, ino| {
        volume.write(ino, 0, Payload::Bytes(&[7; 100])).unwrap();
    });
    let work = |volume: &mut WritableVolume<Cut>| {
        volume.write(ino, 100, Payload::Bytes(&[8; 8000]))?;
        volume.fsync(ino, false)
    };
    let cuts = cut_in_each_request(&image, work, |volume, context| {
        assert_eq!(content(volume, ino, 100), [7; 100], "{context}");
    });
    assert!(cuts > 60, "{cuts}");
}

/// The page in which the file ends is moved to another block.
#[test]
fn what_a_truncation_leaves_survives() {
    let (image, ino) = image(|volume, ino| {
        volume.write(ino, 0, Payload::Bytes(&[7; 5000])).unwrap();
    });
    let work = |volume: &mut WritableVolume<Cut>| {
        volume.truncate(ino, 4500)?;
        volume.fsync(ino, false)
    };
    let cuts = cut_in_each_request(&image, work, |volume, context| {
        assert!(content(volume, ino, 4500).iter().all(|&byte| byte == 7), "{context}");
    });
    assert!(cuts > 60, "{cuts}");
}

/// An fsync whose first node is lost while the marked one survived is incomplete, and stays so: the
/// first node that the next mount writes must not lead into the rest of it.
#[test]
fn a_torn_fsync_is_not_completed_by_a_later_mount() {
    let options = WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() };
    let (image, ino) = image(|volume, ino| {
        volume.write(ino, 0, Payload::Bytes(&vec![1; 1300 * 4096])).unwrap();
        let other = NodeId(volume.create(volume.root(), b"g", &NewNode::FILE).unwrap().0 as u32);
        volume.write(other, 0, Payload::Bytes(&[7; 5000])).unwrap();
    });
    let mut volume = WritableVolume::mount(vec![device_of(&image)], clock(), options).unwrap();
    for page in [0, 1200] {
        volume.write(ino, page * 4096, Payload::Bytes(&[2; 4096])).unwrap();
    }
    let log = volume.segments().log_state(Log::WarmNode);
    let first = u64::from(volume.geometry().segment_start(log.segment).0 + u32::from(log.next));
    volume.fsync(ino, false).unwrap();
    assert_eq!(volume.segments().log_state(Log::WarmNode).next, log.next + 2, "two nodes");
    let mut left = image_of(&volume.abandon().remove(0));
    left.retain(|(sector, _)| *sector != first);
    // As Linux leaves it: bytes past the end of the other file, which are cleared when it grows.
    let (_, page) = left.iter_mut().find(|(_, bytes)| bytes[..904] == [7; 904] && bytes[904..] == [0; 3192]).unwrap();
    page.fill(7);
    let mut cuts = 0;
    for request in 1.. {
        let before = cuts;
        for moment in [DeviceCutMoment::Before, DeviceCutMoment::After] {
            let plan = DeviceCutPlan::at(request, moment, Survival::All, 1);
            let mut volume =
                WritableVolume::mount(vec![CutDevice::new(device_of(&left), plan)], clock(), options).unwrap();
            let other = NodeId(volume.lookup(volume.root(), b"g").unwrap().0 as u32);
            let done = volume.write(other, 6000, Payload::Bytes(&[9; 10]));
            let device = volume.abandon().remove(0);
            if !device.is_off() {
                done.unwrap();
                continue;
            }
            let volume = WritableVolume::mount(vec![device.into_inner().unwrap()], clock(), options).unwrap();
            assert_eq!(volume.recovered().files, 0, "{plan:?}");
            assert!(content(&volume, ino, 4096).iter().all(|&byte| byte == 1), "{plan:?}");
            cuts += 1;
        }
        if cuts == before {
            break;
        }
    }
    assert!(cuts > 5, "{cuts}");
}
