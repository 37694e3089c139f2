//! Addresses and numbers of a volume, each with its own type.

use std::fmt;
use std::sync::Arc;

/// The content of one block, [`crate::layout::Geometry::block_size`] bytes. Shared, because caches
/// and readers hold it at the same time.
pub type Block = Arc<[u8]>;

/// The number of a block, counted from the start of the volume across all its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockAddress(pub u32);

/// The number of a segment of the main area, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentIndex(pub u32);

/// The number of a node (nid). The nid of an inode is its inode number (ino).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// No node.
    pub const NONE: Self = Self(0);
    /// The inode number of the node area (`node_ino`).
    pub const NODES: Self = Self(1);
    /// The inode number of the metadata areas (`meta_ino`).
    pub const META: Self = Self(2);
    /// The root directory.
    pub const ROOT: Self = Self(3);

    /// `Some(self)`, or `None` for nid 0, which means "no node".
    pub const fn some(self) -> Option<Self> {
        if self.0 == 0 { None } else { Some(self) }
    }
}

impl BlockAddress {
    /// The address `blocks` further on; `None` if it exceeds 32 bits.
    pub fn checked_add(self, blocks: u32) -> Option<Self> {
        self.0.checked_add(blocks).map(Self)
    }
}

impl From<BlockAddress> for u32 {
    fn from(address: BlockAddress) -> Self {
        address.0
    }
}

impl From<NodeId> for u32 {
    fn from(nid: NodeId) -> Self {
        nid.0
    }
}

impl fmt::Display for BlockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {:#x}", self.0)
    }
}

impl fmt::Display for SegmentIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// An address field of a node, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataAddress {
    /// NULL_ADDR: never written; reads as zeros and takes no space.
    Hole,
    /// NEW_ADDR: reserved, reads as zeros, counts in `i_blocks` and `valid_block_count`.
    Reserved,
    /// COMPRESS_ADDR: the first address of a compressed cluster; counted like
    /// [`DataAddress::Reserved`].
    Compressed,
    /// A block address, not yet checked against the geometry.
    At(BlockAddress),
}

impl DataAddress {
    const NULL: u32 = 0;
    const NEW: u32 = 0xFFFF_FFFF;
    const COMPRESS: u32 = 0xFFFF_FFFE;

    /// Decodes the field of a node.
    pub const fn of(field: u32) -> Self {
        match field {
            Self::NULL => Self::Hole,
            Self::NEW => Self::Reserved,
            Self::COMPRESS => Self::Compressed,
            address => Self::At(BlockAddress(address)),
        }
    }

    /// Encodes the field of a node.
    pub const fn field(self) -> u32 {
        match self {
            Self::Hole => Self::NULL,
            Self::Reserved => Self::NEW,
            Self::Compressed => Self::COMPRESS,
            Self::At(BlockAddress(address)) => address,
        }
    }
}

/// The six logs, in the order of `alloc_type` and of segment types (f2fs.md, "Checkpoint pack",
/// "SIT").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Log {
    HotData = 0,
    WarmData = 1,
    ColdData = 2,
    HotNode = 3,
    WarmNode = 4,
    ColdNode = 5,
}

impl Log {
    /// The number of logs; the length of a table indexed by [`Log::index`].
    pub const COUNT: usize = 6;

    /// All logs in the order of their index.
    pub const ALL: [Self; Self::COUNT] =
        [Self::HotData, Self::WarmData, Self::ColdData, Self::HotNode, Self::WarmNode, Self::ColdNode];

    /// The log of a segment type; `None` above 5.
    pub fn of(kind: u8) -> Option<Self> {
        Self::ALL.get(usize::from(kind)).copied()
    }

    /// The log's index in a table of all logs.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the log holds nodes.
    pub const fn is_node(self) -> bool {
        self as u8 >= 3
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HotData => "hot data",
            Self::WarmData => "warm data",
            Self::ColdData => "cold data",
            Self::HotNode => "hot node",
            Self::WarmNode => "warm node",
            Self::ColdNode => "cold node",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_fields_go_both_ways() {
        for field in [0, 1, 7, 0xFFFF_FFFD, 0xFFFF_FFFE, 0xFFFF_FFFF] {
            assert_eq!(DataAddress::of(field).field(), field);
        }
        assert_eq!(DataAddress::of(0xFFFF_FFFE), DataAddress::Compressed);
        for (index, log) in Log::ALL.into_iter().enumerate() {
            assert_eq!((log.index(), Log::of(index as u8), log.is_node()), (index, Some(log), index > 2));
        }
        assert_eq!(Log::of(6), None);
    }
}
