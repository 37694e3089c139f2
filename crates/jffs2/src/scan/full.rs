//! Scanning a block node by node.

use nandkit_units::BlockIndex;

use super::node::{self, What};
use super::walk::{Stretch, Walk};
use super::{BlockScan, Condition, ScannedRange, damage_of};
use crate::damage::{Damage, DamageKind};
use crate::layout::{ByteOrder, Compatibility, HEADER_SIZE, node_type};
use crate::medium::{Cleanmarker, Shape};
use nandkit_vfs::check::Kind as _;

/// Scans a whole block.
pub(crate) fn block(order: ByteOrder, shape: &Shape, block: BlockIndex, bytes: &[u8]) -> BlockScan {
    let mut scan = BlockScan::of(Condition::Written);
    let size = shape.erase_size;
    for stretch in Walk::new(order, shape.magic, bytes) {
        let (start, end, what) = match stretch {
            Stretch::Blank { end, .. } if end == size => break,
            Stretch::Node { start, end, header } => {
                let first = scan.found.is_empty();
                let node = bytes.get(start as usize..end as usize).unwrap_or(&[]);
                scan.is_marked |= header.is_obsolete();
                let forbids = !header.is_obsolete() && is_unknown(header.node_type);
                let compatibility = Compatibility::of(header.node_type);
                if forbids && matches!(compatibility, Compatibility::Incompatible | Compatibility::ReadOnly) {
                    let worse = compatibility == Compatibility::Incompatible;
                    if worse || scan.forbids.is_none() {
                        scan.forbids = Some((start, header.node_type));
                    }
                }
                match node::examine(order, node, &header, first, shape.cleanmarker.size()) {
                    Ok(what) => (start, end, what),
                    Err(bad) => {
                        scan.damage.push(damage_of(shape.address(block, start).0, block, bad));
                        (start, end, What::Obsolete)
                    }
                }
            }
            other => {
                let (start, end) = bounds(&other);
                if let Some(found) = neither(order, shape, block, bytes, &other) {
                    scan.damage.push(found);
                }
                (start, end, What::Obsolete)
            }
        };
        push(&mut scan.found, start, end, what);
    }
    mark_torn(order, shape, (block, bytes), &mut scan);
    scan
}

const fn bounds(stretch: &Stretch) -> (u32, u32) {
    match stretch {
        Stretch::Node { start, end, .. }
        | Stretch::Blank { start, end }
        | Stretch::Zeroes { start, end }
        | Stretch::Junk { start, end, .. } => (*start, *end),
    }
}

/// Whether a node type is unknown.
pub(crate) const fn is_unknown(node: u16) -> bool {
    !matches!(
        node,
        node_type::DIRENT
            | node_type::INODE
            | node_type::CLEANMARKER
            | node_type::PADDING
            | node_type::SUMMARY
            | node_type::XATTR
            | node_type::XREF
    )
}

/// The damage of a stretch that is not a node but is followed by something, if there is damage.
pub(crate) fn neither(
    order: ByteOrder,
    shape: &Shape,
    block: BlockIndex,
    bytes: &[u8],
    stretch: &Stretch,
) -> Option<Damage> {
    let (start, end) = bounds(stretch);
    let rest = bytes.get(start as usize..).unwrap_or(&[]);
    let (mut kind, mut inode) = (DamageKind::Header, None);
    let detail = match stretch {
        Stretch::Node { .. } => return None,
        // Padding of a page that had to be written (fs/jffs2/wbuf.c).
        Stretch::Zeroes { .. } if fills_page(shape, start, end) => return None,
        Stretch::Zeroes { .. } => format!("{} bytes of zeroes where a node should begin", end - start),
        Stretch::Blank { .. } if start > 0 && fills_page(shape, start, end) => return None,
        Stretch::Blank { .. } if ends_block(bytes, end) => return None,
        Stretch::Blank { .. } => format!("{} blank bytes with nodes behind them", end - start),
        Stretch::Junk { fault, .. } => {
            inode = node::owner_behind_damage(order, rest);
            let magic = rest.first_chunk().map(|magic| order.u16(*magic));
            let seems = if magic == Some(shape.magic) { ", although it seems to be a node" } else { "" };
            format!("{} bytes are no node{seems}: {fault}", end - start)
        }
    };
    if start == 0 && shape.cleanmarker == Cleanmarker::Inline && (HEADER_SIZE..HEADER_SIZE + 4).contains(&end) {
        kind = DamageKind::Cleanmarker;
    }
    Some(Damage { at: shape.address(block, start), block, kind, inode, detail })
}

/// Whether a stretch is the rest of a page after its last node, too short for a padding node.
const fn fills_page(shape: &Shape, start: u32, end: u32) -> bool {
    shape.page_size > 1 && end.is_multiple_of(shape.page_size) && end - start < shape.page_size && start > 0
}

/// Blank bytes in front of a summary, which kernels before 2.6.19 left.
fn ends_block(bytes: &[u8], end: u32) -> bool {
    bytes.len() as u32 - end < HEADER_SIZE
}

fn push(found: &mut Vec<ScannedRange>, start: u32, end: u32, what: What) {
    if what == What::Obsolete
        && let Some(last) = found.last_mut().filter(|last| last.what == What::Obsolete)
    {
        last.length = end - last.offset;
        return;
    }
    found.push(ScannedRange { offset: start, length: end - start, what });
}

/// Marks damage in the last write before free flash as torn by a power cut.
fn mark_torn(order: ByteOrder, shape: &Shape, (block, bytes): (BlockIndex, &[u8]), scan: &mut BlockScan) {
    let end = scan.found.last().map_or(0, |found| found.offset + found.length);
    let is_free = end < shape.erase_size;
    let last =
        scan.found.last().filter(|found| found.what == What::Obsolete).map(|found| shape.address(block, found.offset));
    let (Some(last), true) = (last, is_free) else { return };
    let can_be = |damage: &Damage| {
        let node = bytes.get(damage.at.offset(shape.erase_size) as usize..).unwrap_or(&[]);
        damage.at >= last && damage.kind != DamageKind::Cleanmarker && !node::was_written_so(order, node)
    };
    if let Some(damage) = scan.damage.last_mut().filter(|damage| can_be(damage)) {
        damage.detail = format!("the last write in the block: {}: {}", damage.kind.name(), damage.detail);
        damage.kind = DamageKind::Torn;
    }
}
