//! F2FS in images: what a check finds.

use std::path::Path;

use nandkit_f2fs::{CheckFinding, CheckReport};
use nandkit_flash_image::DumpFlash;

use super::f2fs::{device_names, devices, told};
use super::{Checked, Finding, OpenOptions, clock_at, wrong};
use crate::StackError;

/// Checks a volume.
pub(super) fn check(path: &Path, first: DumpFlash, options: &OpenOptions) -> Result<Checked, StackError> {
    let named = device_names(&first);
    let report = nandkit_f2fs::check(devices(first, options)?, clock_at(0));
    report.map(|report| checked(&report)).map_err(|error| wrong(path, told(&error, &named)))
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
