//! The common vocabulary of damage: the result of checking a volume of any format.
//!
//! Each format has its own enum of what can be wrong ([`Kind`]); outside the format, a [`Finding`]
//! carries the kind's name. [`Findings`] collects them and bounds the list per kind, so that a
//! hostile image cannot exhaust memory. [`Report`] and [`Repair`] are the results of a check and a
//! repair.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use crate::InodeNumber;

/// Most findings of one kind and severity that are listed; further ones are only counted.
///
/// A hostile image can cause millions of findings, each with a path of up to 64 KiB.
pub const LISTED_MAX: u64 = 1000;

/// What can be wrong with a volume of one format.
pub trait Kind: Copy {
    /// The kind in a word or two, for people and for JSON: stable and unique within the format.
    fn name(self) -> &'static str;

    /// The severity of findings of this kind, unless a finding overrides it.
    fn severity(self) -> Severity {
        Severity::Fault
    }
}

/// The name of a kind that belongs to no enum.
impl Kind for &'static str {
    fn name(self) -> &'static str {
        self
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is lost and nothing will go wrong, for instance the torn end of a write that was
    /// never acknowledged.
    Harmless,
    /// Something is damaged, or contradicts itself.
    Fault,
}

/// A problem that a check, a mount or a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The [`Kind::name`] of its kind.
    pub kind: &'static str,
    /// How bad the finding is.
    pub severity: Severity,
    /// The affected inode, if known.
    pub inode: Option<InodeNumber>,
    /// The first affected byte, counted from the start of the volume.
    pub offset: Option<u64>,
    /// The affected files, if known: paths from the root, without a leading `/`.
    pub paths: Vec<Vec<u8>>,
    /// What was found, and what was expected.
    pub detail: String,
}

impl Finding {
    /// Makes a finding about the volume as a whole.
    #[cold]
    pub fn new(kind: impl Kind, detail: impl Into<String>) -> Self {
        Self {
            kind: kind.name(),
            severity: kind.severity(),
            inode: None,
            offset: None,
            paths: Vec::new(),
            detail: detail.into(),
        }
    }

    /// Sets the affected inode.
    #[must_use]
    pub fn of(self, inode: InodeNumber) -> Self {
        Self { inode: Some(inode), ..self }
    }

    /// Sets the first affected byte.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// Adds a path; a leading `/` is dropped.
    #[must_use]
    pub fn in_file(mut self, path: &[u8]) -> Self {
        self.paths.push(path.strip_prefix(b"/").unwrap_or(path).to_vec());
        self
    }

    /// Marks the finding as harmless.
    #[must_use]
    pub fn harmless(self) -> Self {
        Self { severity: Severity::Harmless, ..self }
    }

    /// Whether the finding is harmless.
    pub fn is_harmless(&self) -> bool {
        self.severity == Severity::Harmless
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Collects findings: lists at most [`LISTED_MAX`] of each kind and severity, and counts all.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    listed: Vec<Finding>,
    counts: BTreeMap<(&'static str, Severity), u64>,
}

impl Findings {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        let (kind, severity) = (finding.kind, finding.severity);
        self.add_with(kind, severity, || finding);
    }

    /// Adds a finding that is built only if it will be listed. The built finding must have the
    /// given kind and severity.
    pub fn add_with(&mut self, kind: &'static str, severity: Severity, finding: impl FnOnce() -> Finding) {
        let count = self.counts.entry((kind, severity)).or_default();
        *count += 1;
        if *count <= LISTED_MAX {
            self.listed.push(finding());
        }
    }

    /// Sorts the listed findings; the sort is stable.
    pub fn sort_by(&mut self, order: impl FnMut(&Finding, &Finding) -> Ordering) {
        self.listed.sort_by(order);
    }

    /// The number of faults of each kind, including those that are not listed.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let faults = self.counts.iter().filter(|((_, severity), _)| *severity == Severity::Fault);
        faults.map(|((kind, _), count)| (*kind, *count)).collect()
    }

    /// The findings in order of arrival, followed by one summary for each kind with unlisted
    /// findings.
    pub fn into_list(self) -> Vec<Finding> {
        let mut list = self.listed;
        for ((kind, severity), count) in self.counts {
            let Some(more) = count.checked_sub(LISTED_MAX).filter(|more| *more > 0) else { continue };
            let detail = format!("{more} more findings of this kind, which are not listed");
            list.push(Finding { kind, severity, inode: None, offset: None, paths: Vec::new(), detail });
        }
        list
    }
}

impl Extend<Finding> for Findings {
    fn extend<T: IntoIterator<Item = Finding>>(&mut self, findings: T) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Damage and other findings, in the format's order.
    pub findings: Vec<Finding>,
    /// Named counts of the volume's content: every report of one format has the same names.
    pub counts: Vec<(&'static str, u64)>,
    /// Further remarks for people, one sentence each.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether there are no faults; harmless findings do not count.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(Finding::is_harmless)
    }

    /// The findings that are faults.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.is_harmless())
    }

    /// The count with this name; 0 for a name that the format does not use.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The check of the volume before the repair.
    pub before: Report,
    /// The number of nodes that were kept.
    pub kept: u64,
    /// Damage that was repaired.
    pub mended: Vec<Finding>,
    /// Content that was dropped.
    pub dropped: Vec<Finding>,
    /// Damage that remains in the repaired volume.
    pub remaining: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Wrong {
        Bad,
        Odd,
    }

    impl Kind for Wrong {
        fn name(self) -> &'static str {
            match self {
                Self::Bad => "bad",
                Self::Odd => "odd",
            }
        }

        fn severity(self) -> Severity {
            match self {
                Self::Bad => Severity::Fault,
                Self::Odd => Severity::Harmless,
            }
        }
    }

    #[test]
    fn many_of_a_kind_are_counted_and_not_listed() {
        let mut findings = Findings::default();
        findings.extend((0..LISTED_MAX + 5).map(|at| Finding::new(Wrong::Bad, at.to_string()).at(at)));
        findings.add(Finding::new(Wrong::Odd, "one"));
        findings.add_with("bad", Severity::Fault, || panic!("not made: the list is full"));
        assert_eq!(findings.faults(), BTreeMap::from([("bad", LISTED_MAX + 6)]));
        let list = findings.into_list();
        assert_eq!(list.len() as u64, LISTED_MAX + 2);
        assert!(list.last().is_some_and(|last| last.detail.starts_with("6 more") && !last.is_harmless()));
    }

    #[test]
    fn harmless_findings_leave_a_report_clean() {
        let harmless = Finding::new(Wrong::Odd, "torn").of(InodeNumber(7)).in_file(b"/a/b");
        assert_eq!(harmless.paths, [b"a/b".to_vec()]);
        let mut report = Report { findings: vec![harmless], counts: vec![("files", 3)], notes: Vec::new() };
        assert!(report.is_clean() && report.faults().next().is_none());
        assert_eq!((report.count("files"), report.count("others")), (3, 0));
        report.findings.push(Finding::new(Wrong::Bad, "gone"));
        assert!(!report.is_clean());
    }
}
