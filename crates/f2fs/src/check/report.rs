//! What a check found, as much as anybody reads.

use std::collections::BTreeMap;

use crate::findings::{Finding, FindingKind};
use crate::ids::{BlockAddress, NodeId};

/// Findings of one kind that are kept; of the others there is their number. A hostile image makes millions.
pub const KEPT_MAX: u64 = 1000;

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// What, whose and where.
    pub finding: Finding,
    /// Nothing is lost by it and nothing goes wrong by it: it is worth knowing.
    pub harmless: bool,
    /// The path of the inode, with `/` in front; `None` where it has none, or nobody's inode is concerned. Where the paths of all findings take more than
    /// [`nandkit_vfs::path::PathBudget`] allows, the last components behind `/...`.
    pub path: Option<Vec<u8>>,
}

/// What a check came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Findings by address, those without one first. Of each kind [`KEPT_MAX`] at most; one more then says how many there are besides.
    pub findings: Vec<CheckFinding>,
    /// How many faults there are of each kind, those counted too that are not in the list; what is harmless is not counted.
    pub faults: BTreeMap<FindingKind, u64>,
    /// Inodes of regular files that were reached.
    pub files: u64,
    /// Directories that were reached.
    pub directories: u64,
    /// Other inodes that were reached: links, devices, fifos, sockets.
    pub others: u64,
    /// Nodes that were reached, inodes included.
    pub nodes: u64,
    /// Blocks of the main area that are in use.
    pub blocks: u64,
    /// Bytes of a block, by which addresses are offsets; 4096 where no superblock tells.
    pub block_size: u32,
}

impl CheckReport {
    /// Whether nothing is wrong; what is harmless does not count.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Whose and where.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    inode: Option<NodeId>,
    at: Option<BlockAddress>,
}

/// Of the volume as a whole.
pub(super) const NOWHERE: Place = Place { inode: None, at: None };

/// Of an inode.
pub(super) const fn of(inode: NodeId) -> Place {
    Place { inode: Some(inode), at: None }
}

/// At a block.
pub(super) const fn at(at: BlockAddress) -> Place {
    Place { inode: None, at: Some(at) }
}

impl Place {
    /// The same, at a block.
    pub const fn at(self, at: BlockAddress) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// Collects findings.
#[derive(Debug, Default)]
pub(super) struct Collector {
    kept: Vec<(Finding, bool)>,
    /// By kind and by being harmless.
    numbers: BTreeMap<(FindingKind, bool), u64>,
}

impl Collector {
    /// Something is wrong. The text is made only where it is kept.
    pub fn fault(&mut self, kind: FindingKind, place: Place, detail: impl FnOnce() -> String) {
        self.add(kind, place, false, detail);
    }

    /// Something is worth knowing.
    pub fn harmless(&mut self, kind: FindingKind, place: Place, detail: impl FnOnce() -> String) {
        self.add(kind, place, true, detail);
    }

    /// What decoding found.
    pub fn take(&mut self, finding: Finding) {
        let place = Place { inode: finding.inode, at: finding.at };
        let harmless = matches!(finding.kind, FindingKind::Note | FindingKind::NotReplayed);
        self.add(finding.kind, place, harmless, || finding.detail);
    }

    fn add(&mut self, kind: FindingKind, place: Place, harmless: bool, detail: impl FnOnce() -> String) {
        let number = self.numbers.entry((kind, harmless)).or_default();
        *number += 1;
        if *number <= KEPT_MAX {
            self.kept.push((Finding { kind, inode: place.inode, at: place.at, detail: detail() }, harmless));
        }
    }

    /// All of it, sorted, and the number of faults of each kind.
    pub fn finish(mut self) -> (Vec<(Finding, bool)>, BTreeMap<FindingKind, u64>) {
        self.kept.sort_by(|(a, _), (b, _)| (a.at, a.inode, a.kind, &a.detail).cmp(&(b.at, b.inode, b.kind, &b.detail)));
        for (&(kind, harmless), &number) in self.numbers.iter().filter(|(_, number)| **number > KEPT_MAX) {
            let detail = format!("{} more findings of this kind, which are not listed", number - KEPT_MAX);
            self.kept.push((Finding::new(kind, detail), harmless));
        }
        let faults = self.numbers.into_iter().filter(|((_, harmless), _)| !harmless);
        (self.kept, faults.map(|((kind, _), number)| (kind, number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_a_kind_are_counted_and_not_kept() {
        let mut collector = Collector::default();
        for number in 0..KEPT_MAX as u32 + 5 {
            collector.fault(FindingKind::Sit, at(BlockAddress(9000 - number)), || format!("{number}"));
        }
        collector.harmless(FindingKind::Sit, NOWHERE, || "one".into());
        collector.take(Finding::new(FindingKind::Note, "a note"));
        let (kept, faults) = collector.finish();
        assert_eq!(faults, BTreeMap::from([(FindingKind::Sit, KEPT_MAX + 5)]));
        assert_eq!(kept.len() as u64, KEPT_MAX + 3);
        assert!(kept.iter().any(|(finding, _)| finding.detail.starts_with("5 more")));
        let addresses: Vec<_> = kept.iter().take(1000).map(|(finding, _)| finding.at).collect();
        assert!(addresses.is_sorted());
    }
}
