//! What stands in each erase block.

use nandkit_units::{BlockIndex, Nanos};

use crate::NodeAddress;

/// Whose a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody's: cleanmarkers, padding, summaries, unknown nodes, gaps.
    None,
    /// An inode's: inode nodes, and directory entries of the directory that they stand in.
    Inode(u32),
    /// The attribute's with this number.
    Xattr(u32),
    /// A reference of the inode with this number to an attribute.
    Xref(u32),
}

/// What is known of a node's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// Its inode was not loaded since the mount: nobody knows yet.
    Unchecked,
    /// All of it is valid, and it may be copied as it is.
    Pristine,
    /// Some of it is valid, or it may be joined with its neighbours: the collector writes its content anew.
    Normal,
    /// Nothing of it is valid.
    Obsolete,
}

/// A node in its block. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef {
    /// When it was written; for nodes found by a mount, the time of the mount.
    pub written: Nanos,
    /// Bytes from the block's beginning.
    pub offset: u32,
    /// Bytes up to the next node, padding included.
    pub length: u32,
    owner: u32,
    owner_kind: u8,
    /// What is known of its use.
    pub state: NodeState,
}

const _: () = assert!(size_of::<NodeRef>() == 24);

impl NodeRef {
    /// A node.
    pub const fn new(offset: u32, length: u32, owner: Owner, state: NodeState, written: Nanos) -> Self {
        let (owner_kind, owner) = match owner {
            Owner::None => (0, 0),
            Owner::Inode(number) => (1, number),
            Owner::Xattr(number) => (2, number),
            Owner::Xref(number) => (3, number),
        };
        Self { written, offset, length, owner, owner_kind, state }
    }

    /// Whose it is.
    pub const fn owner(&self) -> Owner {
        match self.owner_kind {
            1 => Owner::Inode(self.owner),
            2 => Owner::Xattr(self.owner),
            3 => Owner::Xref(self.owner),
            _ => Owner::None,
        }
    }

    /// Whether nothing of it is valid.
    pub const fn is_obsolete(&self) -> bool {
        matches!(self.state, NodeState::Obsolete)
    }
}

/// The list on which a block is, as Linux's fs/jffs2 sorts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Erased, with its cleanmarker where the medium wants one.
    Free,
    /// Nodes are being appended to it.
    Open,
    /// Full, with nothing or next to nothing obsolete.
    Clean,
    /// Full, with obsolete nodes.
    Dirty,
    /// Full, at least half of it obsolete.
    VeryDirty,
    /// Nothing valid in it; erased when the collector takes it.
    Erasable,
    /// Nothing valid in it, but what replaced it is still in a write buffer.
    ErasableAfterFlush,
    /// Erased next.
    #[default]
    ErasePending,
    /// The collector is at work in it.
    Collecting,
    /// A program failed in it: emptied, then retired.
    BadUsed,
    /// Bad.
    Bad,
}

/// An erase block. The five sums always make up the erase size.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its nodes in the order of their addresses, without gaps from the block's beginning to where it is free.
    pub nodes: Vec<NodeRef>,
    /// Bytes of valid nodes.
    pub used: u32,
    /// Bytes of obsolete nodes.
    pub dirty: u32,
    /// Bytes lost to padding and small obsolete nodes, not worth collecting.
    pub wasted: u32,
    /// Bytes of nodes that were not checked since the mount.
    pub unchecked: u32,
    /// Bytes behind the last node.
    pub free: u32,
    /// The list it is on.
    pub queue: Queue,
    /// Its place in that list: the head is the least.
    pub place: i64,
    /// Erases since it is known: JFFS2 stores none, so a mount begins at 0 unless the device tells.
    pub erases: u32,
    /// When its first node was written.
    pub first_written: Nanos,
    /// When its last node was written.
    pub last_written: Nanos,
    /// The region of a separation that it belongs to.
    pub region: u8,
}

impl Block {
    /// An empty block.
    pub fn empty(erase_size: u32) -> Self {
        Self { free: erase_size, ..Self::default() }
    }

    /// The node that begins at `offset`.
    pub fn node(&self, offset: u32) -> Option<&NodeRef> {
        let place = self.nodes.binary_search_by_key(&offset, |node| node.offset).ok()?;
        self.nodes.get(place)
    }

    /// The place of the node that begins at `offset`.
    pub fn place_of(&self, offset: u32) -> Option<usize> {
        self.nodes.binary_search_by_key(&offset, |node| node.offset).ok()
    }

    /// Bytes that all sums together make up: the erase size.
    pub const fn total(&self) -> u32 {
        self.used + self.dirty + self.wasted + self.unchecked + self.free
    }
}

/// All blocks, and the sums over them.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Bytes of a block.
    pub erase_size: u32,
    /// The blocks of the device.
    pub blocks: Vec<Block>,
    /// Sums over all blocks, in bytes.
    pub sums: Sums,
}

/// Sums over all blocks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Valid.
    pub used: u64,
    /// Obsolete.
    pub dirty: u64,
    /// Lost to padding.
    pub wasted: u64,
    /// Not checked since the mount.
    pub unchecked: u64,
    /// Free.
    pub free: u64,
    /// In blocks that are erased or about to be.
    pub erasing: u64,
    /// In bad blocks.
    pub bad: u64,
}

impl Catalogue {
    /// The block and node that an address names.
    pub fn node(&self, at: NodeAddress) -> Option<&NodeRef> {
        self.block(at.block(self.erase_size))?.node(at.offset(self.erase_size))
    }

    /// A block.
    pub fn block(&self, block: BlockIndex) -> Option<&Block> {
        self.blocks.get(block.index())
    }

    /// The address of a place in a block.
    pub const fn address(&self, block: BlockIndex, offset: u32) -> NodeAddress {
        NodeAddress(block.0 * self.erase_size + offset)
    }
}
