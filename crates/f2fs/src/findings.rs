//! What decoding finds wrong.
//!
//! The same code decodes for a mount, which refuses, and for a check, which goes on. So decoding
//! hands each defect to its caller and returns `None` only where nothing sensible can be returned.

use std::fmt;

use nandkit_vfs::check::{Finding, Kind, Severity};
use nandkit_vfs::{ErrorKind, FsError, InodeNumber};

use crate::ids::{BlockAddress, NodeId};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// No superblock of F2FS at this place.
    NotF2fs,
    /// A field of a superblock that is out of its range, or areas that do not fit together.
    Superblock,
    /// A superblock's checksum.
    SuperblockChecksum,
    /// The volume's features or block size are none that this program can read.
    Unsupported,
    /// The device ends before the volume does.
    CutShort,
    /// A checkpoint pack that is not whole: checksum, versions or a field.
    Checkpoint,
    /// A summary or a journal of the checkpoint.
    Summary,
    /// An entry of the NAT.
    Nat,
    /// An entry of the SIT.
    Sit,
    /// The footer of a node is not that of the node that the NAT names.
    Footer,
    /// An inode's fields contradict each other or the volume's features.
    Inode,
    /// An inode's checksum.
    InodeChecksum,
    /// An address outside the main area, or one where none may stand.
    Address,
    /// A node of a file's tree is missing, foreign, or stands at another place of the tree.
    Tree,
    /// A compressed cluster.
    Compression,
    /// The area of extended attributes.
    Xattr,
    /// A directory's entry.
    Dentry,
    /// A directory's levels or blocks.
    Directory,
    /// Two places of the volume count differently.
    Count,
    /// One block that two of a volume's files or nodes claim.
    Owners,
    /// A node that exists and that nothing refers to.
    Unreached,
    /// An inode's count of names, or a directory's of directories.
    Links,
    /// An inode's largest extent is not how its pages lie.
    Extent,
    /// The type of a segment, or the place of a log.
    Segment,
    /// The volume says of itself that it is not in order.
    State,
    /// A quota file.
    Quota,
    /// A block that the device does not give.
    Unreadable,
    /// Data that were fsynced behind the last checkpoint, which this mount does not show.
    NotReplayed,
    /// Something about the volume that is worth knowing and breaks nothing.
    Note,
    /// An inode without a name, to which a repair gave one.
    Orphan,
}

impl FindingKind {
    /// All kinds, in the order in which findings at one place are listed.
    pub const ALL: [Self; 30] = [
        Self::NotF2fs,
        Self::Superblock,
        Self::SuperblockChecksum,
        Self::Unsupported,
        Self::CutShort,
        Self::Checkpoint,
        Self::Summary,
        Self::Nat,
        Self::Sit,
        Self::Footer,
        Self::Inode,
        Self::InodeChecksum,
        Self::Address,
        Self::Tree,
        Self::Compression,
        Self::Xattr,
        Self::Dentry,
        Self::Directory,
        Self::Count,
        Self::Owners,
        Self::Unreached,
        Self::Links,
        Self::Extent,
        Self::Segment,
        Self::State,
        Self::Quota,
        Self::Unreadable,
        Self::NotReplayed,
        Self::Note,
        Self::Orphan,
    ];
}

impl Kind for FindingKind {
    fn name(self) -> &'static str {
        match self {
            Self::NotF2fs => "not F2FS",
            Self::Superblock => "superblock",
            Self::SuperblockChecksum => "superblock checksum",
            Self::Unsupported => "unsupported",
            Self::CutShort => "cut short",
            Self::Checkpoint => "checkpoint",
            Self::Summary => "summary",
            Self::Nat => "NAT",
            Self::Sit => "SIT",
            Self::Footer => "footer",
            Self::Inode => "inode",
            Self::InodeChecksum => "inode checksum",
            Self::Address => "address",
            Self::Tree => "tree",
            Self::Compression => "compression",
            Self::Xattr => "xattr",
            Self::Dentry => "dentry",
            Self::Directory => "directory",
            Self::Count => "count",
            Self::Owners => "owners",
            Self::Unreached => "unreached",
            Self::Links => "links",
            Self::Extent => "extent",
            Self::Segment => "segment",
            Self::State => "state",
            Self::Quota => "quota",
            Self::Unreadable => "unreadable",
            Self::NotReplayed => "not replayed",
            Self::Note => "note",
            Self::Orphan => "orphan",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Note | Self::NotReplayed => Severity::Harmless,
            _ => Severity::Fault,
        }
    }
}

/// One thing that decoding found wrong, by block address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Its kind.
    pub kind: FindingKind,
    /// The inode concerned, where it is known.
    pub inode: Option<NodeId>,
    /// The block concerned, where it is known.
    pub at: Option<BlockAddress>,
    /// What was found, and what would be right.
    pub detail: String,
}

/// Takes defects.
pub type Defects<'a> = &'a mut dyn FnMut(Defect);

impl Defect {
    /// A defect of the volume as a whole.
    #[cold]
    pub fn new(kind: FindingKind, detail: impl Into<String>) -> Self {
        Self { kind, inode: None, at: None, detail: detail.into() }
    }

    /// Names the inode concerned.
    #[must_use]
    pub fn of(self, inode: NodeId) -> Self {
        Self { inode: Some(inode), ..self }
    }

    /// Names the block concerned.
    #[must_use]
    pub fn at(self, at: BlockAddress) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The finding that leaves the crate: its offset counts bytes, in blocks of `block_size`.
    pub fn into_finding(self, block_size: u32) -> Finding {
        Finding {
            inode: self.inode.map(|inode| InodeNumber(inode.0.into())),
            offset: self.at.map(|at| u64::from(at.0) * u64::from(block_size)),
            ..Finding::new(self.kind, self.detail)
        }
    }

    /// The error of an operation that cannot go on because of it.
    #[cold]
    pub fn into_error(self) -> FsError {
        let kind = match self.kind {
            FindingKind::Unsupported => ErrorKind::NotSupported,
            _ => ErrorKind::Corrupt,
        };
        FsError::new(kind, self.to_string())
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(inode) = self.inode {
            write!(f, "inode {}: ", inode.0)?;
        }
        if let Some(at) = self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.detail)
    }
}

impl From<Defect> for FsError {
    fn from(defect: Defect) -> Self {
        defect.into_error()
    }
}
