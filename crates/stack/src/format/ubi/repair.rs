//! Repair of the UBIFS in a volume of a UBI device: its LEBs are replaced by those of the repaired
//! one; other volumes and erase counters stay.

use std::sync::Arc;

use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubifs::{LebWriter as _, Lebs as _};
use nandkit_units::Clock;
use nandkit_vfs::ErrorKind;
use nandkit_vfs::check::Finding;

use super::volume::{self, VolumeLebs};
use super::writing::{self, Attached};
use super::{UbiFormat, attach_dump, combined};
use crate::format::detected::DetectedFormat;
use crate::format::ubifs::{self, RepairedLebs, WritableLebs};
use crate::format::{Checked, FormatError, Opening, RepairFormat, Repaired, RepairedImage};

impl RepairFormat for UbiFormat {
    fn repair(&self, image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError> {
        let copy = Image::from_bytes(image.bytes().to_vec(), None)?;
        let device = DumpFlash::new(copy, found.layout.clone())?.into_read_only();
        let device = Arc::new(attach_dump(device, how)?);
        let Some(index) = volume::chosen(&device, how.options)? else {
            return Err(match volume::damaged(&device).into_iter().next() {
                Some(Finding { detail, .. }) => FormatError::Told {
                    kind: ErrorKind::Corrupt,
                    detail: format!(
                        "{detail}; a volume is repaired with a whole superblock only, `ubi extract` takes it out"
                    ),
                },
                None => volume::none_to_change(&device, how.options),
            });
        };
        let Some(chosen) = device.volumes().get(index) else {
            return Err(volume::none_to_change(&device, how.options));
        };
        let (number, name) = (chosen.number, chosen.file_name.clone());
        let mut below = device.check()?;
        below.findings.extend(volume::damaged(&device));
        let lebs = Arc::new(VolumeLebs::new(Arc::clone(&device), index));
        let (repair, lebs) = ubifs::repaired(lebs).map_err(|error| volume::of(&name, error))?;
        let still = below.findings.iter().filter(|finding| !finding.is_harmless()).cloned();
        let remaining: Vec<Finding> = repair.remaining.into_iter().chain(still).collect();
        let copy = Image::from_bytes(image.bytes().to_vec(), None)?;
        let image = replaced(copy, found, number, &lebs, how.clock.clone())?;
        Ok(Repaired {
            checked: Checked { format: found.format.name(), report: combined(below, repair.before) },
            kept: repair.kept,
            mended: repair.mended,
            dropped: repair.dropped,
            remaining,
            image,
        })
    }
}

/// The image with other LEBs in a volume.
fn replaced(
    image: Image,
    found: &DetectedFormat,
    number: u32,
    lebs: &RepairedLebs,
    clock: Clock,
) -> Result<RepairedImage, FormatError> {
    let Attached { writer, .. } = writing::attach(image, found, false, clock)?;
    let mut volume = WritableLebs::new(writer, number);
    // First all goes, so that a full device has room.
    (0..volume.leb_count()).try_for_each(|leb| volume.unmap(leb))?;
    for (leb, bytes) in lebs {
        volume.write(*leb, 0, bytes)?;
    }
    let dump = volume.into_device().finish()?.into_dump();
    Ok(RepairedImage::new(dump.into_bytes().0))
}
