//! F2FS volumes in images that are changed.

use nandkit_f2fs::device::Atomicity;
use nandkit_f2fs::{Volume, WriteOptions};
use nandkit_flash_image::{Image, ImageLayout};
use nandkit_units::Clock;

use super::check::findings;
use super::device_names;
use crate::format::sectors::DumpSectors;
use crate::format::{Finding, OpenOptions};

/// A volume that is changed.
pub(crate) type Changing = Volume<DumpSectors>;

/// Mounts a volume for changes; returns it with what is to be told. What was fsynced behind the last checkpoint is taken over first. Errors: why it cannot be changed.
pub(crate) fn mount(
    device: DumpSectors,
    clock: Clock,
    options: &OpenOptions,
) -> Result<(Box<Changing>, Vec<String>), String> {
    if !options.devices.is_empty() {
        return Err("--devices: volumes on several devices are only read; expected one on one device".to_owned());
    }
    if options.no_recovery {
        return Err("--no-recovery: a change takes over what was fsynced first; expected no such option".to_owned());
    }
    // A sync brings all to the file or nothing: no power cut leaves half a block.
    let write = WriteOptions { discard: false, atomicity: Atomicity::Told, ..WriteOptions::default() };
    let volume = Volume::mount(vec![device], clock, write).map_err(|error| format!("the F2FS volume: {error}"))?;
    let recovered = volume.recovered();
    let told = [
        (recovered.files, "files that were fsynced after the last checkpoint are taken over"),
        (recovered.orphans, "inodes without a name are freed"),
    ];
    let told = told.iter().filter(|(count, _)| *count > 0);
    let notes = told.map(|(count, what)| format!("the volume was not unmounted: {count} {what}")).collect();
    Ok((Box::new(volume), notes))
}

/// What is wrong with a volume before it is changed. Cost: a check.
pub(crate) fn damage(image: &Image, layout: &ImageLayout) -> Result<Vec<Finding>, String> {
    let view = image.view(layout.clone()).map_err(|error| error.to_string())?;
    let names = device_names(&view);
    if !names.is_empty() {
        return Err(format!(
            "the F2FS volume lies on several devices ({}), and such volumes are only read",
            names.join(", ")
        ));
    }
    let mut findings = findings(DumpSectors::new(view)).map_err(|error| format!("the F2FS volume: {error}"))?;
    findings.retain(|finding| !finding.is_harmless());
    Ok(findings)
}
