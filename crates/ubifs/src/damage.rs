//! What can be wrong with a volume.

use nandkit_vfs::check::{Finding, Kind, Severity};

use crate::lebs::Lebs;
use crate::node::Place;

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A part of the index that cannot be read: what stands below it is lost.
    Index,
    /// A leaf that cannot be read.
    Leaf,
    /// A name that no file can have.
    Name,
    /// A name that leads to no inode.
    Dangling,
    /// An inode without a name.
    Orphan,
    /// Data, names or attributes of an inode that is not there. They may have been written before
    /// the power went, and their inode not yet: Linux drops them. A name that lacks its inode tells
    /// of a loss.
    Ownerless,
    /// A number of names that differs from the names.
    Links,
    /// Properties of a LEB that the index contradicts, or that cannot be read. No file is lost:
    /// Linux would take space that is in use, or none where there is some.
    Properties,
    /// LEBs at the end that are missing. Unmapped ones are harmless to lose; of others the index or
    /// a leaf tells.
    Cut,
    /// The end of the journal that was not written completely.
    TornJournal,
    /// A part of the journal that cannot be read: what was written there is lost.
    Journal,
    /// The value of an extended attribute that no file has.
    UnusedAttribute,
}

impl Kind for DamageKind {
    fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Leaf => "damaged node",
            Self::Name => "name",
            Self::Dangling => "dangling name",
            Self::Orphan => "orphan",
            Self::Ownerless => "ownerless data",
            Self::Links => "link count",
            Self::Properties => "leb properties",
            Self::Cut => "cut off",
            Self::TornJournal => "torn journal",
            Self::Journal => "journal",
            Self::UnusedAttribute => "unused attribute",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Cut | Self::Ownerless | Self::TornJournal | Self::UnusedAttribute => Severity::Harmless,
            _ => Severity::Fault,
        }
    }
}

/// A finding about a node.
pub(crate) fn at(kind: DamageKind, lebs: &dyn Lebs, place: Place, detail: &str) -> Finding {
    let at = u64::from(place.leb) * u64::from(lebs.leb_size()) + u64::from(place.offset);
    Finding::new(kind, detail).at(at)
}
