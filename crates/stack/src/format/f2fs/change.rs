//! Changes of F2FS volumes in images.

use std::sync::Arc;

use nandkit_f2fs::write::Atomicity;
use nandkit_f2fs::{WritableVolume, WriteOptions};
use nandkit_flash_image::{DumpFlash, Image, ImageLayout};
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;

use super::F2fsFormat;
use super::devices::{device_names, told};
use super::recovery::{Reader, boxed};
use crate::MountedFileSystem;
use crate::format::detected::DetectedFormat;
use crate::format::on_sectors::{OnSectors, shared};
use crate::format::sectors::DumpSectors;
use crate::format::{ChangeFormat, Changing, FormatError, OpenedForChanges, clock_at};

impl ChangeFormat for F2fsFormat {
    fn open(&self, image: Image, found: &DetectedFormat, how: &Changing<'_>) -> Result<OpenedForChanges, FormatError> {
        let bad = damage(&image, &found.layout)?;
        let mut sectors = DumpSectors::new(DumpFlash::new(image, found.layout.clone())?);
        let held = if how.in_place { sectors.hold() } else { Arc::default() };
        let (device, sectors) = shared(sectors);
        let volume = mount(device, how)?;
        let recovered = volume.recovered();
        let told = [
            (recovered.files, "files that were fsynced after the last checkpoint are recovered"),
            (recovered.orphans, "inodes without a name are freed"),
        ];
        let told = told.iter().filter(|(count, _)| *count > 0);
        let notes = told.map(|(count, what)| format!("the volume was not unmounted: {count} {what}")).collect();
        Ok(OpenedForChanges { volume: Box::new(OnSectors::new(volume, sectors)), notes, bad, held })
    }

    fn mount_on_blocks(
        &self,
        device: Reader,
        clock: &Clock,
    ) -> Option<Result<Box<dyn MountedFileSystem>, FormatError>> {
        let write = WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() };
        let volume = WritableVolume::mount(vec![device], clock.clone(), write).map_err(|error| told(&error, &[]));
        Some(volume.map(|volume| Box::new(volume) as Box<dyn MountedFileSystem>))
    }
}

/// Mounts a volume for changes, after recovering data that were fsynced after the last checkpoint.
fn mount(device: Reader, how: &Changing<'_>) -> Result<WritableVolume<Reader>, FormatError> {
    if !how.options.devices.is_empty() {
        let detail = "a volume on several devices can only be read; expected a volume on one device";
        return Err(FormatError::option("devices", detail));
    }
    if how.options.no_recovery {
        let detail = "a change first recovers fsynced data; expected no such option";
        return Err(FormatError::option("no_recovery", detail));
    }
    // A sync writes everything to the file or nothing, so that blocks are never torn.
    let write = WriteOptions { discard: false, atomicity: Atomicity::Told, ..WriteOptions::default() };
    WritableVolume::mount(vec![device], how.clock.clone(), write).map_err(|error| told(&error, &[]))
}

/// Damage of a volume before it is changed. Cost: a full check.
fn damage(image: &Image, layout: &ImageLayout) -> Result<Vec<Finding>, FormatError> {
    let view = image.view(layout.clone())?;
    let names = device_names(&view);
    if !names.is_empty() {
        let names = names.join(", ");
        return Err(FormatError::Unfit(format!(
            "the F2FS volume spans several devices ({names}), and such volumes can only be read"
        )));
    }
    let report =
        nandkit_f2fs::check(vec![boxed(DumpSectors::new(view))], clock_at(0)).map_err(|error| told(&error, &[]))?;
    Ok(report.findings.into_iter().filter(|finding| !finding.is_harmless()).collect())
}
