//! Reading of F2FS volumes that were not unmounted: data fsynced after the last checkpoint is
//! recovered in memory, and the image does not change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use nandkit_block::wrap::OverlayDevice;
use nandkit_block::{BlockDevice, BlockError};
use nandkit_f2fs::recover::{Recovered, recovered_several};
use nandkit_f2fs::write::Atomicity;
use nandkit_f2fs::{Defect, F2fs, FindingKind, MountOptions, WritableVolume, WriteOptions};
use nandkit_flash_image::DumpFlash;
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::{ErrorKind, FsError};

use super::devices::{device_names, devices, told};
use super::past::{Past, PastDevice};
pub(crate) use super::readers::{Reader, SharedDump, all_boxed, boxed};
use crate::device_handle::DeviceHandle;
use crate::format::{FormatError, Medium, Opening, clock_at};

/// Whether these notes mean that fsynced data is not shown.
pub(crate) fn waits(notes: &[Defect]) -> bool {
    notes.iter().any(|note| note.kind == FindingKind::NotReplayed)
}

/// Devices with the changes of a recovery on top.
pub(crate) struct Replayed {
    /// The devices.
    pub devices: Vec<OverlayDevice<Reader>>,
    /// Statistics of the recovery.
    pub recovered: Recovered,
}

impl Replayed {
    /// A note about the recovery; `None` if no file was recovered.
    pub fn note(&self) -> Option<String> {
        let what = match self.recovered.files {
            0 => return None,
            1 => "1 file that was fsynced after the last checkpoint is shown in its fsynced state".to_owned(),
            files => {
                format!("{files} files that were fsynced after the last checkpoint are shown in their fsynced state")
            }
        };
        Some(format!(
            "the volume was not unmounted: {what}; the image does not change (`no_recovery` shows the state of the checkpoint)"
        ))
    }

    /// Byte ranges of the first device that differ from the image.
    pub fn changed(&self) -> Vec<Range<u64>> {
        let Some(first) = self.devices.first() else { return Vec::new() };
        let size = u64::from(first.geometry().sector_size);
        first.changed().map(|(at, count)| at.0 * size..(at.0 + count) * size).collect()
    }

    /// The changed bytes of the first device, by offset. Error: they cannot be read.
    pub fn patches(&self) -> Result<BTreeMap<u64, Arc<[u8]>>, BlockError> {
        let mut patches = BTreeMap::new();
        let Some(first) = self.devices.first() else { return Ok(patches) };
        for range in self.changed() {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            let at = Lba(range.start / u64::from(first.geometry().sector_size));
            first.read(&Context::default(), at, ReadInto::Bytes(&mut bytes))?;
            patches.insert(range.start, bytes.into());
        }
        Ok(patches)
    }
}

/// Recovers fsynced data in memory. Error: why the recovery failed.
pub(crate) fn replay(devices: &[SharedDump]) -> Result<Replayed, FsError> {
    let done = recovered_several(all_boxed(devices.iter().cloned()), clock_at(0))?;
    Ok(Replayed { devices: done.devices, recovered: done.recovered })
}

/// The finding about a failed recovery: a fault, unless the reason is only that nandkit does not
/// write such volumes.
pub(crate) fn failed(error: &FsError) -> Defect {
    let kind = if error.kind == ErrorKind::NotSupported { FindingKind::NotReplayed } else { FindingKind::State };
    let detail = format!(
        "data fsynced after the last checkpoint are not shown, only the state of the checkpoint: recovering them failed: {error}"
    );
    Defect::new(kind, detail)
}

/// A volume mounted for reading.
pub(crate) struct Mounted {
    /// The volume.
    pub volume: F2fs<Reader>,
    /// Findings of mounting, also from before a recovery.
    pub findings: Vec<Defect>,
    /// The note about a recovery.
    pub note: Option<String>,
    /// Byte ranges of the volume that differ from the image.
    pub changed: Vec<Range<u64>>,
    /// The deleted files, found on demand.
    pub past: Past,
}

impl Mounted {
    /// Mounts a volume for reading, as [`OpenOptions::no_recovery`] says.
    ///
    /// [`OpenOptions::no_recovery`]: crate::format::OpenOptions::no_recovery
    pub fn open(medium: Medium, how: &Opening<'_>) -> Result<Self, FormatError> {
        match medium {
            Medium::Dump(dump) => {
                let named = device_names(&dump.device);
                let devices = shared(dump.device, how)?;
                Self::new(&devices, !how.options.no_recovery).map_err(|error| told(&error, &named))
            }
            other => Self::on_device(other.into_blocks()?, how),
        }
    }

    /// Mounts the state of the checkpoint, with notes, also about recoverable data that other
    /// commands show.
    pub fn inspect(medium: Medium, how: &Opening<'_>) -> Result<Self, FormatError> {
        let Medium::Dump(dump) = medium else { return Self::open(medium, how) };
        let named = device_names(&dump.device);
        let devices = shared(dump.device, how)?;
        let mut mounted = Self::new(&devices, false).map_err(|error| told(&error, &named))?;
        if !how.options.no_recovery && waits(&mounted.findings) {
            mounted.findings.retain(|finding| finding.kind != FindingKind::NotReplayed);
            match replay(&devices) {
                Ok(replayed) => mounted.note = replayed.note(),
                Err(error) => mounted.findings.push(failed(&error)),
            }
        }
        Ok(mounted)
    }

    /// Mounts the volume on a device in memory, which is not written back. Recovery happens there;
    /// if it fails, the state of the checkpoint is mounted.
    fn on_device(device: Reader, how: &Opening<'_>) -> Result<Self, FormatError> {
        let plain = |error: FsError| told(&error, &[]);
        let device = DeviceHandle::new(Arc::new(Mutex::new(device)));
        let seen = F2fs::mount(boxed(device.clone()), how.clock.clone(), MountOptions::default()).map_err(plain)?;
        let mut findings = seen.notes().to_vec();
        drop(seen);
        let again = device.clone();
        if waits(&findings) && recover(&device, &how.clock).is_ok() {
            findings.retain(|finding| finding.kind != FindingKind::NotReplayed);
        }
        let volume = F2fs::mount(boxed(device), how.clock.clone(), MountOptions::default()).map_err(plain)?;
        Ok(Self { volume, findings, note: None, changed: Vec::new(), past: Past::new(vec![PastDevice::Memory(again)]) })
    }

    /// Notes about mounting.
    pub fn notes(&self) -> Vec<String> {
        let found = self.findings.iter().filter(|found| is_note(found.kind)).map(ToString::to_string);
        self.note.iter().cloned().chain(found).collect()
    }

    /// Mounts a volume. If `recovers`, it includes data fsynced after the last checkpoint, if their
    /// recovery succeeds. Error: not even the state of the checkpoint can be mounted.
    pub fn new(devices: &[SharedDump], recovers: bool) -> Result<Self, FsError> {
        let mount = |devices| F2fs::mount_several(devices, clock_at(0), MountOptions::default());
        let volume = mount(all_boxed(devices.iter().cloned()))?;
        let past = Past::new(devices.iter().cloned().map(PastDevice::Dump).collect());
        let mut findings = volume.notes().to_vec();
        if !recovers || !waits(&findings) {
            return Ok(Self { volume, findings, note: None, changed: Vec::new(), past });
        }
        findings.retain(|finding| finding.kind != FindingKind::NotReplayed);
        let recovered = replay(devices).and_then(|replayed| {
            let (note, changed) = (replayed.note(), replayed.changed());
            Ok((mount(all_boxed(replayed.devices))?, note, changed))
        });
        match recovered {
            Ok((volume, note, changed)) => {
                // Nodes that a recovery leaves do not belong to any file.
                let notes = volume.notes().iter().filter(|note| note.kind != FindingKind::NotReplayed);
                let more = notes.filter(|note| !findings.contains(note));
                findings.extend(more.cloned().collect::<Vec<_>>());
                Ok(Self { volume, findings, note, changed, past })
            }
            Err(error) => {
                findings.push(failed(&error));
                Ok(Self { volume, findings, note: None, changed: Vec::new(), past })
            }
        }
    }

    /// Whether these bytes are the same in the image, not changed by a recovery.
    pub fn is_in_image(&self, range: &Range<u64>) -> bool {
        let next = self.changed.partition_point(|changed| changed.end <= range.start);
        self.changed.get(next).is_none_or(|changed| changed.start >= range.end)
    }
}

/// Whether a finding of the mount is only a note: reads in spite of it are correct or report an
/// error.
pub(super) const fn is_note(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::Note
            | FindingKind::NotReplayed
            | FindingKind::Superblock
            | FindingKind::SuperblockChecksum
            | FindingKind::Unsupported
            | FindingKind::CutShort
    )
}

/// The devices of a volume in an image, shareable by several readers.
pub(super) fn shared(first: DumpFlash, how: &Opening<'_>) -> Result<Vec<SharedDump>, FormatError> {
    Ok(devices(first, how.options)?.into_iter().map(SharedDump::new).collect())
}

/// Recovers a volume that was not unmounted by a mount for writing. Errors: those of that mount;
/// the volume then has the state of its checkpoint.
pub(super) fn recover(device: &DeviceHandle, clock: &Clock) -> Result<(), FsError> {
    // Memory has no torn writes.
    let options = WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() };
    let volume = WritableVolume::mount(vec![boxed(device.clone())], clock.clone(), options)?;
    volume.unmount().map(drop).map_err(|(_, error)| error)
}
