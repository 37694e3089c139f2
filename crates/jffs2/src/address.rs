//! Addresses of nodes, and inode numbers.

use std::fmt;

use nandkit_units::BlockIndex;
use nandkit_vfs::InodeNumber;

/// The address of a node: its offset in data bytes from the start of the device, without OOB. A
/// multiple of four. JFFS2 has no other identification for a node, which limits volumes to 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(pub u32);

impl NodeAddress {
    /// The block that contains it.
    #[inline]
    pub const fn block(self, erase_size: u32) -> BlockIndex {
        BlockIndex(self.0 / erase_size)
    }

    /// Offset in the block, in bytes.
    #[inline]
    pub const fn offset(self, erase_size: u32) -> u32 {
        self.0 % erase_size
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// An inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u32);

impl Ino {
    /// No inode: a directory entry with this number deletes its name.
    pub const NONE: Self = Self(0);

    /// The next number; `None` after the last one.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl From<Ino> for InodeNumber {
    fn from(inode: Ino) -> Self {
        Self(u64::from(inode.0))
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
