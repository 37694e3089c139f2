//! The one vocabulary of damage: what a check of a volume says, whatever its format.
//!
//! A format keeps an enum of its own for what can be wrong ([`Kind`]); what leaves the format is a
//! [`Finding`] that carries the kind's name. [`Findings`] collects them with a bound for each kind,
//! so that a hostile image costs no memory, and [`Report`] and [`Repair`] are what a check and a
//! repair come to.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use crate::InodeNumber;

/// Findings of one kind and severity that are listed one by one; the others are counted.
///
/// A hostile image makes millions of them, and each may name a path of 64 KiB.
pub const LISTED_MAX: u64 = 1000;

/// What can be wrong with a volume of one format.
pub trait Kind: Copy {
    /// The kind in a word or two, for people and for JSON: stable, and unique within the format.
    fn name(self) -> &'static str;

    /// How bad a finding of this kind is, unless it says otherwise.
    fn severity(self) -> Severity {
        Severity::Fault
    }
}

/// A kind that no enum lists.
impl Kind for &'static str {
    fn name(self) -> &'static str {
        self
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is lost by it and nothing goes wrong: the torn end of a write that was never
    /// acknowledged, say.
    Harmless,
    /// Something is damaged, or contradicts itself.
    Fault,
}

/// One thing that a check, a mount or a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The [`Kind::name`] of its kind.
    pub kind: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The inode concerned, where it is known.
    pub inode: Option<InodeNumber>,
    /// The first data byte concerned, counted from the beginning of the volume.
    pub offset: Option<u64>,
    /// The files concerned, where they are known: paths from the root, without a leading `/`.
    pub paths: Vec<Vec<u8>>,
    /// What was found, and what would be right.
    pub detail: String,
}

impl Finding {
    /// A finding about the volume as a whole.
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

    /// Names the inode concerned.
    #[must_use]
    pub fn of(self, inode: InodeNumber) -> Self {
        Self { inode: Some(inode), ..self }
    }

    /// Names the first byte concerned.
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

    /// Marks it as harmless.
    #[must_use]
    pub fn harmless(self) -> Self {
        Self { severity: Severity::Harmless, ..self }
    }

    /// Whether nothing is lost by it.
    pub fn is_harmless(&self) -> bool {
        self.severity == Severity::Harmless
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// A collector of findings that keeps at most [`LISTED_MAX`] of each kind and severity, and counts
/// all.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    listed: Vec<Finding>,
    counts: BTreeMap<(&'static str, Severity), u64>,
}

impl Findings {
    /// Takes a finding.
    pub fn add(&mut self, finding: Finding) {
        let (kind, severity) = (finding.kind, finding.severity);
        self.add_with(kind, severity, || finding);
    }

    /// Takes a finding that is made only if it is going to be listed. Its kind and severity must be
    /// those given here.
    pub fn add_with(&mut self, kind: &'static str, severity: Severity, finding: impl FnOnce() -> Finding) {
        let count = self.counts.entry((kind, severity)).or_default();
        *count += 1;
        if *count <= LISTED_MAX {
            self.listed.push(finding());
        }
    }

    /// Puts the listed findings in order; equal ones stay in the order in which they came.
    pub fn sort_by(&mut self, order: impl FnMut(&Finding, &Finding) -> Ordering) {
        self.listed.sort_by(order);
    }

    /// How many faults there are of each kind, those included that are not listed.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        let faults = self.counts.iter().filter(|((_, severity), _)| *severity == Severity::Fault);
        faults.map(|((kind, _), count)| (*kind, *count)).collect()
    }

    /// The findings in the order in which they came, and one more for each kind of which some are
    /// not listed.
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

/// What a check came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong and what is worth knowing, in the format's order.
    pub findings: Vec<Finding>,
    /// What there is in the volume, by name: the same names in every report of a format.
    pub counts: Vec<(&'static str, u64)>,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong; harmless findings do not count.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(Finding::is_harmless)
    }

    /// The findings that are faults.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.is_harmless())
    }

    /// How many there are of what has this name; 0 for a name that the format does not know.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}

/// What a repair came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The check of the volume as it was.
    pub before: Report,
    /// Nodes that were kept.
    pub kept: u64,
    /// What was put right.
    pub mended: Vec<Finding>,
    /// What was left out.
    pub dropped: Vec<Finding>,
    /// What is still wrong with the repaired volume.
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
