//! Bad blocks, recognized by the marks in their OOB.
//!
//! Manufacturers deliver NAND with some bad blocks. The mark is a byte other than 0xFF in the OOB
//! of the block's first or second page (for some chips: the last), byte 0 for large pages and 5 for
//! 512-byte pages; drivers mark worn blocks the same way with 0x00. Source: Linux
//! `drivers/mtd/nand/raw/nand_base.c` (`nand_block_bad`), data sheets. The controller of a dump may
//! store something else there, and then nothing counts as a mark.

use std::collections::BTreeSet;
use std::ops::Range;

use nandkit_units::BlockIndex;

use crate::layout::{BadMarker, OobPlacement, Shape};

/// The bad blocks of a dump when it was opened.
#[derive(Debug, Default)]
pub(crate) struct BadTable {
    pub blocks: BTreeSet<u32>,
    /// Remarks about the marks, for people.
    pub notes: Vec<String>,
}

/// The OOB byte and the pages of each block that carry marks.
pub(crate) fn marker_place(shape: &Shape) -> Option<(u32, Range<u32>)> {
    let (layout, all) = (&shape.layout, shape.geometry.pages_per_block);
    let (offset, pages) = match layout.marker {
        BadMarker::Ignore => return None,
        BadMarker::Auto => (layout.marker_byte(), 0..2.min(all)),
        BadMarker::Byte { offset, pages } => (offset, 0..pages.clamp(1, all)),
        BadMarker::LastPage => (layout.marker_byte(), all.saturating_sub(1)..all),
    };
    // Some layouts store data where others have marks.
    let is_data = layout.ecc.as_ref().is_some_and(|ecc| !ecc.keeps_in_place(offset));
    let there = layout.oob != OobPlacement::None && offset < layout.oob_size && !is_data;
    there.then_some((offset, pages))
}

impl BadTable {
    /// Checks every block's mark. `oob_byte` returns a byte of the image or of the OOB file, 0xFF
    /// if it is missing; `is_used` tells whether a block's first page has content.
    pub fn read(shape: &Shape, oob_byte: impl Fn(u64) -> u8, is_used: impl Fn(u32) -> bool) -> Self {
        let layout = &shape.layout;
        let mut table = Self::default();
        if let Some((offset, pages)) = marker_place(shape) {
            let marked = |block: u32| {
                pages.clone().any(|page| {
                    let place = shape.place(BlockIndex(block).page(page));
                    place.is_some_and(|place| oob_byte(place.oob + u64::from(offset)) != 0xFF)
                })
            };
            table.blocks = (0..shape.geometry.blocks).filter(|&block| marked(block)).collect();
        }
        if layout.marker == BadMarker::Auto {
            table.doubt(layout.marker_byte(), shape.geometry.blocks, is_used);
        }
        table.blocks.extend(layout.missing.iter().chain(&layout.bad));
        table.blocks.retain(|block| !layout.good.contains(block));
        table
    }

    /// Discards marks that cannot be real: if more blocks than any chip in use has are marked,
    /// among all blocks or among those with content. A blank page has no ECC that could look like a
    /// mark, so a marked blank block stays bad.
    fn doubt(&mut self, byte: u32, blocks: u32, is_used: impl Fn(u32) -> bool) {
        if self.blocks.is_empty() {
            return;
        }
        let too_many = |marked: usize, of: usize| marked > (of / 4).max(2) || 2 * marked > of;
        let used: Vec<u32> = (0..blocks).filter(|block| is_used(*block)).collect();
        let marked_used = used.iter().filter(|block| self.blocks.contains(block)).count();
        let note = |marked: usize, of: String, then: &str| {
            format!(
                "{marked} of {of} would be bad by OOB byte {byte}: more than any part in use has, so the byte holds something else and {then} is taken for bad"
            )
        };
        if too_many(self.blocks.len(), blocks as usize) {
            self.notes.push(note(self.blocks.len(), format!("{blocks} blocks"), "no block"));
            self.blocks.clear();
        } else if marked_used > 0 && too_many(marked_used, used.len()) {
            self.notes.push(note(marked_used, format!("{} blocks in use", used.len()), "none of these"));
            self.blocks.retain(|block| used.binary_search(block).is_err());
        }
    }
}
