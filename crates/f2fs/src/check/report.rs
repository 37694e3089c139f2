//! The report while a check is running.

use nandkit_vfs::check::{Finding, Findings, Kind, Severity};

use crate::findings::{Defect, FindingKind};
use crate::ids::{BlockAddress, NodeId};
use crate::layout::Geometry;

/// The inode and the block that a finding is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FindingSubject {
    inode: Option<NodeId>,
    at: Option<BlockAddress>,
}

/// The whole volume.
pub(super) const WHOLE_VOLUME: FindingSubject = FindingSubject { inode: None, at: None };

/// A finding about an inode.
pub(super) const fn of(inode: NodeId) -> FindingSubject {
    FindingSubject { inode: Some(inode), at: None }
}

/// A finding about a block.
pub(super) const fn at(at: BlockAddress) -> FindingSubject {
    FindingSubject { inode: None, at: Some(at) }
}

impl FindingSubject {
    /// Adds the block.
    pub const fn at(self, at: BlockAddress) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// Collects what a check finds.
#[derive(Debug)]
pub(super) struct Draft {
    findings: Findings,
    /// Block size in bytes, for converting addresses to offsets.
    pub block_size: u32,
}

impl Default for Draft {
    fn default() -> Self {
        Self { findings: Findings::default(), block_size: 4096 }
    }
}

impl Draft {
    /// A draft for a volume whose superblock is known.
    pub fn of_volume(geometry: &Geometry) -> Self {
        Self { block_size: geometry.block_size() as u32, ..Self::default() }
    }

    /// Adds a fault. The text is only built if it will be listed.
    pub fn fault(&mut self, kind: FindingKind, subject: FindingSubject, detail: impl FnOnce() -> String) {
        self.add(kind, Severity::Fault, subject, detail);
    }

    /// Adds a harmless finding.
    pub fn harmless(&mut self, kind: FindingKind, subject: FindingSubject, detail: impl FnOnce() -> String) {
        self.add(kind, Severity::Harmless, subject, detail);
    }

    /// Adds a defect that decoding found.
    pub fn take(&mut self, defect: Defect) {
        let subject = FindingSubject { inode: defect.inode, at: defect.at };
        self.add(defect.kind, defect.kind.severity(), subject, || defect.detail);
    }

    fn add(&mut self, kind: FindingKind, severity: Severity, subject: FindingSubject, detail: impl FnOnce() -> String) {
        let block_size = self.block_size;
        self.findings.add_with(kind.name(), severity, || {
            let defect = Defect { kind, inode: subject.inode, at: subject.at, detail: detail() };
            Finding { severity, ..defect.into_finding(block_size) }
        });
    }

    /// The findings sorted by offset (those without one first), then by inode and kind.
    pub fn finish(mut self) -> Vec<Finding> {
        let rank = |finding: &Finding| FindingKind::ALL.iter().position(|kind| kind.name() == finding.kind);
        self.findings.sort_by(|a, b| {
            let by_kind = || rank(a).cmp(&rank(b)).then_with(|| a.detail.cmp(&b.detail));
            (a.offset, a.inode).cmp(&(b.offset, b.inode)).then_with(by_kind)
        });
        self.findings.into_list()
    }
}

/// Prefixes a finding's text with the inode.
pub(super) fn naming_inode(finding: Finding) -> Finding {
    match finding.inode {
        Some(inode) => Finding { detail: format!("inode {}: {}", inode.0, finding.detail), ..finding },
        None => finding,
    }
}

#[cfg(test)]
mod tests {
    use nandkit_vfs::check::LISTED_MAX;

    use super::*;

    #[test]
    fn findings_are_in_the_order_of_their_offsets() {
        let mut draft = Draft::default();
        for number in 0..LISTED_MAX as u32 + 5 {
            draft.fault(FindingKind::Sit, at(BlockAddress(9000 - number)), || format!("{number}"));
        }
        draft.harmless(FindingKind::Sit, WHOLE_VOLUME, || "one".into());
        draft.take(Defect::new(FindingKind::Note, "a note"));
        draft.fault(FindingKind::Nat, of(NodeId(4)), || "of an inode".into());
        let list = draft.finish();
        assert_eq!(list.len() as u64, LISTED_MAX + 4);
        assert!(list.last().is_some_and(|more| more.detail.starts_with("5 more")));
        let kinds: Vec<_> = list.iter().take(3).map(|finding| (finding.kind, finding.is_harmless())).collect();
        assert_eq!(kinds, [("SIT", true), ("note", true), ("NAT", false)]);
        let offsets: Vec<_> = list.iter().take(list.len() - 1).map(|finding| finding.offset).collect();
        assert!(offsets.is_sorted() && offsets.contains(&Some(9000 * 4096)));
        assert_eq!(naming_inode(list[2].clone()).detail, "inode 4: of an inode");
    }
}
