//! Encodes nodes of addresses and nids, and the footers of all nodes (f2fs.md, "Nodes").

use zerocopy::IntoBytes;

use super::put;
use crate::ids::{BlockAddress, NodeId};
use crate::layout::node::{FOOTER_BYTES, Footer, NodeOffset, mark};

/// The fields of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterFields {
    /// The node's nid.
    pub nid: NodeId,
    /// The inode that owns it.
    pub ino: NodeId,
    /// Its position in the owner's tree.
    pub offset: NodeOffset,
    /// Bits of [`mark`].
    pub marks: u32,
    /// The last checkpoint before the write: its version and, with CRC_RECOVERY, its checksum in
    /// the upper half.
    pub checkpoint: u64,
    /// The address of the log's next node.
    pub next: BlockAddress,
}

impl FooterFields {
    /// The cold mark, for nodes that belong to no directory.
    pub const fn cold(is_directory: bool) -> u32 {
        if is_directory { 0 } else { mark::COLD }
    }
}

/// Writes the footer of a node's block. An inode's checksum covers it, so it is set afterwards.
pub fn put_footer(block: &mut [u8], fields: &FooterFields) {
    let footer = Footer {
        nid: fields.nid.0.into(),
        ino: fields.ino.0.into(),
        flags: Footer::flags_of(fields.offset, fields.marks).into(),
        checkpoint: fields.checkpoint.into(),
        next: fields.next.0.into(),
    };
    put(block, block.len().saturating_sub(FOOTER_BYTES), footer.as_bytes());
}

/// The offset of the direct node with number `index` among all that a file can have; `None` past
/// the last (node.c, `get_node_path`).
pub fn direct_offset(index: u64, per_node: u64) -> Option<NodeOffset> {
    let offset = match Direct::of(index, per_node)? {
        Direct::Inode(slot) => 1 + slot,
        Direct::Indirect { slot, index } => 4 + slot * (per_node + 1) + index,
        Direct::Double { slot, index } => 7 + 2 * per_node + slot * (per_node + 1) + index,
    };
    u32::try_from(offset).ok().map(NodeOffset)
}

/// Where the nid of a direct node is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// In the inode.
    Inode(u64),
    /// At an index of the inode's first or second indirect node.
    Indirect {
        /// Which of the two indirect nodes.
        slot: u64,
        /// The index in it.
        index: u64,
    },
    /// At an index of one of the indirect nodes below the double indirect node.
    Double {
        /// Which of these indirect nodes.
        slot: u64,
        /// The index in it.
        index: u64,
    },
}

impl Direct {
    /// The location for direct node number `index`; `None` past the last that a file can have.
    pub fn of(index: u64, per_node: u64) -> Option<Self> {
        if index < 2 {
            return Some(Self::Inode(index));
        }
        let (slot, inside) = ((index - 2) / per_node, (index - 2) % per_node);
        match slot {
            0 | 1 => Some(Self::Indirect { slot, index: inside }),
            slot if slot - 2 < per_node => Some(Self::Double { slot: slot - 2, index: inside }),
            _ => None,
        }
    }
}

/// The offset of an indirect node of the inode (`slot` 0 or 1).
pub const fn indirect_offset(slot: u64, per_node: u64) -> NodeOffset {
    NodeOffset((3 + slot * (per_node + 1)) as u32)
}

/// The offset of the double indirect node.
pub const fn double_offset(per_node: u64) -> NodeOffset {
    NodeOffset((5 + 2 * per_node) as u32)
}

/// The offset of an indirect node below the double indirect node.
pub const fn double_indirect_offset(slot: u64, per_node: u64) -> NodeOffset {
    NodeOffset((6 + 2 * per_node + slot * (per_node + 1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in f2fs.md, "Nodes".
    #[test]
    fn offsets_are_those_of_the_table() {
        let n = 1018;
        let offsets = |index| direct_offset(index, n).map(|offset| u64::from(offset.0));
        assert_eq!([0, 1, 2, 3].map(offsets), [1, 2, 4, 5].map(Some));
        assert_eq!(offsets(2 + n), Some(5 + n));
        assert_eq!(indirect_offset(0, n).0, 3);
        assert_eq!(u64::from(indirect_offset(1, n).0), 4 + n);
        assert_eq!(u64::from(double_offset(n).0), 5 + 2 * n);
        assert_eq!(u64::from(double_indirect_offset(1, n).0), 6 + 2 * n + (n + 1));
        assert_eq!(offsets(2 + 3 * n), Some(6 + 2 * n + (n + 1) + 1));
        assert_eq!(offsets(2 + 2 * n + n * n), None);
    }
}
