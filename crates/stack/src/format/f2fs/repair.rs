//! Repair of F2FS volumes in images.

use std::sync::Arc;

use nandkit_f2fs::check::Waiting;
use nandkit_flash_image::Image;
use nandkit_vfs::FsError;
use nandkit_vfs::check::Repair;

use super::F2fsFormat;
use super::devices::{device_names, told};
use super::recovery::{self, Mounted, all_boxed, replay, shared};
use crate::format::detected::DetectedFormat;
use crate::format::{Checked, FormatError, Opening, RepairFormat, Repaired, RepairedImage, clock_at};

impl RepairFormat for F2fsFormat {
    fn repair(&self, image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError> {
        repaired(image, found, how)
    }
}

/// Makes an image with the volume repaired.
fn repaired(image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError> {
    if !how.options.devices.is_empty() {
        return Err(refused("the volume spans several devices; expected a volume on one device".to_owned()));
    }
    let part = image.view(found.layout.clone())?;
    let named = device_names(&part);
    let devices = shared(part, how)?;
    let waiting = Mounted::new(&devices, false).is_ok_and(|mounted| recovery::waits(&mounted.findings));
    let (repair, replayed) = match (waiting, how.options.no_recovery) {
        (true, false) => {
            let replayed = replay(&devices).map_err(|error| cannot_replay(&error))?;
            let patches = replayed.patches()?;
            let note = replayed.note();
            // Nodes that remain unrecovered do not belong to any file.
            (nandkit_f2fs::repair(all_boxed(replayed.devices), clock_at(0), Waiting::Dropped), Some((patches, note)))
        }
        (_, true) => (nandkit_f2fs::repair(all_boxed(devices), clock_at(0), Waiting::Dropped), None),
        (false, false) => (nandkit_f2fs::repair(all_boxed(devices), clock_at(0), Waiting::Refused), None),
    };
    let repair = repair.map_err(|error| told(&error, &named))?;
    let end = found.layout.offset + repair.bytes;
    let length = image.bytes().len() as u64;
    if let Some(size) = found.layout.size
        && found.layout.offset + size < end.min(length)
    {
        let detail = format!(
            "the volume has {} bytes, but its part of the image has {size} and is followed by others; expected a part that is large enough",
            repair.bytes
        );
        return Err(refused(detail));
    }
    let place = |at: u32| found.layout.offset + u64::from(at) * u64::from(repair.block_size);
    let mut patches: Vec<(u64, Arc<[u8]>)> = Vec::new();
    let Repair { mut before, kept, mended, dropped, remaining } = repair.report;
    if let Some((replayed, note)) = replayed {
        patches.extend(replayed.into_iter().map(|(at, bytes)| (found.layout.offset + at, bytes)));
        before.notes.extend(note);
    }
    patches.extend(repair.blocks.iter().map(|(at, block)| (place(at.0), Arc::clone(block))));
    Ok(Repaired {
        checked: Checked { format: found.format.name(), report: before },
        kept,
        mended,
        dropped,
        remaining,
        image: RepairedImage::patched(image, patches, end),
    })
}

/// The error if fsynced data cannot be recovered: a repair would drop them.
fn cannot_replay(failed: &FsError) -> FormatError {
    refused(format!(
        "the F2FS volume: data that were fsynced after the last checkpoint cannot be recovered: {failed}; expected \
         `no_recovery` as well, which drops them"
    ))
}

fn refused(detail: String) -> FormatError {
    FormatError::option("repair", detail)
}
