//! All nodes of a LEB in order.

use nandkit_vfs::Result;

use crate::layout::{ALIGNMENT, HEADER_SIZE, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Node};

/// Bytes of a padding node, whose body is the number of bytes to skip behind it.
const PADDING_SIZE: usize = 28;

/// The valid nodes of a LEB from `from` on, with their offsets, up to the first bytes that are
/// none. Padding is skipped.
pub(crate) fn nodes_of<L: Lebs>(lebs: &L, leb: u32, from: u32) -> Result<Vec<(u32, Node)>> {
    let mut bytes = vec![0; lebs.leb_size() as usize];
    lebs.read(leb, 0, &mut bytes)?;
    let (mut nodes, mut at) = (Vec::new(), from as usize);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_SIZE) {
        if let Some((header, node)) = node::verified(rest) {
            let padding = node.get(HEADER_SIZE..PADDING_SIZE).and_then(|size| size.first_chunk());
            let skipped = match (header.node_type, padding) {
                (node_type::PADDING, Some(size)) => u32::from_le_bytes(*size) as usize,
                _ => 0,
            };
            let length = node.len();
            if header.node_type != node_type::PADDING
                && let Some(node) = node::decode(node.to_vec())
            {
                nodes.push((at as u32, node));
            }
            at = at.saturating_add(length).saturating_add(skipped).next_multiple_of(ALIGNMENT as usize);
        } else if is_padding_byte(rest) {
            at += ALIGNMENT as usize;
        } else {
            break;
        }
    }
    Ok(nodes)
}

/// Whether eight bytes of padding stand here: space too small for a padding node
/// (`UBIFS_PADDING_BYTE`).
fn is_padding_byte(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xCE; ALIGNMENT as usize])
}
