//! UBI in the table of formats: a device whose volumes are files.

mod change;
mod files;
mod info;
mod probe;
mod repair;
pub mod ubinize;
mod volume;
mod writing;

use std::sync::Arc;

use nandkit_flash::{Flash, Look as _};
use nandkit_flash_image::regions::Signature;
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubi::probe::{PEB_SIZE_MIN, begins_with_header};
use nandkit_ubi::{DamageKind, Ubi};
use nandkit_ubifs::Ubifs;
use nandkit_units::{Clock, Context};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{ErrorKind, FileSystem, InodeNumber};

use super::detected::{DetectedFormat, View};
use super::fact::json;
use super::{
    ChangeFormat, Fact, FlashWriter, Format, FormatError, Medium, MediumKind, OpenVolume, Opened, Opening,
    RepairFormat, VolumeInfo, VolumesFormat, ubifs,
};

/// The format's name.
const NAME: &str = "ubi";

/// UBI in the table of formats.
pub static FORMAT: UbiFormat = UbiFormat;

/// UBI.
pub struct UbiFormat;

impl Format for UbiFormat {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "UBI"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Flash
    }

    fn writer(&self) -> FlashWriter {
        FlashWriter::Ubiformat
    }

    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat> {
        probe::found(&FORMAT, view)
    }

    fn is_on_chip(&self, chip: &dyn Flash, context: &Context) -> bool {
        nandkit_ubi::probe::is_on_chip(chip, context)
    }

    fn volumes(&self, device: &DumpFlash) -> Vec<(u64, Signature)> {
        probe::signatures(device)
    }

    fn bytes_min(&self, beginning: &[u8]) -> u64 {
        if begins_with_header(beginning) { PEB_SIZE_MIN.into() } else { 0 }
    }

    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError> {
        let device = Arc::new(attach(medium, how)?);
        let Some(index) = volume::chosen(&device, how.options)? else {
            return Ok(Opened::plain(Shared(device)));
        };
        let mounted = volume::mounted(Arc::clone(&device), index).map_err(volume::with_way_out)?;
        let notes = volume::note(&device, index).into_iter().chain(ubifs::notes(&mounted)).collect();
        let below = told(&device);
        Ok(Opened { notes, ..Opened::plain(OnUbi { volume: mounted, below }) })
    }

    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        let device = Arc::new(attach(medium, how)?);
        let (mut facts, mut notes) = (info::facts(&device), info::notes(&device));
        notes.extend(volume::damaged(&device).into_iter().map(|finding| finding.detail));
        if let Some(index) = volume::chosen(&device, how.options)? {
            match volume::mounted(device, index) {
                Ok(mounted) => {
                    // The kind is that of the image: in JSON the volume is a member of its own.
                    let inner = ubifs::facts(&mounted);
                    facts.push(Fact::member("ubifs", json(&inner)));
                    facts.extend(inner.into_iter().map(|fact| Fact { members: Vec::new(), ..fact }));
                    notes.extend(ubifs::notes(&mounted));
                }
                Err(FormatError::Told { detail, .. }) => notes.push(detail),
                Err(error) => return Err(error),
            }
        }
        Ok(VolumeInfo { facts, notes })
    }

    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
        let device = Arc::new(attach(medium, how)?);
        let mut below = device.check()?;
        below.findings.extend(volume::damaged(&device));
        let Some(index) = volume::chosen(&device, how.options)? else {
            return Ok(below);
        };
        let above = match volume::mounted(device, index) {
            Ok(mounted) => mounted.check()?,
            Err(FormatError::Told { detail, kind: ErrorKind::Corrupt }) => {
                below.findings.push(Finding::new(volume::UNREADABLE, detail));
                return Ok(below);
            }
            Err(error) => return Err(error),
        };
        Ok(combined(below, above))
    }

    fn blocks_promised(&self, image: &Image, found: &DetectedFormat, clock: Clock) -> Result<u32, FormatError> {
        writing::blocks_promised(image, found, clock)
    }

    fn change(&self) -> Option<&dyn ChangeFormat> {
        Some(self)
    }

    fn repair(&self) -> Option<&dyn RepairFormat> {
        Some(self)
    }

    fn volumes_for_change(&self) -> Option<&dyn VolumesFormat> {
        Some(self)
    }
}

/// A device that is shown as a directory of volumes.
struct Shared(Arc<volume::Device>);

impl OpenVolume for Shared {
    fn fs(&self) -> &dyn FileSystem {
        &*self.0
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        told(&self.0)
    }
}

/// A UBIFS volume, and what is wrong with the device below it.
struct OnUbi {
    volume: Ubifs,
    below: Vec<(Option<InodeNumber>, Finding)>,
}

impl OpenVolume for OnUbi {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        self.below.iter().cloned().chain(OpenVolume::damage(&self.volume)).collect()
    }
}

/// What attaching found, what volumes lack, and which are damaged UBIFS.
fn told(device: &volume::Device) -> Vec<(Option<InodeNumber>, Finding)> {
    let found = device.damage().iter().cloned().chain(device.losses()).chain(volume::damaged(device));
    found.map(|finding| (finding.inode, finding)).collect()
}

/// The reports on a device and on the volume in it as one.
fn combined(below: Report, above: Report) -> Report {
    let findings = below.findings.into_iter().chain(above.findings).collect();
    let is_new = |(name, _): &(&str, u64)| !above.counts.iter().any(|(known, _)| known == name);
    let counts = above.counts.iter().copied().chain(below.counts.into_iter().filter(is_new)).collect();
    Report { findings, counts, ..Report::default() }
}

/// Attaches the device on a dump or a chip.
fn attach(medium: Medium, how: &Opening<'_>) -> Result<volume::Device, FormatError> {
    match medium {
        Medium::Dump(dump) => attach_dump(dump.device, how),
        Medium::Flash(chip) => Ok(Ubi::attach(chip, how.clock.clone())?),
        Medium::Blocks(_) => Err(FormatError::Unfit("this is a block device; expected bare flash".to_owned())),
    }
}

/// Attaches the device on a dump.
fn attach_dump(dump: DumpFlash, how: &Opening<'_>) -> Result<volume::Device, FormatError> {
    let cut = cut_off(&dump);
    let flash: Box<dyn Flash> = Box::new(dump);
    let mut device = Ubi::attach(flash, how.clock.clone())?;
    if let Some((end, finding)) = cut {
        if !finding.is_harmless() {
            device.ends_at(end);
        }
        device.add_damage(finding);
    }
    Ok(device)
}

/// Bytes at the end of a dump by which erased flash is recognised.
const ENDING: u64 = 64;

/// The first missing byte of a dump that ends in the middle of a block, and a finding about it. If
/// it ends with erased flash, a tool cut off no more than that.
fn cut_off(dump: &DumpFlash) -> Option<(u64, Finding)> {
    let info = dump.info();
    let stored = info.layout.stored_block();
    let missing = stored.checked_sub(info.tail_bytes).filter(|_| info.tail_bytes > 0)?;
    let last = dump.geometry().capacity().saturating_sub(dump.geometry().block_size());
    let data = info.tail_bytes * dump.geometry().block_size() / stored.max(1);
    let mut ending = vec![0; ENDING as usize];
    dump.look_at(last + data.saturating_sub(ENDING), &mut ending);
    let detail = format!("the image ends in the middle of a block: its last {missing} bytes are missing");
    let finding = Finding::new(DamageKind::Cut, detail).at(last);
    let finding = if nandkit_units::is_erased(&ending) { finding.harmless() } else { finding };
    Some((last + data, finding))
}
