//! UBI in the table of formats: a device whose volumes are files.

mod info;
mod probe;

use nandkit_flash::Flash;
use nandkit_flash_image::DumpFlash;
use nandkit_flash_image::regions::Signature;
use nandkit_ubi::Ubi;
use nandkit_ubi::probe::{PEB_SIZE_MIN, begins_with_header};
use nandkit_units::Context;
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};

use super::detected::{DetectedFormat, View};
use super::{Format, FormatError, Medium, MediumKind, OpenVolume, Opened, Opening, VolumeInfo};

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
        Ok(Opened::plain(attach(medium, how)?))
    }

    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        let device = attach(medium, how)?;
        Ok(VolumeInfo { facts: info::facts(&device), notes: info::notes(&device) })
    }

    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
        let device = attach(medium, how)?;
        let notes = info::notes(&device);
        let report = device.check()?;
        Ok(Report { notes, ..report })
    }
}

impl<F: Flash> OpenVolume for Ubi<F> {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        let found = Ubi::damage(self).iter().cloned().chain(self.losses());
        found.map(|finding| (finding.inode, finding)).collect()
    }
}

/// Attaches the device on a dump or a chip.
fn attach(medium: Medium, how: &Opening<'_>) -> Result<Ubi<Box<dyn Flash>>, FormatError> {
    let flash: Box<dyn Flash> = match medium {
        Medium::Dump(dump) => Box::new(dump.device),
        Medium::Flash(chip) => chip,
        Medium::Blocks(_) => {
            return Err(FormatError::Unfit("this is a block device; expected bare flash".to_owned()));
        }
    };
    Ok(Ubi::attach(flash, how.clock.clone())?)
}
