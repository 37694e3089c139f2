//! An unclean volume as the next mount would leave it, for who only reads: what recovery writes
//! stays in memory.

use nandkit_block::BlockDevice;
use nandkit_block::wrap::OverlayDevice;
use nandkit_units::Clock;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::Recovered;
use crate::findings::FindingKind;
use crate::open;
use crate::write::{WritableVolume, WriteOptions};

/// Devices with what a recovery wrote laid over them.
#[derive(Debug)]
pub struct ForReading<D> {
    /// The devices, in the order in which they were given; as they are where nothing was recovered.
    pub devices: Vec<OverlayDevice<D>>,
    /// What was recovered.
    pub recovered: Recovered,
}

/// Lets a volume that did not end cleanly be read as a mount for writing would leave it. A volume
/// without anything to recover comes back as it is.
///
/// Limits of quotas, which only writers heed, forbid no recovery; usage is kept as by any mount.
/// Errors: those of [`WritableVolume::mount`], of which `NotSupported` says that this program
/// cannot recover such a volume; else the chain of fsynced nodes contradicts itself, or the rest of
/// the volume. Cost: what is recovered, and a checkpoint. Memory: that of a mount, and the blocks
/// that recovery changes: nodes of the chain, and tables.
pub fn recovered_several<D: BlockDevice>(devices: Vec<D>, clock: Clock) -> Result<ForReading<D>> {
    let overlays = devices.into_iter().map(OverlayDevice::new).collect::<nandkit_block::Result<Vec<_>>>();
    let overlays = overlays.map_err(|error| FsError::device("laying memory over the device", error))?;
    let mut notes = Vec::new();
    let opened = open::open(overlays, clock, &mut |finding| notes.push(finding))?;
    let unclean = !opened.state.orphans.is_empty() || notes.iter().any(|note| note.kind == FindingKind::NotReplayed);
    if !unclean {
        let devices = opened.blocks.devices.into_inner();
        return Ok(ForReading { devices, recovered: Recovered::default() });
    }
    // A discard would be one more thing that memory has to hold.
    let options = WriteOptions {
        atomicity: crate::device::Atomicity::Told,
        discard: false,
        limits: false,
        ..WriteOptions::default()
    };
    let volume = WritableVolume::from_opened(opened, options, notes)?;
    let recovered = volume.recovered();
    let devices = volume.unmount().map_err(|(_, error)| error)?;
    Ok(ForReading { devices, recovered })
}

/// [`recovered_several`] for a volume on one device.
pub fn recovered<D: BlockDevice>(device: D, clock: Clock) -> Result<OverlayDevice<D>> {
    let none = || FsError::new(ErrorKind::InvalidArgument, "no device; a volume has at least one");
    recovered_several(vec![device], clock)?.devices.into_iter().next().ok_or_else(none)
}
