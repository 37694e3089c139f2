//! F2FS in images: what a check finds, and a repair.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_f2fs::check::Waiting;
use nandkit_f2fs::device::Atomicity;
use nandkit_f2fs::{CheckFinding, CheckReport, FindingKind, Volume as F2fsVolume, WriteOptions};
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_units::Clock;
use nandkit_vfs::{ErrorKind, FsError};

use super::recovery::{self, Mounted, SharedDump, failed, replay};
use super::{device_names, devices, told};
use crate::StackError;
use crate::format::recognise::Found;
use crate::format::sectors::DumpSectors;
use crate::format::{Checked, Finding, ORPHAN, OpenOptions, Repaired, RepairedImage, clock_at, wrong};

/// Checks a volume; one that did not end cleanly as the next mount would leave it, and as it is.
pub(crate) fn check(path: &Path, first: DumpFlash, options: &OpenOptions) -> Result<Checked, StackError> {
    let named = device_names(&first);
    let devices: Vec<SharedDump> = devices(first, options)?.into_iter().map(SharedDump::new).collect();
    let wrong = |error| wrong(path, told(&error, &named));
    let before = nandkit_f2fs::check(devices.clone(), clock_at(0)).map_err(wrong)?;
    if options.no_recovery || !waits(&before) {
        return Ok(checked(&before));
    }
    let recovered = replay(&devices).and_then(|replayed| {
        let note = replayed.note();
        Ok((nandkit_f2fs::check(replayed.devices, clock_at(0))?, note))
    });
    Ok(match recovered {
        Ok((after, note)) => Checked { notes: note.into_iter().collect(), ..joined(&before, &after) },
        Err(error) => not_recovered(&before, &error),
    })
}

/// The same on a device in memory, of which nothing goes back to where it came from: the recovery is done on it. Errors: there is no volume that can be mounted.
pub(crate) fn check_device<D: BlockDevice>(mut device: D, clock: &Clock) -> Result<Checked, String> {
    let told = |error: FsError| told(&error, &[]);
    let before = nandkit_f2fs::check(vec![&mut device], clock.clone()).map_err(told)?;
    if !waits(&before) {
        return Ok(checked(&before));
    }
    match recover(&mut device, clock).and_then(|()| nandkit_f2fs::check(vec![device], clock.clone())) {
        Ok(after) => Ok(joined(&before, &after)),
        Err(error) => Ok(not_recovered(&before, &error)),
    }
}

/// Does what a mount for writing does to a volume that did not end cleanly. Errors: those of that mount; then the volume is as its checkpoint has it.
pub(crate) fn recover<D: BlockDevice>(device: &mut D, clock: &Clock) -> Result<(), FsError> {
    // No power cut tears what is in memory.
    let options = WriteOptions { atomicity: Atomicity::Told, ..WriteOptions::default() };
    let volume = F2fsVolume::mount(vec![device], clock.clone(), options)?;
    volume.unmount().map(drop).map_err(|(_, error)| error)
}

/// What a check found, and that the recovery failed.
fn not_recovered(before: &CheckReport, error: &FsError) -> Checked {
    let checked = checked(before);
    let failed = CheckFinding { harmless: error.kind == ErrorKind::NotSupported, path: None, finding: failed(error) };
    let mut findings: Vec<Finding> = without_waiting(before, checked.findings);
    findings.insert(0, finding(&failed, before.block_size));
    Checked { findings, ..checked }
}

/// Whether fsynced data wait behind the checkpoint.
fn waits(report: &CheckReport) -> bool {
    report.findings.iter().any(|found| found.finding.kind == FindingKind::NotReplayed)
}

/// Findings of a report but that data wait.
fn without_waiting(report: &CheckReport, findings: Vec<Finding>) -> Vec<Finding> {
    let all = report.findings.iter().zip(findings);
    all.filter(|(found, _)| found.finding.kind != FindingKind::NotReplayed).map(|(_, finding)| finding).collect()
}

/// What is there behind a recovery, and all that is wrong before or behind it: the recovery may have written over damage.
fn joined(before: &CheckReport, after: &CheckReport) -> Checked {
    let mut all = checked(after);
    let first = without_waiting(before, checked(before).findings);
    // Only faults: what is merely worth knowing of the state before is no longer so.
    all.findings.extend(first.into_iter().filter(|finding| !finding.harmless));
    let mut known = BTreeSet::new();
    all.findings.retain(|finding| known.insert((finding.kind.clone(), finding.detail.clone())));
    all
}

/// What a check finds on one device.
pub(crate) fn findings(device: DumpSectors) -> nandkit_vfs::Result<Vec<Finding>> {
    nandkit_f2fs::check(vec![device], clock_at(0)).map(|report| checked(&report).findings)
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
    let (checked, after) = (checked(&repair.before), checked(&repair.after));
    let block_size = repair.before.block_size;
    let is_mended = |finding: &&Finding| !finding.harmless && !after.findings.contains(finding);
    let mut mended: Vec<Finding> = checked.findings.iter().filter(is_mended).cloned().collect();
    mended.extend(repair.attached.iter().map(|inode| Finding {
        kind: ORPHAN.to_owned(),
        offset: None,
        paths: Vec::new(),
        detail: format!("inode {} has a name in lost+found, or in the root where there is no such directory", inode.0),
        harmless: false,
    }));
    if !repair.found.is_empty() {
        mended.push(Finding {
            kind: FindingKind::Nat.name().to_owned(),
            offset: None,
            paths: Vec::new(),
            detail: format!("{} nodes that the NAT had lost were found by their own blocks", repair.found.len()),
            harmless: false,
        });
    }
    let dropped = repair
        .dropped
        .iter()
        .map(|dropped| finding(&CheckFinding { finding: dropped.clone(), harmless: false, path: None }, block_size));
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
    let place = |at: u32| found.layout.offset + u64::from(at) * u64::from(block_size);
    let mut patches: Vec<(u64, Arc<[u8]>)> = Vec::new();
    let mut checked = checked;
    if let Some((replayed, note)) = replayed {
        patches.extend(replayed.into_iter().map(|(at, bytes)| (found.layout.offset + at, bytes)));
        checked.notes.extend(note);
    }
    patches.extend(repair.blocks.iter().map(|(at, block)| (place(at.0), Arc::clone(block))));
    Ok(Repaired {
        kept: repair.after.nodes,
        mended,
        dropped: dropped.collect(),
        remaining: after.findings.into_iter().filter(|finding| !finding.harmless).collect(),
        image: RepairedImage::patched(image, patches, end),
        checked,
    })
}

/// Why a repair cannot go on: it would drop what was fsynced.
fn cannot_replay(path: &Path, failed: &FsError) -> StackError {
    let detail = format!(
        "--repair: the F2FS volume: data that were fsynced after the last checkpoint cannot be recovered: {failed}; expected --no-recovery as well, which drops them"
    );
    wrong(path, detail)
}

fn checked(report: &CheckReport) -> Checked {
    let counts = vec![
        ("files", report.files),
        ("directories", report.directories),
        ("other_inodes", report.others),
        ("nodes", report.nodes),
        ("blocks_used", report.blocks),
    ];
    let findings = report.findings.iter().map(|found| finding(found, report.block_size)).collect();
    Checked { format: "f2fs", findings, counts, notes: Vec::new() }
}

fn finding(found: &CheckFinding, block_size: u32) -> Finding {
    let inode = found.finding.inode.map_or_else(String::new, |inode| format!("inode {}: ", inode.0));
    let path = found.path.as_deref().map(|path| path.strip_prefix(b"/").unwrap_or(path).to_vec());
    Finding {
        kind: found.finding.kind.name().to_owned(),
        offset: found.finding.at.map(|at| u64::from(at.0) * u64::from(block_size)),
        paths: path.into_iter().collect(),
        detail: format!("{inode}{}", found.finding.detail),
        harmless: found.harmless,
    }
}
