//! How much bytes look like JFFS2, and in which order its numbers are.

use std::collections::BTreeMap;

use nandkit_flash::{Flash, FlashError, PageRead};
use nandkit_units::{BlockIndex, Context, Nanos};

use crate::layout::{ByteOrder, HEADER_SIZE, Header, HeaderFault, SUMMARY_MAGIC, node_type};
use crate::medium::Medium;
use crate::scan::walk::{Fault, Stretch, Walk};
use crate::volume::MOUNT;

/// Blocks that do not begin with a node are looked through only so many at the most.
const DEEP: usize = 16;

/// The order of bytes in the first node that is found; `None` where there is none.
pub(crate) fn order<F: Flash>(medium: &Medium<F>) -> Result<Option<ByteOrder>, FlashError> {
    let shape = medium.shape();
    let mut strange = Vec::new();
    for number in 0..shape.blocks {
        let block = BlockIndex(number);
        if medium.is_bad(block) {
            continue;
        }
        let mut first = [0; HEADER_SIZE as usize];
        let _ = medium.read(shape.address(block, 0), &mut first, MOUNT)?;
        match ByteOrder::ALL.into_iter().find(|order| begins_with_node(*order, &first)) {
            Some(order) => return Ok(Some(order)),
            None if first != [0xFF; HEADER_SIZE as usize] => strange.push(block),
            None => {}
        }
    }
    for block in strange.into_iter().take(DEEP) {
        let mut bytes = vec![0; shape.erase_size as usize];
        let _ = medium.read(shape.address(block, 0), &mut bytes, MOUNT)?;
        let count = |order| Walk::new(order, &bytes).filter(|found| matches!(found, Stretch::Node { .. })).count();
        let (little, big) = (count(ByteOrder::Little), count(ByteOrder::Big));
        if little != big {
            return Ok(Some(if little > big { ByteOrder::Little } else { ByteOrder::Big }));
        }
    }
    Ok(None)
}

fn begins_with_node(order: ByteOrder, bytes: &[u8]) -> bool {
    Header::decode(order, bytes).is_some_and(|header| header.check(order).is_ok())
}

/// What speaks for JFFS2 on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The order of bytes.
    pub order: ByteOrder,
    /// Nodes in the sample whose headers are whole.
    pub nodes_ok: u32,
    /// Places in the sample that begin like a node, and are none.
    pub nodes_bad: u32,
    /// Cleanmarkers in the sample.
    pub cleanmarkers: u32,
    /// Erase sizes that the sample speaks for, in bytes, with how often it does: offsets of cleanmarkers, and what summaries say of their place.
    pub erase_sizes: Vec<(u32, u32)>,
    /// How much all this weighs: 0 to 100.
    pub points: u32,
    /// The same in words.
    pub why: Vec<String>,
}

/// Blocks that a probe looks at.
const SAMPLE: u32 = 16;

/// Looks at blocks all over a device, and tells what speaks for JFFS2; `None` where nothing does. What cannot be read is left out. Cost: at most 16 blocks are read.
pub fn probe(flash: &dyn Flash) -> Option<Evidence> {
    let geometry = *flash.geometry();
    let size = usize::try_from(geometry.block_size()).ok().filter(|size| *size > 0)?;
    let step = (geometry.blocks / SAMPLE).max(1);
    let blocks: Vec<Vec<u8>> = (0..geometry.blocks)
        .step_by(step as usize)
        .take(SAMPLE as usize)
        .filter(|block| !flash.is_bad(BlockIndex(*block)))
        .map(|block| read_block(flash, BlockIndex(block), size))
        .collect();
    ByteOrder::ALL
        .into_iter()
        .map(|order| weigh(order, &blocks))
        .max_by_key(|found| (found.points, found.nodes_ok))
        .filter(|found| found.points > 0)
}

fn read_block(flash: &dyn Flash, block: BlockIndex, size: usize) -> Vec<u8> {
    let mut bytes = vec![0xFF; size];
    let page = flash.geometry().page_size.max(1) as usize;
    for (number, piece) in (0..).zip(bytes.chunks_mut(page)) {
        let context = Context::at(Nanos::ZERO).for_cause(MOUNT);
        let _ = flash.read(&context, block.page(number), PageRead::bytes(0, piece));
    }
    bytes
}

fn weigh(order: ByteOrder, blocks: &[Vec<u8>]) -> Evidence {
    let mut found = Evidence { order, ..Evidence::default() };
    let (mut first, mut written) = (0, 0);
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    for bytes in blocks {
        let (mut begins, mut blank) = (false, true);
        let mut markers = Vec::new();
        for stretch in Walk::new(order, bytes) {
            match stretch {
                Stretch::Node { start, header, .. } => {
                    found.nodes_ok += 1;
                    begins |= start == 0;
                    if header.node_type == node_type::CLEANMARKER {
                        markers.push(start);
                    }
                    if header.node_type == node_type::SUMMARY
                        && let Some(size) = summary_size(order, bytes, start, &header)
                    {
                        *sizes.entry(size).or_default() += 1;
                    }
                }
                Stretch::Junk { fault: Fault::Header(HeaderFault::Crc) | Fault::TooLong(_), .. } => {
                    found.nodes_bad += 1
                }
                Stretch::Blank { .. } => continue,
                _ => {}
            }
            blank = false;
        }
        for pair in markers.windows(2) {
            if let [a, b] = pair {
                *sizes.entry(b - a).or_default() += 1;
            }
        }
        found.cleanmarkers += markers.len() as u32;
        (first, written) = (first + u32::from(begins), written + u32::from(!blank));
    }
    found.erase_sizes = sizes.into_iter().collect();
    found.erase_sizes.sort_by_key(|(size, count)| (u32::MAX - count, *size));
    if found.nodes_ok == 0 {
        return found;
    }
    // A header's checksum fits by chance once in four thousand million: three whole nodes leave no doubt. What is left is how much of the device is so.
    let whole = found.nodes_ok * 100 / (found.nodes_ok + found.nodes_bad);
    let begin = first * 100 / written.max(1);
    found.points = (40 * found.nodes_ok.min(3) / 3 + whole * 30 / 100 + begin * 30 / 100).min(100);
    found.why.push(format!(
        "{} nodes with whole headers, {}, in {} blocks of a sample of {}",
        found.nodes_ok,
        order.name(),
        written,
        blocks.len()
    ));
    found.why.push(format!("{first} of {written} blocks that are not blank begin with a node"));
    if found.nodes_bad > 0 {
        found.why.push(format!("{} places begin like a node, and are none", found.nodes_bad));
    }
    if let Some((size, count)) = found.erase_sizes.first() {
        found.why.push(format!("cleanmarkers and summaries speak for erase blocks of {size} bytes ({count} times)"));
    }
    found
}

/// The erase size that a summary speaks for: the marker at its end tells its place in its block.
fn summary_size(order: ByteOrder, bytes: &[u8], start: u32, header: &Header) -> Option<u32> {
    let end = start.checked_add(header.total_length)? as usize;
    let marker = bytes.get(end.checked_sub(8)?..end)?;
    let [o0, o1, o2, o3, m0, m1, m2, m3] = *marker.first_chunk::<8>()?;
    let size = order.u32([o0, o1, o2, o3]).checked_add(header.total_length)?;
    (order.u32([m0, m1, m2, m3]) == SUMMARY_MAGIC && size >= 4096).then_some(size)
}
