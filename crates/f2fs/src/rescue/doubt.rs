//! What makes a rescued file less than sure.

use std::fmt;

/// Why a file may not be what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// So many bytes are lost: nodes that no block holds any more, or blocks outside the image.
    /// They are zeroes.
    Incomplete {
        /// Bytes.
        bytes: u64,
    },
    /// So many bytes lie in blocks that another file or a node uses as well: they may be the
    /// other's.
    Reused {
        /// Bytes.
        bytes: u64,
    },
    /// A newer block of its nodes is damaged, or two blocks of one checkpoint cannot be ordered: it
    /// may be an older state.
    Older,
    /// Its extended attributes are lost.
    NoAttributes,
    /// Its size is more than a file can have; it ends where its nodes do.
    Size,
    /// It is encrypted: what is delivered of it needs the key.
    Encrypted,
    /// It had been deleted, as its number of names says.
    Deleted,
    /// Its number belongs to a later file.
    Replaced,
    /// Its directory is there and does not list it: it was deleted, renamed or replaced.
    Unlisted,
    /// Its directory, or the part that lists it, is lost: the name is the one that it knows itself.
    OwnName,
    /// Nothing tells its name.
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
            Self::Incomplete { bytes } => write!(f, "{bytes} bytes are lost, and are zeroes here"),
            Self::Reused { bytes } => write!(f, "{bytes} bytes lie in blocks that something else uses too"),
            Self::Older => f.write_str("it may be an older state"),
            Self::NoAttributes => f.write_str("its extended attributes are lost"),
            Self::Size => f.write_str("its size is impossible, and was cut"),
            Self::Encrypted => f.write_str("it is encrypted"),
            Self::Deleted => f.write_str("it had been deleted"),
            Self::Replaced => f.write_str("it was deleted, and a later file has its number"),
            Self::Unlisted => f.write_str("its directory does not list it: deleted, renamed or replaced"),
            Self::OwnName => f.write_str("what lists it is lost; the name is the one it was made with"),
            Self::Unnamed => f.write_str("its name is lost"),
        }
    }
}
