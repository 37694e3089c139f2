//! What decoding finds wrong.
//!
//! The same code decodes for a mount, which refuses, and for a check, which goes on. So decoding hands each finding to whoever asked and returns `None` only
//! where nothing sensible can be returned.

use std::fmt;

use nandkit_vfs::{ErrorKind, FsError};

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
}

impl FindingKind {
    /// The kind in a word or two, for people.
    pub const fn name(self) -> &'static str {
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
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// Whose.
    pub inode: Option<NodeId>,
    /// Where.
    pub at: Option<BlockAddress>,
    /// What exactly, and what would be right.
    pub detail: String,
}

/// Who takes findings.
pub type Findings<'a> = &'a mut dyn FnMut(Finding);

impl Finding {
    /// A finding about the volume.
    #[cold]
    pub fn new(kind: FindingKind, detail: impl Into<String>) -> Self {
        Self { kind, inode: None, at: None, detail: detail.into() }
    }

    /// The same, of an inode.
    #[must_use]
    pub fn of(self, inode: NodeId) -> Self {
        Self { inode: Some(inode), ..self }
    }

    /// The same, at a block.
    #[must_use]
    pub fn at(self, at: BlockAddress) -> Self {
        Self { at: Some(at), ..self }
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

impl fmt::Display for Finding {
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

impl From<Finding> for FsError {
    fn from(finding: Finding) -> Self {
        finding.into_error()
    }
}
