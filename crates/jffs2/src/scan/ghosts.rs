//! Ghosts: nodes with valid checksums in uncorrectable pages, which may read differently next time.

use std::collections::BTreeSet;

use nandkit_units::BlockIndex;

use super::BlockScan;
use super::node::{What, Witness};
use super::walk::{Stretch, Walk};
use crate::damage::{Damage, DamageKind};
use crate::layout::{ByteOrder, node_type};
use crate::medium::Shape;

/// Makes ghosts of nodes that must not count although they look valid now, and marks the names that
/// count only if no other does. These are:
///
/// * the last written page of a block: a power cut interrupted it, and the content that it was to
///   replace still exists;
/// * all such pages of a partly erased block: everything valid in it was moved before. Pages are
///   programmed in order, so a blank page before a written one that is part of no node shows such
///   an erase.
///   tells of such an erase.
///
/// `bytes` is the block, `damage` the problems met in reading it.
pub(crate) fn lay(
    order: ByteOrder,
    shape: &Shape,
    block: BlockIndex,
    bytes: &[u8],
    scan: &mut BlockScan,
    damage: &[Damage],
) {
    let page = shape.read_size.max(1);
    let of_block = damage.iter().filter(|damage| damage.kind == DamageKind::Uncorrectable && damage.block == block);
    let spoilt: BTreeSet<u32> = of_block.map(|damage| damage.at.offset(shape.erase_size) / page).collect();
    if spoilt.is_empty() {
        return;
    }
    let has_pages = shape.page_size > 1;
    let last = bytes.iter().rposition(|byte| *byte != 0xFF).unwrap_or(0) as u32 / page;
    let is_torn = has_pages && spoilt.contains(&last);
    let is_erased = has_pages && is_erased_in_part(order, shape, last, bytes, scan);
    for found in &mut scan.found {
        let pages = found.offset / page..=(found.offset + found.length.max(1) - 1) / page;
        if is_torn && *pages.end() >= last || is_erased && spoilt.range(pages.clone()).next().is_some() {
            match std::mem::replace(&mut found.what, What::Obsolete) {
                What::Obsolete => {}
                sound => found.what = What::Ghost(Box::new(sound)),
            }
        } else if let What::Dirent(name) = &mut found.what
            && spoilt.range(pages).next().is_some()
        {
            name.witness = Witness::Uncorrectable;
        }
    }
}

/// Whether a page before the last written one is blank and part of no node. Valid nodes count, and
/// also nodes with a valid header that may contain blank pages: summaries (kernels before 2.6.19
/// left some in front of them too), padding, and nodes marked obsolete.
fn is_erased_in_part(order: ByteOrder, shape: &Shape, last: u32, bytes: &[u8], scan: &BlockScan) -> bool {
    let page = shape.read_size.max(1);
    let mut spans: Vec<(u32, u32)> = Vec::new();
    let sound = scan.found.iter().filter(|found| found.what != What::Obsolete);
    spans.extend(sound.map(|found| (found.offset, found.offset + found.length)));
    let mut blank_from = None;
    for stretch in Walk::new(order, shape.magic, bytes) {
        if let Stretch::Node { start, end, header } = &stretch {
            let is_summary = header.node_type == node_type::SUMMARY;
            if is_summary || header.node_type == node_type::PADDING || header.is_obsolete() {
                spans.push((blank_from.filter(|_| is_summary).unwrap_or(*start), *end));
            }
        }
        blank_from = if let Stretch::Blank { start, .. } = stretch { Some(start) } else { None };
    }
    let mut held = vec![false; last as usize];
    for (start, end) in spans {
        let pages = (start / page) as usize..(end.div_ceil(page) as usize).min(held.len());
        if let Some(held) = held.get_mut(pages) {
            held.fill(true);
        }
    }
    bytes.chunks(page as usize).zip(held).any(|(bytes, held)| !held && nandkit_units::is_erased(bytes))
}

#[cfg(test)]
mod tests {
    use nandkit_units::FlashGeometry;

    use super::*;
    use crate::Ino;
    use crate::NodeAddress;
    use crate::scan::{Condition, ScannedRange};

    const PAGE: u32 = 512;

    /// The ghosts in a block with nodes at these pages, given as first page and end, with these
    /// blank and these uncorrectable pages.
    fn ghosts(nodes: &[(u32, u32)], blank: &[u32], spoilt: &[u32]) -> Vec<u32> {
        let shape = Shape::of(&FlashGeometry::nand(PAGE, 16, 8, 4)).unwrap();
        let block = BlockIndex(1);
        let mut bytes = vec![0; shape.erase_size as usize];
        let end = nodes.last().unwrap().1 * PAGE;
        bytes[end as usize..].fill(0xFF);
        for page in blank {
            bytes[(page * PAGE) as usize..][..PAGE as usize].fill(0xFF);
        }
        let mut scan = BlockScan::of(Condition::Written);
        let mut before = 0;
        for (from, to) in nodes {
            if *from > before {
                let length = (from - before) * PAGE;
                scan.found.push(ScannedRange { offset: before * PAGE, length, what: What::Obsolete });
            }
            let what = What::Inode { inode: Ino(9), version: *from };
            scan.found.push(ScannedRange { offset: from * PAGE, length: (to - from) * PAGE, what });
            before = *to;
        }
        let damage: Vec<Damage> = spoilt
            .iter()
            .map(|page| super::super::uncorrectable(block, NodeAddress(shape.erase_size + page * PAGE)))
            .collect();
        lay(ByteOrder::Little, &shape, block, &bytes, &mut scan, &damage);
        let of = |found: &ScannedRange| match &found.what {
            What::Ghost(ghost) => match **ghost {
                What::Inode { version, .. } => Some(version),
                _ => Some(u32::MAX),
            },
            _ => None,
        };
        scan.found.iter().filter_map(of).collect()
    }

    #[test]
    fn the_last_page_does_not_count_where_it_is_spoilt() {
        let nodes = [(0, 1), (1, 2), (2, 3)];
        assert_eq!(ghosts(&nodes, &[], &[2]), [2]);
        assert_eq!(ghosts(&[(0, 1), (1, 3)], &[], &[2]), [1]);
        assert!(ghosts(&nodes, &[], &[0, 1]).is_empty());
    }

    #[test]
    fn no_spoilt_page_counts_in_a_block_that_was_erased_in_part() {
        let nodes = [(0, 1), (2, 3), (3, 4), (5, 6)];
        assert_eq!(ghosts(&nodes, &[1], &[0, 3]), [0, 3]);
        assert_eq!(ghosts(&nodes, &[4], &[2]), [2]);
        // A blank page that is a file's content, or comes after the last one, proves nothing.
        assert!(ghosts(&[(0, 3), (3, 4), (4, 5)], &[1], &[3]).is_empty());
        assert!(ghosts(&nodes, &[], &[0, 3]).is_empty());
    }
}
