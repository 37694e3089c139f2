//! Which blocks are bad by the marks in their OOB.
//!
//! Makers deliver NAND with some blocks bad: the mark is a byte other than 0xFF in the OOB of the block's first or second page (some parts: the last), byte 0 for large
//! pages and 5 for 512-byte pages; drivers mark worn blocks in the same way with 0x00. Source: Linux `drivers/mtd/nand/raw/nand_base.c`
//! (`nand_block_bad`), data sheets. A dump may come from a controller that keeps other things at that place, and then nothing is a mark.

use std::collections::BTreeSet;

use nandkit_units::BlockIndex;

use crate::layout::{BadMarker, OobPlacement, Shape};

/// The bad blocks of a dump as it was opened.
#[derive(Debug, Default)]
pub(crate) struct BadTable {
    pub blocks: BTreeSet<u32>,
    /// What people should know about the marks.
    pub notes: Vec<String>,
}

/// The byte within the OOB and the number of pages that carry marks.
pub(crate) fn marker_place(shape: &Shape) -> Option<(u32, u32)> {
    let layout = &shape.layout;
    let (offset, pages) = match layout.marker {
        BadMarker::Ignore => return None,
        BadMarker::Auto => (layout.marker_byte(), 2),
        BadMarker::Byte { offset, pages } => (offset, pages),
    };
    let there = layout.oob != OobPlacement::None && offset < layout.oob_size;
    there.then_some((offset, pages.clamp(1, shape.geometry.pages_per_block)))
}

impl BadTable {
    /// Looks at every block's mark. `oob_byte` delivers a byte of the image or of the OOB file; 0xFF where there is none.
    pub fn read(shape: &Shape, oob_byte: impl Fn(u64) -> u8) -> Self {
        let layout = &shape.layout;
        let mut table = Self::default();
        if let Some((offset, pages)) = marker_place(shape) {
            let marked = |block: u32| {
                (0..pages).any(|page| {
                    let place = shape.place(BlockIndex(block).page(page));
                    place.is_some_and(|place| oob_byte(place.oob + u64::from(offset)) != 0xFF)
                })
            };
            table.blocks = (0..shape.geometry.blocks).filter(|&block| marked(block)).collect();
        }
        let (marked, blocks) = (table.blocks.len() as u64, u64::from(shape.geometry.blocks));
        if layout.marker == BadMarker::Auto && (marked > (blocks / 4).max(2) || 2 * marked > blocks) {
            table.notes.push(format!(
                "{marked} of {blocks} blocks would be bad by OOB byte {}: more than any part in use has, so the byte holds something else and no block is taken for bad",
                layout.marker_byte()
            ));
            table.blocks.clear();
        }
        table.blocks.extend(layout.missing.iter().chain(&layout.bad));
        table
    }
}
