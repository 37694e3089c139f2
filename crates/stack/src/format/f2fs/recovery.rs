//! F2FS volumes that did not end cleanly, for reading: what was fsynced after the last checkpoint
//! is recovered into memory, and the image stays as it is.

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

/// Whether a reader who was told this has not been shown all.
pub(crate) fn waits(notes: &[Defect]) -> bool {
    notes.iter().any(|note| note.kind == FindingKind::NotReplayed)
}

/// Devices with what a recovery changed laid over them.
pub(crate) struct Replayed {
    /// The devices.
    pub devices: Vec<OverlayDevice<Reader>>,
    /// What was recovered.
    pub recovered: Recovered,
}

impl Replayed {
    /// For people; `None` where nothing of what was written behind the checkpoint makes a file.
    pub fn note(&self) -> Option<String> {
        let what = match self.recovered.files {
            0 => return None,
            1 => "1 file that was fsynced after the last checkpoint is shown as it was then".to_owned(),
            files => format!("{files} files that were fsynced after the last checkpoint are shown as they were then"),
        };
        Some(format!(
            "the volume was not unmounted: {what}; the image stays as it is (`no_recovery` shows it as the checkpoint has it)"
        ))
    }

    /// Bytes of the volume that are otherwise than in the image, of the first device.
    pub fn changed(&self) -> Vec<Range<u64>> {
        let Some(first) = self.devices.first() else { return Vec::new() };
        let size = u64::from(first.geometry().sector_size);
        first.changed().map(|(at, count)| at.0 * size..(at.0 + count) * size).collect()
    }

    /// The changed bytes of the first device, by place. Errors: they cannot be read.
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

/// Recovers. Errors: why it cannot be done.
pub(crate) fn replay(devices: &[SharedDump]) -> Result<Replayed, FsError> {
    let done = recovered_several(all_boxed(devices.iter().cloned()), clock_at(0))?;
    Ok(Replayed { devices: done.devices, recovered: done.recovered })
}

/// That a recovery was not possible, as a finding: a fault, unless it is only that this program
/// does not write such volumes.
pub(crate) fn failed(error: &FsError) -> Defect {
    let kind = if error.kind == ErrorKind::NotSupported { FindingKind::NotReplayed } else { FindingKind::State };
    let detail = format!(
        "data that were fsynced after the last checkpoint are not shown, the volume is as the checkpoint has it: recovering them failed: {error}"
    );
    Defect::new(kind, detail)
}

/// A volume that is read.
pub(crate) struct Mounted {
    /// The volume.
    pub volume: F2fs<Reader>,
    /// What mounting found, of the image as it was before a recovery too.
    pub findings: Vec<Defect>,
    /// What a recovery did, for people.
    pub note: Option<String>,
    /// Bytes of the volume that only memory has so.
    pub changed: Vec<Range<u64>>,
    /// What was deleted, once somebody has asked.
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

    /// A volume as its checkpoint has it, and what is to be told: also what of the image the
    /// commands that read show besides.
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

    /// Mounts the volume on a device in memory, of which nothing goes back: it is recovered there,
    /// and where that cannot be had, it is as the checkpoint has it.
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

    /// What mounting found that is worth knowing.
    pub fn notes(&self) -> Vec<String> {
        let found = self.findings.iter().filter(|found| is_note(found.kind)).map(ToString::to_string);
        self.note.iter().cloned().chain(found).collect()
    }

    /// Mounts a volume; what was fsynced after its last checkpoint is in it where `recovers`, and
    /// where that can be had. Errors: the volume cannot be mounted even as the checkpoint has it.
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
                // What a recovery leaves behind the checkpoint makes no file.
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

    /// Whether the image itself holds these bytes of the volume as they were read.
    pub fn is_in_image(&self, range: &Range<u64>) -> bool {
        let next = self.changed.partition_point(|changed| changed.end <= range.start);
        self.changed.get(next).is_none_or(|changed| changed.start >= range.end)
    }
}

/// Whether something that a mount found is worth a sentence, and no damage: all that is read in
/// spite of it is whole, or an error says that it is not.
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

/// The devices of a volume in an image, for several readers.
pub(super) fn shared(first: DumpFlash, how: &Opening<'_>) -> Result<Vec<SharedDump>, FormatError> {
    Ok(devices(first, how.options)?.into_iter().map(SharedDump::new).collect())
}

/// Does what a mount for writing does to a volume that did not end cleanly. Errors: those of that
/// mount; then the volume is as its checkpoint has it.
pub(super) fn recover(device: &DeviceHandle, clock: &Clock) -> Result<(), FsError> {
    // No power cut tears what is in memory.
    let options = WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() };
    let volume = WritableVolume::mount(vec![boxed(device.clone())], clock.clone(), options)?;
    volume.unmount().map(drop).map_err(|(_, error)| error)
}
