//! Detecting JFFS2 on flash, and its layout.
//!
//! [`probe`] surveys a dump node by node, and judges the erase sizes that fit. [`is_on_chip`] is
//! for chips, [`begins_with_node`] for the first bytes of anything.

mod chip;
mod erase_size;
mod likeness;
mod orders;
mod survey;
mod volumes;
mod writer;

pub use chip::is_on_chip;
pub use likeness::{Assumptions, Probe, probe, probe_parts};
pub use orders::{MixedOrders, mixed_orders};
pub use volumes::{VolumeExtent, volumes};
pub use writer::WriterHabits;

use nandkit_flash::Look;
use nandkit_units::BlockIndex;

use crate::Ino;
use crate::layout::{ByteOrder, DIRENT_SIZE, Dirent, HEADER_SIZE, Header, Inode, OLD_MAGIC, node_type};
use crate::scan::full::is_unknown;

/// The smallest erase size that JFFS2 supports (fs/jffs2/fs.c).
pub const ERASE_SIZE_MIN: u32 = 4 << 10;
/// Longest node if no block or page limits it: the largest attribute, with a margin.
const NODE_MAX: u32 = 128 << 10;

/// Whether the first block that begins with a node has JFFS2's magic number of before 2001, which
/// Linux knows but does not mount (include/uapi/linux/jffs2.h, `JFFS2_OLD_MAGIC_BITMASK`). Firmware
/// images with it use the later format's nodes (onekey-sec/jefferson, pull request 2).
pub fn has_old_magic(device: &dyn Look) -> bool {
    let mut first = [0; HEADER_SIZE as usize];
    let mut blocks = (0..device.geometry().blocks).map(BlockIndex).filter(|block| !device.is_bad(*block));
    let found = blocks.find_map(|block| {
        device.look_at(u64::from(block.0) * device.geometry().block_size(), &mut first);
        ByteOrder::ALL.into_iter().find_map(|order| node(order, &first))
    });
    found.is_some_and(|header| header.magic == OLD_MAGIC)
}

/// Whether bytes begin with a node in either byte order.
pub fn begins_with_node(bytes: &[u8]) -> bool {
    ByteOrder::ALL.into_iter().any(|order| node(order, bytes).is_some())
}

/// The byte order of a node of a known type at the beginning of some bytes, which is enough to
/// identify JFFS2.
pub fn signature(bytes: &[u8]) -> Option<ByteOrder> {
    // Check this first: most sectors of a dump are something else.
    let order = match bytes {
        [0x84 | 0x85, 0x19, ..] => ByteOrder::Little,
        [0x19, 0x84 | 0x85, ..] => ByteOrder::Big,
        _ => return None,
    };
    let header = Header::decode(order, bytes)?;
    let right = !is_unknown(header.node_type) && header.header_crc == crate::layout::crc(bytes.get(..8)?);
    right.then_some(order)
}

/// A node in either byte order with a valid header and a plausible length.
pub fn any_node(bytes: &[u8]) -> Option<(ByteOrder, Header)> {
    if !matches!(bytes, [0x84 | 0x85, 0x19, ..] | [0x19, 0x84 | 0x85, ..]) {
        return None;
    }
    ByteOrder::ALL.into_iter().find_map(|order| {
        let header = node(order, bytes)?;
        let bounded = matches!(header.node_type, node_type::SUMMARY | node_type::PADDING);
        (header.total_length <= if bounded { 1 << 26 } else { NODE_MAX }).then_some((order, header))
    })
}

/// A node of a block examined separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenNode {
    /// An inode node: inode number and version.
    Inode(Ino, u32),
    /// A directory entry: directory, name, and inode (0 for a deletion).
    Name(Ino, Vec<u8>, Ino),
    /// Any other node.
    Other,
}

/// The nodes with valid headers that end inside an erase block.
pub fn nodes_of(block: &[u8]) -> Vec<SeenNode> {
    let (mut at, mut nodes) = (0, Vec::new());
    while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
        let found = any_node(rest).and_then(|(order, header)| {
            let node = rest.get(..header.total_length as usize)?;
            Some((order, header.node_type, node))
        });
        match found {
            Some((order, node_type, node)) => {
                nodes.push(seen_node(order, node_type, node));
                at += node.len().next_multiple_of(4).max(4);
            }
            None => at += 4,
        }
    }
    nodes
}

fn seen_node(order: ByteOrder, node_type: u16, node: &[u8]) -> SeenNode {
    let seen = match node_type {
        node_type::INODE => Inode::decode(order, node).map(|found| SeenNode::Inode(found.inode, found.version)),
        node_type::DIRENT => Dirent::decode(order, node).and_then(|found| {
            let start = DIRENT_SIZE as usize;
            let name = node.get(start..start + usize::from(found.name_length))?;
            Some(SeenNode::Name(found.parent, name.to_vec(), found.inode))
        }),
        _ => None,
    };
    seen.unwrap_or(SeenNode::Other)
}

/// Whether bytes contain an OOB cleanmarker, as on NAND, in either byte order.
pub fn holds_oob_marker(bytes: &[u8]) -> bool {
    first_oob_marker(bytes).is_some()
}

/// Offset of the first OOB cleanmarker, as on NAND, in either byte order.
pub fn first_oob_marker(bytes: &[u8]) -> Option<usize> {
    let markers = ByteOrder::ALL.map(crate::medium::oob_cleanmarker);
    // Check the magic number first: it excludes most positions.
    let begins = |window: &[u8]| matches!(window, [0x85, 0x19, ..] | [0x19, 0x85, ..]);
    let is_marker = |window: &[u8]| begins(window) && markers.iter().any(|marker| window == marker);
    bytes.windows(crate::medium::OOB_CLEANMARKER_SIZE).position(is_marker)
}

/// A node in this byte order with a valid header.
fn node(order: ByteOrder, bytes: &[u8]) -> Option<Header> {
    Header::decode(order, bytes).filter(|header| header.check(order).is_ok())
}

/// Distance from a node to the next one, in bytes.
fn stored_length(header: &Header) -> u64 {
    u64::from(header.total_length.max(HEADER_SIZE)).next_multiple_of(4)
}
