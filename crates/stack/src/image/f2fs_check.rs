//! F2FS in images: what a check finds, and a repair.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nandkit_f2fs::{CheckFinding, CheckReport};
use nandkit_flash_image::{DumpFlash, Image};

use super::detect::Found;
use super::f2fs::{device_names, devices, told};
use super::sectors::DumpSectors;
use super::{Checked, Finding, ORPHAN, OpenOptions, Repaired, RepairedImage, clock_at, wrong};
use crate::StackError;

/// Checks a volume.
pub(super) fn check(path: &Path, first: DumpFlash, options: &OpenOptions) -> Result<Checked, StackError> {
    let named = device_names(&first);
    let report = nandkit_f2fs::check(devices(first, options)?, clock_at(0));
    report.map(|report| checked(&report)).map_err(|error| wrong(path, told(&error, &named)))
}

/// What a check finds on one device.
pub(super) fn findings(device: DumpSectors) -> nandkit_vfs::Result<Vec<Finding>> {
    nandkit_f2fs::check(vec![device], clock_at(0)).map(|report| checked(&report).findings)
}

/// The image with its volume repaired.
pub(super) fn repair(path: &Path, image: Image, found: &Found, options: &OpenOptions) -> Result<Repaired, StackError> {
    if !options.devices.is_empty() {
        return Err(wrong(path, "--repair: the volume lies on several devices; expected one on one device"));
    }
    let part = image.view(found.layout.clone()).map_err(|error| wrong(path, error))?;
    let named = device_names(&part);
    let repair = nandkit_f2fs::repair(devices(part, options)?, clock_at(0));
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
    let dropped = repair
        .dropped
        .iter()
        .map(|dropped| finding(&CheckFinding { finding: dropped.clone(), harmless: false, path: None }, block_size));
    let place = |at: u32| found.layout.offset + u64::from(at) * u64::from(block_size);
    let patches: BTreeMap<u64, Arc<[u8]>> =
        repair.blocks.iter().map(|(at, block)| (place(at.0), Arc::clone(block))).collect();
    Ok(Repaired {
        kept: repair.after.nodes,
        mended,
        dropped: dropped.collect(),
        remaining: after.findings.into_iter().filter(|finding| !finding.harmless).collect(),
        image: RepairedImage::patched(image, patches),
        checked,
    })
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
    Checked { format: "f2fs", findings, counts }
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
