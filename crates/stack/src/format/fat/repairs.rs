//! Reasons against changing a FAT volume: losses by the repairs of its mount, and damage that no
//! repair can undo.

use nandkit_block::BlockDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{FindingKind, RecoveryReport};
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Kind, Report};

/// The repairs of the mount, in a sentence.
pub(crate) fn told(report: &RecoveryReport) -> String {
    let counts = [
        (report.lost_clusters, "clusters without a file were freed"),
        (report.chains_cut, "chains were cut to the size of their files"),
        (report.shortened, "files were cut to the length of their chains"),
        (report.entries_removed, "entries went"),
        (report.marks_cleared, "unfinished renames were ended"),
        (report.orphan_slots, "long-name slots without an entry were removed"),
        (report.parents_corrected, "parent entries of directories were corrected"),
        (report.fat_sectors_copied, "sectors of further FATs were copied from the first"),
    ];
    let made: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    match made.is_empty() {
        true => "the volume was not unmounted, but needs no repair".to_owned(),
        false => format!("the volume was not unmounted; the first sync writes the repairs: {}", made.join(", ")),
    }
}

/// Repairs that lose file data.
pub(crate) fn losses(report: &RecoveryReport) -> Vec<Finding> {
    let losses = [
        (report.shortened, "files have fewer clusters than their size needs, and are cut"),
        (
            report.entries_removed,
            "entries share their clusters or their name with another, or are directories without a cluster, and are removed",
        ),
    ];
    let found = losses.into_iter().filter(|(count, _)| *count > 0);
    found
        .map(|(count, what)| Finding::new("repair", format!("{count} {what}; expected none (check lists them)")))
        .collect()
}

/// Damage by which changing one file would change another: clusters shared by two entries (also a
/// directory inside itself), and chains that lead to wrong clusters. The mount repairs a volume
/// that was not unmounted and reports the losses, and refuses an unreadable one.
pub(crate) fn shared<D: BlockDevice>(device: &mut D, clock: &Clock, page: CodePage) -> Vec<Finding> {
    let Ok(Report { mut findings, .. }) = nandkit_fat::check(device, clock, page) else { return Vec::new() };
    if findings.iter().any(|found| found.kind == FindingKind::NotUnmounted.name()) {
        return Vec::new();
    }
    let harmful = [FindingKind::SharedClusters, FindingKind::BrokenChain].map(Kind::name);
    findings.retain(|found| harmful.contains(&found.kind));
    findings
}
