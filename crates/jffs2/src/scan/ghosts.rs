//! Nodes whose checksums are right in pages that the device could not correct: they may read
//! otherwise next time.

use std::collections::BTreeSet;

use nandkit_units::BlockIndex;

use super::BlockScan;
use super::node::{What, Witness};
use super::walk::{Stretch, Walk};
use crate::damage::{Damage, DamageKind};
use crate::layout::{ByteOrder, node_type};
use crate::medium::Shape;

/// Makes ghosts of what must not count although it looks sound now, and marks the names that count
/// only where no other does.
///
/// * The last page of a block that was written to: it is what the power cut off, and what it was to
///   replace is still there.
/// * All such pages of a block that was erased in part: whatever counts of it was moved before.
///   Pages are programmed in order, so that a blank page in front of a written one, and in no node,
///   tells of such an erase.
///
/// `bytes` is the block, `damage` what its reading met with.
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

/// Whether a page in front of the last written one is blank, and no part of a node: sound ones, and
/// what has a sound header and holds blank pages by right, which are summaries (kernels before
/// 2.6.19 left some in front of them, too), padding, and nodes that are marked obsolete.
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

    /// Of a block with nodes at these pages, of one page each but for the last field, the page
    /// where it ends: which are ghosts, where these pages are blank, and these spoilt.
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
        // A blank page that is the content of a file, or behind the last one, says nothing.
        assert!(ghosts(&[(0, 3), (3, 4), (4, 5)], &[1], &[3]).is_empty());
        assert!(ghosts(&nodes, &[], &[0, 3]).is_empty());
    }
}
