//! Checks of F2FS volumes in images.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use nandkit_f2fs::FindingKind;
use nandkit_vfs::FsError;
use nandkit_vfs::check::{Finding, Kind, Report};

use super::devices::{device_names, told};
use super::recovery::{Reader, all_boxed, boxed, failed, recover, replay, shared};
use crate::device_handle::DeviceHandle;
use crate::format::{FormatError, Medium, Opening, clock_at};

/// Checks a volume. A volume that was not unmounted is checked before and after the recovery of the
/// next mount.
pub(super) fn check(medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
    let Medium::Dump(dump) = medium else { return check_device(medium.into_blocks()?, how) };
    let named = device_names(&dump.device);
    let devices = shared(dump.device, how)?;
    let before =
        nandkit_f2fs::check(all_boxed(devices.iter().cloned()), clock_at(0)).map_err(|error| told(&error, &named))?;
    if how.options.no_recovery || !waits(&before) {
        return Ok(before);
    }
    let recovered = replay(&devices).and_then(|replayed| {
        let note = replayed.note();
        Ok((nandkit_f2fs::check(all_boxed(replayed.devices), clock_at(0))?, note))
    });
    Ok(match recovered {
        Ok((after, note)) => Report { notes: note.into_iter().collect(), ..joined(before, after) },
        Err(error) => not_recovered(before, &error),
    })
}

/// Checks the volume on a device in memory, which is not written back; the recovery runs on it.
/// Error: no volume can be mounted.
fn check_device(device: Reader, how: &Opening<'_>) -> Result<Report, FormatError> {
    let clock = &how.clock;
    let device = DeviceHandle::new(Arc::new(Mutex::new(device)));
    let check = || nandkit_f2fs::check(vec![boxed(device.clone())], clock.clone());
    let before = check().map_err(|error| told(&error, &[]))?;
    if !waits(&before) {
        return Ok(before);
    }
    match recover(&device, clock).and_then(|()| check()) {
        Ok(after) => Ok(joined(before, after)),
        Err(error) => Ok(not_recovered(before, &error)),
    }
}

/// The report of a check, with the failed recovery.
fn not_recovered(before: Report, error: &FsError) -> Report {
    let mut report = without_waiting(before);
    report.findings.insert(0, failed(error).into_finding(0));
    report
}

fn is_waiting(finding: &Finding) -> bool {
    finding.kind == FindingKind::NotReplayed.name()
}

/// Whether there are unrecovered fsynced data after the checkpoint.
fn waits(report: &Report) -> bool {
    report.findings.iter().any(is_waiting)
}

/// The report without the finding about unrecovered data.
fn without_waiting(mut report: Report) -> Report {
    report.findings.retain(|finding| !is_waiting(finding));
    report
}

/// The counts after a recovery, and the faults before and after it: the recovery may have
/// overwritten damage.
fn joined(before: Report, after: Report) -> Report {
    let mut all = after;
    // Notes about the earlier state no longer apply, so that only faults are kept.
    all.findings.extend(without_waiting(before).findings.into_iter().filter(|finding| !finding.is_harmless()));
    let mut known = BTreeSet::new();
    all.findings.retain(|finding| known.insert((finding.kind, finding.detail.clone())));
    all
}
