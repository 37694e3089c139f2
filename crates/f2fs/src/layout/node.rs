//! Node footers, and offsets of nodes in their file (f2fs.md, "Nodes").

use std::mem::offset_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ids::{BlockAddress, NodeId};

/// Size of the footer.
pub const FOOTER_BYTES: usize = 24;

/// The last 24 bytes of every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Footer {
    /// The node's nid.
    pub nid: U32,
    /// The inode that owns it.
    pub ino: U32,
    /// Bits of [`mark`]; from bit 3 on the [`NodeOffset`].
    pub flags: U32,
    /// The last checkpoint before the write: version and, with CRC_RECOVERY, its CRC in the upper
    /// half.
    pub checkpoint: U64,
    /// The address of the log's next node.
    pub next: U32,
}

/// Bits of a footer's `flags`.
pub mod mark {
    /// The node belongs to no directory.
    pub const COLD: u32 = 1;
    /// Written by an fsync.
    pub const FSYNC: u32 = 2;
    /// Roll-forward must restore the inode's name.
    pub const DENTRY: u32 = 4;
}

impl Footer {
    /// Decodes the footer of a node's block; `None` if the block is too short.
    pub fn of_block(block: &[u8]) -> Option<Self> {
        Self::read_from_suffix(block).ok().map(|(_, footer)| footer)
    }

    /// The node's nid.
    pub fn nid(&self) -> NodeId {
        NodeId(self.nid.get())
    }

    /// The inode that owns it.
    pub fn ino(&self) -> NodeId {
        NodeId(self.ino.get())
    }

    /// Its offset in the file.
    pub fn offset(&self) -> NodeOffset {
        NodeOffset(self.flags.get() >> 3)
    }

    /// Whether a bit of [`mark`] is set.
    pub fn has(&self, mark: u32) -> bool {
        self.flags.get() & mark != 0
    }

    /// The address of the log's next node.
    pub fn next(&self) -> BlockAddress {
        BlockAddress(self.next.get())
    }

    /// The `flags` field for an offset with these marks.
    pub const fn flags_of(offset: NodeOffset, marks: u32) -> u32 {
        offset.0 << 3 | marks
    }
}

/// The position of a node in its file's tree: 29 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeOffset(pub u32);

impl NodeOffset {
    /// The inode.
    pub const INODE: Self = Self(0);
    /// The node of extended attributes.
    pub const XATTR: Self = Self(0x1FFF_FFFF);
}

/// The word at `index` of a node's addresses or nids; `None` in the footer and past it.
pub fn word_of(block: &[u8], index: u16) -> Option<u32> {
    super::word(block.get(..block.len().checked_sub(FOOTER_BYTES)?)?, usize::from(index) * 4)
}

const _: () = {
    assert!(size_of::<Footer>() == FOOTER_BYTES);
    assert!(offset_of!(Footer, checkpoint) == 12 && offset_of!(Footer, next) == 20);
};
