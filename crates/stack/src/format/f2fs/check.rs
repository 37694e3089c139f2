//! F2FS in images: what a check finds, and a repair.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_f2fs::FindingKind;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::device::Atomicity;
use nandkit_f2fs::{Volume as F2fsVolume, WriteOptions};
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Kind, Report};
use nandkit_vfs::{self as vfs, FsError};

use super::recovery::{self, Mounted, SharedDump, failed, replay};
use super::{device_names, devices, told};
use crate::StackError;
use crate::format::recognise::Found;
use crate::format::sectors::DumpSectors;
use crate::format::{Checked, OpenOptions, Repaired, RepairedImage, clock_at, wrong};

/// Checks a volume; one that did not end cleanly as the next mount would leave it, and as it is.
pub(crate) fn check(path: &Path, first: DumpFlash, options: &OpenOptions) -> Result<Checked, StackError> {
    let named = device_names(&first);
    let devices: Vec<SharedDump> = devices(first, options)?.into_iter().map(SharedDump::new).collect();
    let wrong = |error| wrong(path, told(&error, &named));
    let before = nandkit_f2fs::check(devices.clone(), clock_at(0)).map_err(wrong)?;
    if options.no_recovery || !waits(&before) {
        return Ok(checked(before));
    }
    let recovered = replay(&devices).and_then(|replayed| {
        let note = replayed.note();
        Ok((nandkit_f2fs::check(replayed.devices, clock_at(0))?, note))
    });
    Ok(match recovered {
        Ok((after, note)) => checked(Report { notes: note.into_iter().collect(), ..joined(before, after) }),
        Err(error) => checked(not_recovered(before, &error)),
    })
}

/// The same on a device in memory, of which nothing goes back to where it came from: the recovery is done on it. Errors: there is no volume that can be mounted.
pub(crate) fn check_device<D: BlockDevice>(mut device: D, clock: &Clock) -> Result<Checked, String> {
    let told = |error: FsError| told(&error, &[]);
    let before = nandkit_f2fs::check(vec![&mut device], clock.clone()).map_err(told)?;
    if !waits(&before) {
        return Ok(checked(before));
    }
    match recover(&mut device, clock).and_then(|()| nandkit_f2fs::check(vec![device], clock.clone())) {
        Ok(after) => Ok(checked(joined(before, after))),
        Err(error) => Ok(checked(not_recovered(before, &error))),
    }
}

/// Does what a mount for writing does to a volume that did not end cleanly. Errors: those of that
/// mount; then the volume is as its checkpoint has it.
pub(crate) fn recover<D: BlockDevice>(device: &mut D, clock: &Clock) -> Result<(), FsError> {
    // No power cut tears what is in memory.
    let options = WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() };
    let volume = F2fsVolume::mount(vec![device], clock.clone(), options)?;
    volume.unmount().map(drop).map_err(|(_, error)| error)
}

fn checked(report: Report) -> Checked {
    Checked { format: "f2fs", report }
}

/// What a check found, and that the recovery failed.
fn not_recovered(before: Report, error: &FsError) -> Report {
    let mut report = without_waiting(before);
    report.findings.insert(0, failed(error).into_finding(0));
    report
}

fn is_waiting(finding: &Finding) -> bool {
    finding.kind == FindingKind::NotReplayed.name()
}

/// Whether fsynced data wait behind the checkpoint.
fn waits(report: &Report) -> bool {
    report.findings.iter().any(is_waiting)
}

/// A report that does not say that data wait.
fn without_waiting(mut report: Report) -> Report {
    report.findings.retain(|finding| !is_waiting(finding));
    report
}

/// What is there behind a recovery, and all that is wrong before or behind it: the recovery may have written over damage.
fn joined(before: Report, after: Report) -> Report {
    let mut all = after;
    // Only faults: what is merely worth knowing of the state before is no longer so.
    all.findings.extend(without_waiting(before).findings.into_iter().filter(|finding| !finding.is_harmless()));
    let mut known = BTreeSet::new();
    all.findings.retain(|finding| known.insert((finding.kind, finding.detail.clone())));
    all
}

/// What a check finds on one device.
pub(crate) fn findings(device: DumpSectors) -> nandkit_vfs::Result<Vec<Finding>> {
    nandkit_f2fs::check(vec![device], clock_at(0)).map(|report| report.findings)
}

/// The image with its volume repaired.
pub(crate) fn repair(path: &Path, image: Image, found: &Found, options: &OpenOptions) -> Result<Repaired, StackError> {
    if !options.devices.is_empty() {
        return Err(wrong(path, "--repair: the volume lies on several devices; expected one on one device"));
    }
    let part = image.view(found.layout.clone()).map_err(|error| wrong(path, error))?;
    let named = device_names(&part);
    let devices: Vec<SharedDump> = devices(part, options)?.into_iter().map(SharedDump::new).collect();
    let waiting = Mounted::new(&devices, false).is_ok_and(|mounted| recovery::waits(&mounted.findings));
    let (repair, replayed) = match (waiting, options.no_recovery) {
        (true, false) => {
            let replayed = replay(&devices).map_err(|error| cannot_replay(path, &error))?;
            let patches = replayed.patches().map_err(|error| wrong(path, error))?;
            let note = replayed.note();
            // What still waits behind a recovery makes no file.
            (nandkit_f2fs::repair(replayed.devices, clock_at(0), Waiting::Dropped), Some((patches, note)))
        }
        (_, true) => (nandkit_f2fs::repair(devices, clock_at(0), Waiting::Dropped), None),
        (false, false) => (nandkit_f2fs::repair(devices, clock_at(0), Waiting::Refused), None),
    };
    let repair = repair.map_err(|error| wrong(path, told(&error, &named)))?;
    let end = found.layout.offset + repair.bytes;
    let length = image.bytes().len() as u64;
    if let Some(size) = found.layout.size
        && found.layout.offset + size < end.min(length)
    {
        let detail = format!(
            "--repair: the volume has {} bytes and its part of the image {size}, behind which others begin; expected a part with room for all of it",
            repair.bytes
        );
        return Err(wrong(path, detail));
    }
    let place = |at: u32| found.layout.offset + u64::from(at) * u64::from(repair.block_size);
    let mut patches: Vec<(u64, Arc<[u8]>)> = Vec::new();
    let vfs::check::Repair { mut before, kept, mended, dropped, remaining } = repair.report;
    if let Some((replayed, note)) = replayed {
        patches.extend(replayed.into_iter().map(|(at, bytes)| (found.layout.offset + at, bytes)));
        before.notes.extend(note);
    }
    patches.extend(repair.blocks.iter().map(|(at, block)| (place(at.0), Arc::clone(block))));
    Ok(Repaired {
        checked: checked(before),
        kept,
        mended,
        dropped,
        remaining,
        image: RepairedImage::patched(image, patches, end),
    })
}

/// Why a repair cannot go on: it would drop what was fsynced.
fn cannot_replay(path: &Path, failed: &FsError) -> StackError {
    let detail = format!(
        "--repair: the F2FS volume: data that were fsynced after the last checkpoint cannot be recovered: {failed}; expected --no-recovery as well, which drops them"
    );
    wrong(path, detail)
}
