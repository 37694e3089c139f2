//! What speaks against changing a volume of FAT: what its mount had to repair where it was not
//! unmounted, and what no repair puts right.

use nandkit_block::BlockDevice;
use nandkit_codec::code_page::CodePage;
use nandkit_fat::{FindingKind, RecoveryReport};
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Kind, Report};

/// The repairs in a sentence.
pub(crate) fn told(report: &RecoveryReport) -> String {
    let counts = [
        (report.lost_clusters, "clusters that belonged to no file are free"),
        (report.chains_cut, "chains are as long as their files"),
        (report.shortened, "files are as short as their chains"),
        (report.entries_removed, "entries went"),
        (report.marks_cleared, "unfinished renames were ended"),
        (report.orphan_slots, "slots of long names without an entry went"),
        (report.parents_corrected, "directories know their parent again"),
        (report.fat_sectors_copied, "sectors of further FATs are like the first"),
    ];
    let made: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    match made.is_empty() {
        true => "the volume was not unmounted; it is in order".to_owned(),
        false => format!("the volume was not unmounted, and is repaired with the first sync: {}", made.join(", ")),
    }
}

/// Repairs that take something away that a file had.
pub(crate) fn losses(report: &RecoveryReport) -> Vec<Finding> {
    let losses = [
        (report.shortened, "files have fewer clusters than bytes, and are cut"),
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

/// What makes a change of one file one of another: clusters that two entries have, among them
/// directories within themselves, and chains that lead astray. A volume that was not unmounted is
/// repaired by its mount, which tells what it loses; one that cannot be read is refused by it.
pub(crate) fn shared<D: BlockDevice>(device: &mut D, clock: &Clock, page: CodePage) -> Vec<Finding> {
    let Ok(Report { mut findings, .. }) = nandkit_fat::check(device, clock, page) else { return Vec::new() };
    if findings.iter().any(|found| found.kind == FindingKind::NotUnmounted.name()) {
        return Vec::new();
    }
    let harmful = [FindingKind::SharedClusters, FindingKind::BrokenChain].map(Kind::name);
    findings.retain(|found| harmful.contains(&found.kind));
    findings
}
