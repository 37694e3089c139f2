//! Properties of the program that wrote an image, derived from its blocks.

use nandkit_flash::Look;
use nandkit_units::BlockIndex;

use super::node;
use crate::layout::{ByteOrder, HEADER_SIZE, SUMMARY_MAGIC, SUMMARY_MARKER_SIZE, node_type};

/// How the writer of an image starts and ends blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterHabits {
    /// Whether blocks begin with cleanmarkers.
    pub cleanmarkers: bool,
    /// Whether blocks end in summaries.
    pub summaries: bool,
}

impl WriterHabits {
    /// Reads the first and the last bytes of each block.
    pub fn of(device: &dyn Look, order: ByteOrder) -> Self {
        let size = device.geometry().block_size();
        let mut habits = Self::default();
        let (mut first, mut last) = ([0; HEADER_SIZE as usize], [0; SUMMARY_MARKER_SIZE as usize]);
        for block in (0..device.geometry().blocks).map(BlockIndex).filter(|block| !device.is_bad(*block)) {
            let start = u64::from(block.0) * size;
            device.look_at(start, &mut first);
            device.look_at(start + size - u64::from(SUMMARY_MARKER_SIZE), &mut last);
            let header = node(order, &first);
            habits.cleanmarkers |= header.is_some_and(|header| header.node_type == node_type::CLEANMARKER);
            habits.summaries |= last.ends_with(&order.bytes32(SUMMARY_MAGIC));
        }
        habits
    }
}
