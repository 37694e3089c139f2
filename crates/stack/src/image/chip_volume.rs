//! The volume on a chip's translation layer: FAT or F2FS. The device is a copy in memory, and nothing of it goes back to the file; so an F2FS volume is mounted as Linux would, with its recovery.

use nandkit_block::BlockDevice;
use nandkit_f2fs::device::Atomicity;
use nandkit_f2fs::{Volume as F2fsVolume, WriteOptions};
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::FileSystem;

use super::Checked;
use super::chip::{Opened, Volume};
use super::sectors::SECTOR_SIZE;
use super::{f2fs, f2fs_check, fat};

/// Bytes in which F2FS has its superblocks: those of two blocks of 16 KiB.
const LOOKED_AT: u64 = 32 << 10;

/// Work on the device that a translation layer makes of a chip.
pub(super) trait OnLayer {
    type Output;
    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Self::Output;
}

/// The first bytes of a device. Errors: what it says.
fn beginning<D: BlockDevice>(device: &D, clock: &Clock) -> Result<Vec<u8>, String> {
    let geometry = *device.geometry();
    let sectors = (LOOKED_AT / u64::from(geometry.sector_size.max(1))).clamp(1, geometry.sectors.max(1));
    let mut bytes = vec![0; (sectors * u64::from(geometry.sector_size)) as usize];
    device
        .read(&Context::at(clock.now()), Lba(0), ReadInto::Bytes(&mut bytes))
        .map(|_| bytes)
        .map_err(|error| error.detail)
}

fn is_f2fs(beginning: &[u8]) -> bool {
    f2fs::look(beginning).is_some_and(|seen| seen.sane)
}

/// No power cut tears what is in memory.
pub(super) fn in_memory() -> WriteOptions {
    WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() }
}

fn mount_f2fs<D: BlockDevice>(device: D, clock: &Clock) -> Result<F2fsVolume<D>, String> {
    F2fsVolume::mount(vec![device], clock.clone(), in_memory()).map_err(|error| f2fs::told(&error, &[]))
}

/// Says what is there.
pub(super) struct LookForVolume;

impl OnLayer for LookForVolume {
    type Output = Volume;

    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Volume {
        let found = beginning(&device, clock).and_then(|bytes| {
            if is_f2fs(&bytes) {
                return f2fs_on(device, clock);
            }
            match bytes.iter().take(SECTOR_SIZE as usize).all(|byte| *byte == 0) {
                true => Ok(Volume::None),
                false => fat::info(device, clock).map(Volume::Fat),
            }
        });
        found.unwrap_or_else(Volume::Unknown)
    }
}

fn f2fs_on<D: BlockDevice>(device: D, clock: &Clock) -> Result<Volume, String> {
    let volume = mount_f2fs(device, clock)?;
    let status = volume.volume().map_err(|error| error.to_string())?;
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(status.block_size));
    Ok(Volume::F2fs {
        label: volume.superblock().label(),
        total_bytes: bytes(status.blocks),
        free_bytes: bytes(status.blocks_free),
    })
}

/// Checks it.
pub(super) struct CheckVolume;

impl OnLayer for CheckVolume {
    type Output = Result<Checked, String>;

    fn work<D: BlockDevice + 'static>(self, mut device: D, clock: &Clock) -> Self::Output {
        match is_f2fs(&beginning(&device, clock)?) {
            true => f2fs_check::check_device(device, clock),
            false => fat::check(&mut device, clock),
        }
    }
}

/// Mounts it for reading, and says its format.
pub(super) struct MountVolume;

impl OnLayer for MountVolume {
    type Output = Result<Opened, String>;

    fn work<D: BlockDevice + 'static>(self, device: D, clock: &Clock) -> Self::Output {
        Ok(match is_f2fs(&beginning(&device, clock)?) {
            true => (Box::new(mount_f2fs(device, clock)?), "f2fs"),
            false => (Box::new(fat::mount(device, clock)?), "fat"),
        })
    }
}
