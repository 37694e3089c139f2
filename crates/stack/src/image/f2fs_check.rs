//! F2FS in images: what a check finds.

use nandkit_block::BlockDevice;
use nandkit_f2fs::{CheckFinding, CheckReport};
use nandkit_units::Clock;

use super::{Checked, Finding};

/// Checks a volume that lies on one device.
pub(super) fn check<D: BlockDevice>(device: D, clock: &Clock) -> Result<Checked, String> {
    let report = nandkit_f2fs::check(vec![device], clock.clone()).map_err(|error| error.to_string())?;
    Ok(checked(&report))
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
