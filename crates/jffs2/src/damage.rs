//! Damage inside the crate: typed, ordered by address, and converted to findings for callers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use nandkit_units::BlockIndex;
use nandkit_vfs::check::{Finding, Kind, Severity};

use crate::{Ino, NodeAddress};

/// The damage found so far, each item once. It grows through a shared reference while inodes are
/// loaded.
#[derive(Debug, Default)]
pub(crate) struct DamageList {
    damage: Mutex<BTreeSet<Damage>>,
}

impl DamageList {
    /// Adds an item unless it is known.
    pub(crate) fn add(&self, damage: Damage) {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).insert(damage);
    }

    /// Adds all items that are not known.
    pub(crate) fn extend(&self, damage: impl IntoIterator<Item = Damage>) {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).extend(damage);
    }

    /// All damage, by address.
    pub(crate) fn sorted(&self) -> Vec<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// An item of damage at one address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Damage {
    /// The first affected byte, counted from the start of the volume.
    pub(crate) at: NodeAddress,
    /// The erase block that contains it.
    pub(crate) block: BlockIndex,
    /// What is damaged.
    pub(crate) kind: DamageKind,
    /// The inode that it belongs to, if the header still says so.
    pub(crate) inode: Option<Ino>,
    /// Details for people: what was found, and what was expected.
    pub(crate) detail: String,
}

impl Damage {
    /// Converts it to a finding, without a path.
    pub(crate) fn finding(&self) -> Finding {
        let inode = self.inode.map_or_else(String::new, |inode| format!("inode {inode}: "));
        let finding = Finding::new(self.kind, format!("{inode}{} (block {})", self.detail, self.block.0));
        Finding { inode: self.inode.map(|inode| inode.into()), ..finding.at(self.at.0.into()) }
    }
}

/// What can be wrong with a JFFS2 volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DamageKind {
    /// A node's magic number, length or header checksum is wrong, or bytes are no node where one
    /// should begin.
    Header,
    /// The fixed part of a node fails its checksum or contradicts itself.
    Node,
    /// A file's data fail their checksum or do not decompress.
    Data,
    /// A directory entry's name fails its checksum or cannot be a name.
    Name,
    /// An extended attribute's name or value fails its checksum.
    Xattr,
    /// A summary does not describe its block.
    Summary,
    /// A cleanmarker holds something else.
    Cleanmarker,
    /// Bytes stand where free flash or padding should be.
    FreeSpace,
    /// An inode contradicts itself: no type or an impossible one, a link's target that holds a NUL.
    Inode,
    /// A node names an inode, directory or attribute that is missing or of another type.
    Reference,
    /// No path leads from the root to a whole inode or name, in a volume from which nothing was
    /// ever deleted.
    Orphan,
    /// No node holds bytes of a file that its other nodes say were written.
    Missing,
    /// The device could not read bytes without errors.
    Uncorrectable,
    /// The last node of the block that was open at a power cut is torn. Nothing acknowledged as
    /// durable is lost.
    Torn,
    /// A name is left of a deleted directory, whose nodes are erased in any order.
    Remains,
    /// A listing leaves a file out, because its path is too deep or cannot be walked.
    NotShown,
    /// A repair found no space for a whole node in its block of the repaired volume.
    NoRoom,
}

impl Kind for DamageKind {
    fn name(self) -> &'static str {
        match self {
            Self::Header => "node header",
            Self::Node => "node",
            Self::Data => "data",
            Self::Name => "name",
            Self::Xattr => "extended attribute",
            Self::Summary => "summary",
            Self::Cleanmarker => "cleanmarker",
            Self::FreeSpace => "free space",
            Self::Inode => "inode",
            Self::Reference => "reference",
            Self::Orphan => "orphan",
            Self::Missing => "missing data",
            Self::Uncorrectable => "uncorrectable",
            Self::Torn => "torn write",
            Self::Remains => "remains",
            Self::NotShown => "not shown",
            Self::NoRoom => "no room",
        }
    }

    fn severity(self) -> Severity {
        match self {
            // A power cut, or the removal of a directory, leaves these behind.
            Self::Torn | Self::Remains => Severity::Harmless,
            _ => Severity::Fault,
        }
    }
}
