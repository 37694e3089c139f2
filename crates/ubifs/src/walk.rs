//! All nodes of a LEB in order.

use nandkit_vfs::Result;
use zerocopy::FromBytes;

use crate::layout::{ALIGNMENT, HEADER_SIZE, Header, MAGIC, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Node};

/// Bytes of a padding node, whose body is the number of bytes to skip behind it.
const PADDING_SIZE: usize = 28;

/// Where a power cut can end a write on flash without pages: Linux writes that much at once at
/// most.
const WRITE_MAX: u32 = 1024;

/// What stands in a LEB behind its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing.
    Erased,
    /// A write that a power cut ended, at this offset.
    Torn(u32),
    /// Other bytes, from this offset on.
    Damaged(u32),
}

/// The nodes of a LEB.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The valid nodes with their offsets, up to the first bytes that are none.
    pub list: Vec<(u32, Node)>,
    bytes: Vec<u8>,
    end: usize,
}

impl Nodes {
    /// Where the nodes end.
    pub fn end(&self) -> u32 {
        self.end as u32
    }

    /// The bytes of the LEB.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What stands behind the nodes, on flash that is written in units of `min_io_size`.
    pub fn rest(&self, min_io_size: u32) -> Rest {
        let is_erased = |from: usize| self.bytes.get(from..).unwrap_or_default().iter().all(|byte| *byte == 0xFF);
        if is_erased(self.end) {
            return Rest::Erased;
        }
        let unit = if min_io_size < 512 { WRITE_MAX } else { min_io_size } as usize;
        // A node over several pages may lack only its last ones.
        let header = Header::read_from_prefix(self.bytes.get(self.end..).unwrap_or_default()).ok();
        let length = header.filter(|(header, _)| header.magic.get() == MAGIC).map(|(header, _)| header.length.get());
        let length = length.filter(|length| *length as usize <= self.bytes.len() - self.end).unwrap_or(0);
        let ends = [HEADER_SIZE, length as usize].map(|length| self.end.saturating_add(length));
        let is_torn = ends.iter().any(|end| end.checked_next_multiple_of(unit).is_none_or(is_erased));
        let end = self.end as u32;
        if is_torn { Rest::Torn(end) } else { Rest::Damaged(end) }
    }
}

/// The nodes of a LEB from `from` on. Padding is skipped.
pub(crate) fn nodes_of(lebs: &dyn Lebs, leb: u32, from: u32) -> Result<Nodes> {
    let mut bytes = vec![0; lebs.leb_size() as usize];
    lebs.read(leb, 0, &mut bytes)?;
    let (mut list, mut at) = (Vec::new(), from as usize);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
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
                list.push((at as u32, node));
            }
            at = at.saturating_add(length).saturating_add(skipped).next_multiple_of(ALIGNMENT as usize);
        } else if is_padding_byte(rest) {
            at += ALIGNMENT as usize;
        } else {
            break;
        }
    }
    Ok(Nodes { list, bytes, end: at })
}

/// Whether eight bytes of padding stand here: space too small for a padding node
/// (`UBIFS_PADDING_BYTE`).
fn is_padding_byte(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xCE; ALIGNMENT as usize])
}
