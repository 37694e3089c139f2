//! Entries of the node address table (f2fs.md, "NAT").

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ids::{BlockAddress, DataAddress, NodeId};

/// The NAT entry of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NatEntry {
    /// Incremented when the nid is freed; data summaries contain it.
    pub version: u8,
    /// The inode that owns the node.
    pub ino: U32,
    /// Address; 0 for a free nid.
    pub address: U32,
}

impl NatEntry {
    /// An entry with these fields.
    pub fn new(version: u8, ino: NodeId, address: BlockAddress) -> Self {
        Self { version, ino: ino.0.into(), address: address.0.into() }
    }

    /// The entry at an index of a NAT block; `None` past its end.
    pub fn in_block(block: &[u8], index: usize) -> Option<Self> {
        Self::read_from_prefix(block.get(index.checked_mul(size_of::<Self>())?..)?).ok().map(|(entry, _)| entry)
    }

    /// The node's address: [`DataAddress::Hole`] for a free nid, [`DataAddress::Reserved`] for a
    /// node that was never written.
    pub fn address(&self) -> DataAddress {
        DataAddress::of(self.address.get())
    }

    /// The inode that owns the node.
    pub fn ino(&self) -> NodeId {
        NodeId(self.ino.get())
    }

    /// Whether the nid is free.
    pub fn is_free(&self) -> bool {
        self.address() == DataAddress::Hole
    }
}

const _: () = assert!(size_of::<NatEntry>() == 9 && 4096 / size_of::<NatEntry>() == 455);
