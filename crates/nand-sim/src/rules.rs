//! A chip's rules: page order, partial programs, and the reach of copyback.

use std::ops::Range;
use std::sync::atomic::Ordering;

use nandkit_units::{BlockIndex, FlashGeometry, FlashKind, PageAddress};

use crate::blocks::BlockState;
use crate::spec::{ChipSpec, CopybackReach, PageOrder};
use crate::words::WordTables;

/// Most write units of a page: their state occupies 48 bits of a word.
pub const MOST_UNITS: u32 = 48;

const COUNT_SHIFT: u32 = 56;
const UNIT_BITS: u64 = (1 << MOST_UNITS) - 1;

/// A message about a broken rule.
pub type Broken = &'static str;

/// The rules of a chip, and the state of its pages that they need.
#[derive(Clone, Debug)]
pub struct Rules {
    geometry: FlashGeometry,
    order: PageOrder,
    partial_programs: u64,
    copyback: CopybackReach,
    /// One word per page: the number of programs in the top byte, the programmed units below. Only
    /// used if [`BlockState::next_page`] does not suffice.
    pages: Option<WordTables<1>>,
}

impl Rules {
    /// The rules of a checked spec.
    pub fn new(spec: &ChipSpec) -> Self {
        let geometry = spec.geometry.build();
        // NOR knows neither an order of pages nor a number of programs.
        let is_nand = geometry.kind == FlashKind::Nand;
        let by_page = is_nand && (spec.rules.order == PageOrder::Any || spec.rules.partial_programs > 1);
        Self {
            geometry,
            order: spec.rules.order,
            partial_programs: u64::from(spec.rules.partial_programs),
            copyback: spec.rules.copyback,
            pages: by_page.then(|| WordTables::new(geometry.pages_per_block as usize)),
        }
    }

    /// Checks whether the chip accepts a program of `length` data bytes from `column` on with this
    /// many OOB bytes, on any page.
    #[inline]
    pub fn check_shape(&self, at: PageAddress, column: u32, length: usize, oob_length: usize) -> Result<(), Broken> {
        let geometry = &self.geometry;
        if !geometry.contains(at) {
            return Err("the page is outside the device");
        }
        if oob_length > geometry.oob_size as usize {
            return Err("the OOB bytes are more than the page has");
        }
        if column == 0 && length == geometry.page_size as usize {
            // A whole page, which nearly every program is.
            return Ok(());
        }
        self.check_part(column, length, oob_length)
    }

    fn check_part(&self, column: u32, length: usize, oob_length: usize) -> Result<(), Broken> {
        let geometry = &self.geometry;
        if length as u64 + u64::from(column) > u64::from(geometry.page_size) {
            return Err("the data reach past the end of the page");
        }
        if !column.is_multiple_of(geometry.write_unit) || !length.is_multiple_of(geometry.write_unit as usize) {
            return Err("column and length must be multiples of the write unit");
        }
        if length == 0 && oob_length == 0 {
            return Err("a program needs data or OOB bytes");
        }
        Ok(())
    }

    /// Whether the part is NOR: then only the bits of a page decide whether it may be programmed.
    #[inline]
    pub fn is_nor(&self) -> bool {
        self.geometry.kind == FlashKind::Nor
    }

    /// Whether the page may be programmed now with `length` bytes from `column` on.
    #[inline]
    pub fn check_page(&self, state: &BlockState, page: u32, column: u32, length: u32) -> Result<(), Broken> {
        if self.is_nor() {
            return Ok(());
        }
        if page >= state.next_page {
            return match self.order {
                PageOrder::Consecutive if page != state.next_page => {
                    Err("pages of a block must be programmed one directly after the other")
                }
                _ => Ok(()),
            };
        }
        let Some(pages) = &self.pages else {
            return Err("the page, or a later page of its block, is already programmed");
        };
        if self.order != PageOrder::Any && page + 1 != state.next_page {
            return Err("pages of a block must be programmed in ascending order");
        }
        let word = state
            .slot()
            .and_then(|slot| pages.words(slot).get(page as usize))
            .map_or(0, |[word]| word.load(Ordering::Relaxed));
        if word >> COUNT_SHIFT >= self.partial_programs {
            return Err("the page was programmed as often as the part allows since its block's erase");
        }
        if word & self.units(column, length) != 0 {
            return Err("this part of the page is already programmed");
        }
        Ok(())
    }

    /// The units that a program touches, as a bit mask.
    #[inline]
    fn units(&self, column: u32, length: u32) -> u64 {
        if length == self.geometry.page_size {
            return UNIT_BITS;
        }
        let first = column / self.geometry.write_unit;
        let count = length / self.geometry.write_unit;
        (((1u64 << count.min(MOST_UNITS)) - 1) << first.min(MOST_UNITS)) & UNIT_BITS
    }

    /// Records a program.
    #[inline(always)]
    pub fn note_program(&mut self, slot: usize, page: u32, column: u32, length: u32) {
        if self.pages.is_some() {
            self.note_in_page(slot, page, column, length);
        }
    }

    fn note_in_page(&mut self, slot: usize, page: u32, column: u32, length: u32) {
        let units = self.units(column, length);
        if let Some([word]) = self.pages.as_mut().and_then(|pages| pages.words_mut(slot).get(page as usize)) {
            let old = word.load(Ordering::Relaxed);
            word.store((old | units) + (1 << COUNT_SHIFT), Ordering::Relaxed);
        }
    }

    /// Records that whole pages were programmed.
    #[inline]
    pub fn note_programs(&mut self, slot: usize, pages: Range<u32>, page_size: u32) {
        if self.pages.is_some() {
            pages.for_each(|page| self.note_program(slot, page, 0, page_size));
        }
    }

    /// Adds a slot.
    pub fn add_slot(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.add();
        }
    }

    /// Records an erase.
    #[inline]
    pub fn note_erase(&mut self, slot: usize) {
        if let Some(pages) = &mut self.pages {
            pages.clear(slot);
        }
    }

    /// Records that one page lost its content (an interrupted erase).
    pub fn note_page_erase(&mut self, slot: usize, page: u32) {
        self.set_page_word(slot, page, 0);
    }

    /// The state of a page to be saved; 0 if there is none.
    pub fn page_word(&self, slot: usize, page: u32) -> u64 {
        let word = self.pages.as_ref().and_then(|pages| pages.words(slot).get(page as usize));
        word.map_or(0, |[word]| word.load(Ordering::Relaxed))
    }

    /// Restores a saved state.
    pub fn set_page_word(&mut self, slot: usize, page: u32, saved: u64) {
        if let Some([word]) = self.pages.as_mut().and_then(|pages| pages.words_mut(slot).get(page as usize)) {
            word.store(saved, Ordering::Relaxed);
        }
    }

    /// Whether the chip has copyback.
    #[inline]
    pub fn has_copyback(&self) -> bool {
        self.copyback != CopybackReach::None
    }

    /// Whether copyback works between these two blocks.
    #[inline]
    pub fn can_copy(&self, from: BlockIndex, to: BlockIndex) -> bool {
        let geometry = &self.geometry;
        if from.0 >= geometry.blocks || to.0 >= geometry.blocks {
            return false;
        }
        let same_die = || geometry.dies == 1 || geometry.die_of(from) == geometry.die_of(to);
        let same_plane = || geometry.planes == 1 || geometry.plane_of(from) == geometry.plane_of(to);
        match self.copyback {
            CopybackReach::None => false,
            CopybackReach::Plane => same_plane() && same_die(),
            CopybackReach::Die => same_die(),
            CopybackReach::Device => true,
        }
    }
}
