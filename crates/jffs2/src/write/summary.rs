//! The summary of an open block, collected node by node in the form on flash.

use crate::layout::{
    ByteOrder, Dirent, Header, INODE_SIZE, Inode, SUMMARY_MAGIC, SUMMARY_MARKER_SIZE, SUMMARY_SIZE, Summary, Xattr,
    covered, crc, node_type, padded,
};

/// Size of an inode's entry in bytes: type, inode, version, offset in the block, length of the
/// node.
pub(crate) const INODE_ENTRY: u32 = 18;
/// Size of a directory entry's entry in bytes, without its name: type, length, offset, directory,
/// version, inode, length of the name, kind.
pub(crate) const DIRENT_ENTRY: u32 = 24;
/// Size of an extended attribute's entry in bytes: type, number, version, offset, length.
pub(crate) const XATTR_ENTRY: u32 = 18;
/// Size of a reference's entry in bytes: type, offset.
pub(crate) const XREF_ENTRY: u32 = 6;
/// Size of a summary without entries, in bytes.
pub(crate) const FRAME: u32 = SUMMARY_SIZE + SUMMARY_MARKER_SIZE;
/// Most bytes of a written summary (fs/jffs2/summary.h, `MAX_SUMMARY_SIZE`).
const LONGEST: u32 = 65_536;

/// The nodes of an open block.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    entries: Vec<u8>,
    count: u32,
    /// Whether the block will end without a summary; nothing is collected then.
    disabled: bool,
}

impl Collector {
    /// A collector for a new block.
    pub(crate) fn new(enabled: bool) -> Self {
        Self { disabled: !enabled, ..Self::default() }
    }

    pub(crate) const fn is_disabled(&self) -> bool {
        self.disabled
    }

    pub(crate) fn disable(&mut self) {
        *self = Self::new(false);
    }

    /// Size of the entries so far, in bytes.
    pub(crate) fn size(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Adds a node written at `offset` of the block. A node type that summaries do not support
    /// disables the summary.
    pub(crate) fn add(&mut self, order: ByteOrder, node: &[u8], offset: u32) {
        if self.disabled {
            return;
        }
        let known = Header::decode(order, node).and_then(|header| self.entry(order, &header, node, offset));
        match known {
            Some(()) => self.count += 1,
            None => self.disable(),
        }
    }

    fn entry(&mut self, order: ByteOrder, header: &Header, node: &[u8], offset: u32) -> Option<()> {
        let mut words = |kind: u16, words: &[u32]| {
            self.entries.extend_from_slice(&order.bytes16(kind));
            words.iter().for_each(|word| self.entries.extend_from_slice(&order.bytes32(*word)));
        };
        let length = header.total_length;
        match header.node_type {
            node_type::INODE => {
                let inode = Inode::decode(order, node)?;
                words(header.node_type, &[inode.inode.0, inode.version, offset, length]);
            }
            node_type::DIRENT => {
                let dirent = Dirent::decode(order, node)?;
                let name = node.get(crate::layout::DIRENT_SIZE as usize..)?.get(..usize::from(dirent.name_length))?;
                words(header.node_type, &[length, offset, dirent.parent.0, dirent.version, dirent.inode.0]);
                self.entries.extend_from_slice(&[dirent.name_length, dirent.kind]);
                self.entries.extend_from_slice(name);
            }
            node_type::XATTR => {
                let xattr = Xattr::decode(order, node)?;
                words(header.node_type, &[xattr.id, xattr.version, offset, length]);
            }
            node_type::XREF => words(header.node_type, &[offset]),
            _ => return None,
        }
        Some(())
    }

    /// The summary node for the last `room` bytes of a block, starting at `offset`; `None` if there
    /// is not enough room, or nothing to list.
    pub(crate) fn node(&self, order: ByteOrder, cleanmarker: u32, offset: u32, room: u32) -> Option<Vec<u8>> {
        let padding = room.checked_sub(self.size() + FRAME)?;
        let data = room - SUMMARY_SIZE;
        if self.disabled || self.count == 0 || padding + data > LONGEST {
            return None;
        }
        let mut node = vec![0; SUMMARY_SIZE as usize];
        node.extend_from_slice(&self.entries);
        node.resize((room - SUMMARY_MARKER_SIZE) as usize, 0xFF);
        node.extend_from_slice(&order.bytes32(offset));
        node.extend_from_slice(&order.bytes32(SUMMARY_MAGIC));
        let header = Header::new(order, node_type::SUMMARY, room);
        let mut summary = Summary {
            magic: header.magic,
            node_type: header.node_type,
            total_length: header.total_length,
            header_crc: header.header_crc,
            entries: self.count,
            cleanmarker,
            // Only counted by a mount (fs/jffs2/summary.c): readers detect padding as gaps between
            // entries.
            padded: 0,
            summary_crc: crc(node.get(SUMMARY_SIZE as usize..)?),
            node_crc: 0,
        };
        summary.node_crc = crc(summary.encode(order).get(..covered::SUMMARY)?);
        node.get_mut(..SUMMARY_SIZE as usize)?.copy_from_slice(&summary.encode(order));
        Some(node)
    }
}

/// An upper bound for the summary entry of a node that is not available: its own length (as in
/// fs/jffs2/gc.c).
pub(crate) const fn bound(length: u32) -> u32 {
    length
}

const _: () = assert!(padded(INODE_SIZE) == INODE_SIZE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ino;
    use crate::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node, xref_node};

    #[test]
    fn a_summary_fills_the_block_to_its_end() {
        for order in ByteOrder::ALL {
            let mut collector = Collector::new(true);
            let mut node = Vec::new();
            inode_node(
                order,
                &InodeFields { inode: Ino(3), version: 9, ..InodeFields::default() },
                &Piece::NOTHING,
                &mut node,
            );
            collector.add(order, &node, 0);
            node.clear();
            dirent_node(
                order,
                &DirentFields { parent: Ino(1), version: 2, inode: Ino(3), made: 0, kind: 8 },
                b"abc",
                &mut node,
            );
            collector.add(order, &node, 68);
            node.clear();
            xref_node(order, Ino(3), 1, 2, &mut node);
            collector.add(order, &node, 112);
            assert_eq!(collector.size(), INODE_ENTRY + DIRENT_ENTRY + 3 + XREF_ENTRY);
            assert_eq!(collector.node(order, 0, 4000, collector.size() + FRAME - 1), None);
            let node = collector.node(order, 0, 3996, 100).unwrap();
            assert_eq!((node.len(), order.u32([node[92], node[93], node[94], node[95]])), (100, 3996));
            let summary = Summary::decode(order, &node).unwrap();
            assert_eq!((summary.entries, summary.total_length), (3, 100));
            assert_eq!((summary.summary_crc, summary.node_crc), (crc(&node[32..]), crc(&node[..24])));
            collector.add(order, &Header::new(order, 0x6FFF, 12).encode(order), 140);
            assert!(collector.is_disabled());
        }
    }
}
