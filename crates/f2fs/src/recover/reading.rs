//! Shows a reader an unclean volume as the next mount would leave it; what recovery writes stays in
//! memory.

use nandkit_block::BlockDevice;
use nandkit_block::wrap::OverlayDevice;
use nandkit_units::Clock;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::Recovered;
use crate::findings::FindingKind;
use crate::open;
use crate::write::{WritableVolume, WriteOptions};

/// Devices with the writes of a recovery laid over them.
#[derive(Debug)]
pub struct ForReading<D> {
    /// The devices in the given order; unchanged if nothing was recovered.
    pub devices: Vec<OverlayDevice<D>>,
    /// What was recovered.
    pub recovered: Recovered,
}

/// Recovers an unclean volume in memory, so that it reads as a mount for writing would leave it. A
/// volume without anything to recover is returned unchanged.
///
/// Quota limits, which only restrict writers, do not prevent recovery; usage is tracked as in any
/// mount. Errors: those of [`WritableVolume::mount`]; `NotSupported` means that this program cannot
/// recover the volume, others that the chain of fsynced nodes or the rest of the volume is
/// inconsistent. Cost: the recovery and a checkpoint. Memory: that of a mount, and the blocks that
/// recovery changes: nodes of the chain, and tables.
pub fn recovered_several<D: BlockDevice>(devices: Vec<D>, clock: Clock) -> Result<ForReading<D>> {
    let overlays = devices.into_iter().map(OverlayDevice::new).collect::<nandkit_block::Result<Vec<_>>>();
    let mut devices = overlays.map_err(|error| FsError::device("laying memory over the device", error))?;
    let lent = devices.iter_mut().map(|device| Box::new(device) as Box<dyn BlockDevice + '_>).collect();
    let recovered = recover_on(lent, clock)?;
    Ok(ForReading { devices, recovered })
}

/// Recovers what stands on `devices`, if anything has to be. One type of device whatever they are,
/// and compiled where volumes of that type are mounted: each writer of volumes is a quarter of a
/// megabyte of program.
#[inline]
fn recover_on(devices: Vec<Box<dyn BlockDevice + '_>>, clock: Clock) -> Result<Recovered> {
    let mut notes = Vec::new();
    let opened = open::open(devices, clock, &mut |finding| notes.push(finding))?;
    let unclean = !opened.state.orphans.is_empty() || notes.iter().any(|note| note.kind == FindingKind::NotReplayed);
    if !unclean {
        return Ok(Recovered::default());
    }
    // Discards would also have to be kept in memory.
    let options = WriteOptions {
        atomicity: crate::device::Atomicity::Told,
        discard: false,
        limits: false,
        ..WriteOptions::default()
    };
    let volume = WritableVolume::from_opened(opened, options, notes)?;
    let recovered = volume.recovered();
    volume.unmount().map_err(|(_, error)| error)?;
    Ok(recovered)
}

/// Does [`recovered_several`] for a volume on one device.
pub fn recovered<D: BlockDevice>(device: D, clock: Clock) -> Result<OverlayDevice<D>> {
    let none = || FsError::new(ErrorKind::InvalidArgument, "no device; a volume has at least one");
    recovered_several(vec![device], clock)?.devices.into_iter().next().ok_or_else(none)
}
