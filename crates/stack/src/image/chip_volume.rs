//! The volume on a chip's translation layer: FAT or F2FS. The device is a copy in memory, and nothing of it goes back to the file; so what F2FS would recover is recovered on it.

use nandkit_block::BlockDevice;
use nandkit_f2fs::probe::BEGINNING;
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::probe::SURE;
use nandkit_vfs::{FileSystem, FsError};

use super::chip::{Opened, Volume};
use crate::format::f2fs::check::{self as f2fs_check, recover};
use crate::format::f2fs::recovery::waits;
use crate::format::{Checked, f2fs, fat};

/// Work on the device that a translation layer makes of a chip.
pub(super) trait OnLayer {
    type Output;
    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Self::Output;
}

/// What a device begins with.
enum Begins {
    Nothing,
    F2fs,
    /// Superblocks of F2FS that contradict themselves, and no boot sector of FAT: what is wrong with them.
    BrokenF2fs(String),
    Other,
}

/// Looks at the first sectors; behind the first, those that cannot be read are as good as empty. Errors: the first one cannot be read.
fn beginning<D: BlockDevice>(device: &D, clock: &Clock) -> Result<Begins, String> {
    let geometry = *device.geometry();
    let size = u64::from(geometry.sector_size.max(1));
    let mut bytes = vec![0; BEGINNING.max(size) as usize];
    for (number, sector) in (0..geometry.sectors).zip(bytes.chunks_exact_mut(size as usize)) {
        let read = device.read(&Context::at(clock.now()), Lba(number), ReadInto::Bytes(sector));
        if let Err(error) = read
            && number == 0
        {
            return Err(error.detail);
        }
    }
    let first = bytes.get(..size as usize).unwrap_or_default();
    let length = geometry.sectors.saturating_mul(size);
    Ok(match nandkit_f2fs::probe(&bytes, length) {
        Some(likeness) if likeness.points >= SURE => Begins::F2fs,
        Some(likeness) if nandkit_fat::probe(first, length).is_none() => {
            Begins::BrokenF2fs(likeness.evidence.join("; "))
        }
        _ if first.iter().all(|byte| *byte == 0) => Begins::Nothing,
        _ => Begins::Other,
    })
}

/// Mounts F2FS for reading; where a recovery cannot be had, as the checkpoint has it.
fn mount_f2fs<D: BlockDevice>(mut device: D, clock: &Clock) -> Result<F2fs<D>, String> {
    let told = |error: FsError| f2fs::told(&error, &[]);
    let seen = F2fs::mount(&mut device, clock.clone(), MountOptions::default()).map_err(told)?;
    let waits = waits(seen.notes());
    drop(seen);
    if waits {
        let _ = recover(&mut device, clock);
    }
    F2fs::mount(device, clock.clone(), MountOptions::default()).map_err(told)
}

/// Says what is there.
pub(super) struct LookForVolume;

impl OnLayer for LookForVolume {
    type Output = Volume;

    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Volume {
        let found = beginning(&device, clock).and_then(|begins| match begins {
            Begins::F2fs => f2fs_on(device, clock),
            Begins::BrokenF2fs(why) => Err(why),
            Begins::Nothing => Ok(Volume::None),
            Begins::Other => fat::info(device, clock).map(Volume::Fat),
        });
        found.unwrap_or_else(Volume::Unknown)
    }
}

fn f2fs_on<D: BlockDevice>(device: D, clock: &Clock) -> Result<Volume, String> {
    let volume = mount_f2fs(device, clock)?;
    let status = volume.volume().map_err(|error| error.to_string())?;
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.block_size));
    Ok(Volume::F2fs {
        label: volume.superblock().0.label(),
        total_bytes: bytes(status.blocks),
        free_bytes: bytes(status.blocks_free),
    })
}

/// Checks it.
pub(super) struct CheckVolume;

impl OnLayer for CheckVolume {
    type Output = Result<Checked, String>;

    fn work<D: BlockDevice + 'static>(self, mut device: D, clock: &Clock) -> Self::Output {
        match beginning(&device, clock)? {
            Begins::F2fs | Begins::BrokenF2fs(_) => f2fs_check::check_device(device, clock),
            Begins::Nothing | Begins::Other => fat::check(&mut device, clock),
        }
    }
}

/// Mounts it for reading, and says its format.
pub(super) struct MountVolume;

impl OnLayer for MountVolume {
    type Output = Result<Opened, String>;

    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Self::Output {
        Ok(match beginning(&device, clock)? {
            Begins::F2fs | Begins::BrokenF2fs(_) => (Box::new(mount_f2fs(device, clock)?), "f2fs"),
            Begins::Nothing | Begins::Other => (Box::new(fat::mount(device, clock)?), "fat"),
        })
    }
}
