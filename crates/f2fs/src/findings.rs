//! Defects that decoding finds.
//!
//! The same decoding serves mounts, which refuse, and checks, which continue. Decoding reports each
//! defect to its caller and returns `None` only if it has nothing sensible to return.

use std::fmt;

use nandkit_vfs::check::{Finding, Kind, Severity};
use nandkit_vfs::{ErrorKind, FsError, InodeNumber};

use crate::ids::{BlockAddress, NodeId};

/// The kind of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// No F2FS superblock at this address.
    NotF2fs,
    /// A superblock field is out of range, or areas do not fit together.
    Superblock,
    /// A wrong superblock checksum.
    SuperblockChecksum,
    /// Features or a block size that this program does not support.
    Unsupported,
    /// The device is smaller than the volume.
    CutShort,
    /// A checkpoint pack that is not valid: checksum, versions or a field.
    Checkpoint,
    /// A wrong summary or journal of the checkpoint.
    Summary,
    /// A wrong NAT entry.
    Nat,
    /// A wrong SIT entry.
    Sit,
    /// A node's footer does not match the node that the NAT names.
    Footer,
    /// An inode's fields contradict each other or the volume's features.
    Inode,
    /// A wrong inode checksum.
    InodeChecksum,
    /// An address outside the main area, or an address where none is allowed.
    Address,
    /// A node of a file's tree is missing, belongs to another file, or is at the wrong position.
    Tree,
    /// A damaged compressed cluster.
    Compression,
    /// A damaged area of extended attributes.
    Xattr,
    /// A wrong directory entry.
    Dentry,
    /// Wrong levels or blocks of a directory.
    Directory,
    /// Two counters of the volume disagree.
    Count,
    /// One block that two files or nodes claim.
    Owners,
    /// A node that exists but that nothing refers to.
    Unreached,
    /// A wrong link count of an inode, or of a directory's subdirectories.
    Links,
    /// An inode's largest extent does not match its pages.
    Extent,
    /// A wrong segment type, or a log in a wrong place.
    Segment,
    /// The volume's own flags say that it is not consistent.
    State,
    /// A damaged quota file.
    Quota,
    /// A block that the device cannot read.
    Unreadable,
    /// Data fsynced after the last checkpoint, which this mount does not show.
    NotReplayed,
    /// A harmless fact about the volume.
    Note,
    /// An inode without a name that a repair gave one.
    Orphan,
}

impl FindingKind {
    /// All kinds, in the order in which findings at one address are listed.
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

/// A defect found by decoding, located by block address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The kind of defect.
    pub kind: FindingKind,
    /// The inode concerned, if known.
    pub inode: Option<NodeId>,
    /// The block concerned, if known.
    pub at: Option<BlockAddress>,
    /// What was found, and what was expected.
    pub detail: String,
}

/// Receives defects.
pub type Defects<'a> = &'a mut dyn FnMut(Defect);

impl Defect {
    /// A defect of the volume as a whole.
    #[cold]
    pub fn new(kind: FindingKind, detail: impl Into<String>) -> Self {
        Self { kind, inode: None, at: None, detail: detail.into() }
    }

    /// Adds the inode concerned.
    #[must_use]
    pub fn of(self, inode: NodeId) -> Self {
        Self { inode: Some(inode), ..self }
    }

    /// Adds the block concerned.
    #[must_use]
    pub fn at(self, at: BlockAddress) -> Self {
        Self { at: Some(at), ..self }
    }

    /// Converts it to the public finding, whose offset is in bytes, given blocks of `block_size`
    /// bytes.
    pub fn into_finding(self, block_size: u32) -> Finding {
        Finding {
            inode: self.inode.map(|inode| InodeNumber(inode.0.into())),
            offset: self.at.map(|at| u64::from(at.0) * u64::from(block_size)),
            ..Finding::new(self.kind, self.detail)
        }
    }

    /// Converts it to the error of an operation that it stops.
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
