//! Reasons to doubt a rescued file.

use std::fmt;

/// Why a file may differ from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// Bytes are lost and read as zeroes: their nodes no longer exist, or their blocks are outside
    /// the image.
    Incomplete {
        /// The number of lost bytes.
        bytes: u64,
    },
    /// Bytes are in blocks that another file or a node uses as well, and may be the other's.
    Reused {
        /// The number of these bytes.
        bytes: u64,
    },
    /// It may be an older state: a newer block of its nodes is damaged, or two blocks of one
    /// checkpoint cannot be ordered.
    Older,
    /// Its extended attributes are lost.
    NoAttributes,
    /// Its size exceeds the maximum; it ends where its nodes do.
    Size,
    /// It is encrypted; its content needs the key.
    Encrypted,
    /// It was deleted, according to its link count.
    Deleted,
    /// Its number now belongs to a later file.
    Replaced,
    /// Its directory exists but does not list it: it was deleted, renamed or replaced.
    Unlisted,
    /// Its directory, or the part that lists it, is lost; the name is the one recorded in its
    /// inode.
    OwnName,
    /// Its name is unknown.
    Unnamed,
}

impl Doubt {
    /// A short name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incomplete { .. } => "incomplete",
            Self::Reused { .. } => "reused",
            Self::Older => "older",
            Self::NoAttributes => "no_attributes",
            Self::Size => "size",
            Self::Encrypted => "encrypted",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
            Self::Unlisted => "unlisted",
            Self::OwnName => "own_name",
            Self::Unnamed => "unnamed",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { bytes } => write!(f, "{bytes} bytes are lost and read as zeroes"),
            Self::Reused { bytes } => write!(f, "{bytes} bytes are in blocks that something else uses too"),
            Self::Older => f.write_str("it may be an older state"),
            Self::NoAttributes => f.write_str("its extended attributes are lost"),
            Self::Size => f.write_str("its size is impossible and was reduced"),
            Self::Encrypted => f.write_str("it is encrypted"),
            Self::Deleted => f.write_str("it had been deleted"),
            Self::Replaced => f.write_str("it was deleted, and a later file has its number"),
            Self::Unlisted => f.write_str("its directory does not list it: deleted, renamed or replaced"),
            Self::OwnName => {
                f.write_str("the directory that lists it is lost; the name is the one recorded in its inode")
            }
            Self::Unnamed => f.write_str("its name is lost"),
        }
    }
}
