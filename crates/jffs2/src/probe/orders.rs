//! Detecting dumps with nodes of both byte orders, which are parts of different volumes.

use nandkit_flash::{Flash, PageRead};
use nandkit_units::{BlockIndex, Context, PageAddress};

use super::{begins_with_node, node, stored_length};
use crate::layout::{ByteOrder, HEADER_SIZE, Header};

/// Blocks searched completely for nodes of both byte orders.
const SAMPLED: u32 = 16;
/// Nodes of the other byte order that are no accident: damage may expose a few in a file's content.
const FOREIGN_MIN: u32 = 8;

/// How the two byte orders are mixed in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixedOrders {
    /// Number of blocks that begin with a node: little-endian and big-endian.
    pub blocks: [u32; 2],
    /// Byte offset of the first block of each order.
    pub first: [Option<u64>; 2],
    /// Blocks in use that were searched.
    pub sampled: u32,
    /// Nodes in these blocks with another order than the nodes before them.
    pub foreign: u32,
}

/// Looks for nodes of both byte orders; `None` if only one of them counts.
///
/// Cost: the first bytes of each block, and at most 16 whole blocks.
pub fn mixed_orders(device: &dyn Flash) -> Option<MixedOrders> {
    let sample = BlockSample::of(device);
    // The beginnings of blocks are cheap to check, and one block of another volume is enough.
    let (mut blocks, mut first) = ([0_u32; 2], [None; 2]);
    for block in (0..device.geometry().blocks).map(BlockIndex) {
        let mut bytes = [0xFF; HEADER_SIZE as usize];
        if device.is_bad(block) || read(device, block, 0, &mut bytes).is_none() {
            continue;
        }
        let Some(order) = ByteOrder::ALL.into_iter().position(|order| node(order, &bytes).is_some()) else {
            continue;
        };
        if let (Some(count), Some(place)) = (blocks.get_mut(order), first.get_mut(order)) {
            *count += 1;
            place.get_or_insert(u64::from(block.0) * device.geometry().block_size());
        }
    }
    let strange = sample.foreign >= FOREIGN_MIN || sample.foreign.saturating_mul(4) > sample.nodes;
    let is_mixed = !blocks.contains(&0) || strange;
    is_mixed.then_some(MixedOrders { blocks, first, sampled: sample.blocks, foreign: sample.foreign })
}

/// Statistics of sampled blocks.
#[derive(Default)]
struct BlockSample {
    /// Blocks that are not blank.
    blocks: u32,
    /// Nodes in the byte order of their block's first node.
    nodes: u32,
    /// Nodes of the other byte order.
    foreign: u32,
}

impl BlockSample {
    fn of(device: &dyn Flash) -> Self {
        let mut sample = Self::default();
        let blocks = u64::from(device.geometry().blocks);
        let count = u64::from(SAMPLED).min(blocks);
        for number in 0..count {
            sample.block(device, BlockIndex((number * blocks / count) as u32));
        }
        sample
    }

    fn block(&mut self, device: &dyn Flash, block: BlockIndex) {
        let mut bytes = vec![0xFF; HEADER_SIZE as usize];
        if device.is_bad(block) || read(device, block, 0, &mut bytes).is_none() || nandkit_units::is_erased(&bytes) {
            return;
        }
        self.blocks += 1;
        let Some(order) = ByteOrder::ALL.into_iter().find(|order| node(*order, &bytes).is_some()) else { return };
        bytes.resize(device.geometry().block_size() as usize, 0xFF);
        if read(device, block, 0, &mut bytes).is_some() {
            self.inside(order, &bytes);
        }
    }

    /// Examines a block node by node.
    fn inside(&mut self, order: ByteOrder, bytes: &[u8]) {
        let either = |bytes: &[u8]| ByteOrder::ALL.into_iter().find_map(|order| node(order, bytes));
        let past = |at: usize, header: &Header| at.saturating_add(stored_length(header) as usize);
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(header) = node(order, rest) {
                self.nodes += 1;
                at = past(at, &header);
            } else if let Some(header) = either(rest) {
                self.foreign += 1;
                at = past(at, &header);
            } else {
                let mut places = (at..bytes.len()).step_by(4).skip(1);
                at = places.find(|place| bytes.get(*place..).is_some_and(begins_with_node)).unwrap_or(bytes.len());
            }
        }
    }
}

/// Reads bytes of a block across its pages; `None` if they are unreadable.
fn read(device: &dyn Flash, block: BlockIndex, offset: u32, into: &mut [u8]) -> Option<()> {
    let page_size = device.geometry().page_size;
    let (mut at, mut rest) = (offset, into);
    while !rest.is_empty() {
        let (page, column) = (at.checked_div(page_size)?, at.checked_rem(page_size)?);
        let length = rest.len().min((page_size - column) as usize);
        let (part, tail) = rest.split_at_mut(length);
        device.read(&Context::default(), PageAddress::new(block.0, page), PageRead::bytes(column, part)).ok()?;
        (rest, at) = (tail, at + length as u32);
    }
    Some(())
}
