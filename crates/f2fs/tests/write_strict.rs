//! `fsync_mode=strict`: a renamed file survives the fsync of a new file that took its old name, at
//! every cut.

use std::collections::BTreeSet;

use crate::made::clock;
use crate::writing::oracle::{Image, device_of, empty_image, image_of};
use crate::writing::{findings, unmount};
use nandkit_block::BlockDevice;
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const OLD: [u8; 9000] = [1; 9000];
const NEW: [u8; 9000] = [2; 9000];

fn options(strict: bool) -> WriteOptions {
    WriteOptions { strict_fsync: strict, ..WriteOptions::default() }
}

/// An image whose checkpoint has `log` with its old content.
fn with_log() -> Image {
    let mut volume = WritableVolume::mount(vec![device_of(&empty_image(""))], clock(), options(true)).unwrap();
    let log = volume.create(volume.root(), b"log", &NewNode::FILE).unwrap();
    Changes::write(&mut volume, log, 0, Payload::Bytes(&OLD)).unwrap();
    image_of(&unmount(volume))
}

/// Rotates a log: renames the old file, makes a new one and fsyncs it.
fn rotate<D: BlockDevice>(volume: &mut WritableVolume<D>) -> nandkit_vfs::Result<()> {
    let root = volume.root();
    volume.rename((root, b"log"), (root, b"log.1"), Default::default())?;
    let log = volume.create(root, b"log", &NewNode::FILE)?;
    Changes::write(volume, log, 0, Payload::Bytes(&NEW))?;
    Changes::sync(volume, Some(log))
}

/// The first byte of each file whose content is complete.
fn contents<D: BlockDevice>(volume: &WritableVolume<D>) -> [Option<u8>; 2] {
    [&b"log"[..], b"log.1"].map(|name| {
        let inode = volume.lookup(volume.root(), name).ok()?;
        let mut bytes = vec![0; volume.stat(inode).unwrap().size as usize];
        volume.read(inode, 0, ReadInto::Bytes(&mut bytes)).unwrap();
        bytes.first().copied().filter(|first| bytes == [*first; 9000])
    })
}

/// The contents that a cut at any request may leave, and those after the last request.
fn behind_cuts(strict: bool) -> (BTreeSet<[Option<u8>; 2]>, [Option<u8>; 2]) {
    let image = with_log();
    let mut seen = BTreeSet::new();
    for survival in [Survival::Subset, Survival::None, Survival::All] {
        for request in 1.. {
            let moment =
                [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After][request as usize % 3];
            let plan = DeviceCutPlan::at(request, moment, survival, request);
            let device = CutDevice::new(device_of(&image), plan);
            let mut volume = WritableVolume::mount(vec![device], clock(), options(strict)).unwrap();
            let rotated = rotate(&mut volume);
            let device = volume.abandon().remove(0);
            let was_cut = device.is_off();
            let volume = WritableVolume::mount(vec![device.into_inner().unwrap()], clock(), options(strict)).unwrap();
            let found = contents(&volume);
            assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{plan:?}");
            if !was_cut {
                rotated.unwrap();
                assert!(request > 3, "{request} requests");
                if survival == Survival::All {
                    return (seen, found);
                }
                break;
            }
            seen.insert(found);
        }
    }
    unreachable!("each run ends without a cut")
}

#[test]
fn a_renamed_file_outlives_the_fsync_of_its_successor() {
    let (seen, end) = behind_cuts(true);
    let (before, after) = ([Some(1), None], [Some(2), Some(1)]);
    assert!(seen.contains(&before) && seen.is_subset(&[before, after].into()), "{seen:?}");
    assert_eq!(end, after);
}

/// As in Linux without the option (f2fs.rst, "fsync_mode"): the old file is lost in a power cut.
#[test]
fn without_the_option_the_renamed_file_is_lost() {
    let (_, end) = behind_cuts(false);
    assert_eq!(end, [Some(2), None]);
}
