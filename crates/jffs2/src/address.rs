//! Where a node stands, and the numbers of inodes.

use std::fmt;

use nandkit_units::BlockIndex;
use nandkit_vfs::InodeNumber;

/// Where a node begins: bytes of data from the device's beginning, OOB not counted. A multiple of
/// four. JFFS2 knows no other name for a node, and so has room for 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(pub u32);

impl NodeAddress {
    /// The block it lies in.
    #[inline]
    pub const fn block(self, erase_size: u32) -> BlockIndex {
        BlockIndex(self.0 / erase_size)
    }

    /// Bytes from the block's beginning.
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

/// The number of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u32);

impl Ino {
    /// No inode: a directory entry with it takes its name away.
    pub const NONE: Self = Self(0);

    /// The number behind it; `None` behind the last.
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
