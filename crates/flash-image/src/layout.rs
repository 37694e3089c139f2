//! The layout of a flash dump: [`ImageLayout`], and the conversion of page addresses to file
//! offsets.

use std::sync::Arc;

use nandkit_units::{BlockIndex, FlashGeometry, FlashKind, PageAddress};

use crate::error::{ImageError, Result};
use crate::oob::OobLayout;

/// Where a dump stores the OOB bytes of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OobPlacement {
    /// Nowhere: only data bytes. The flash has no OOB, or was dumped without it.
    #[default]
    None,
    /// After each page's data: `nanddump --oob`, most chip programmers.
    AfterPage,
    /// After each block's data, the OOB of all its pages in page order.
    AfterBlock,
    /// In a second file that contains nothing else, in page order.
    Separate,
}

/// Which bytes mark a bad block. Any value other than 0xFF is a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BadMarker {
    /// The conventional byte for the page size (see [`ImageLayout::marker_byte`]), in the first two
    /// pages of each block. Ignored, with a remark in [`DumpInfo::notes`](crate::DumpInfo::notes),
    /// if more than a quarter of the blocks (of a few blocks: more than half) would be bad, because
    /// the bytes then hold something else.
    #[default]
    Auto,
    /// This OOB byte, in the first `pages` pages of each block, whatever it says.
    Byte {
        /// The byte's offset in the OOB.
        offset: u32,
        /// The number of pages checked, from the block's first one on.
        pages: u32,
    },
    /// The conventional byte in the last page of each block, where some chips have it from the
    /// factory.
    LastPage,
    /// The OOB contains no marks.
    Ignore,
}

/// The layout of a flash dump. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLayout {
    /// NAND or NOR.
    pub kind: FlashKind,
    /// Data bytes per erase block, without OOB. A multiple of the page size.
    pub block_size: u32,
    /// Data bytes per page: a power of two. NOR: the largest single program, usually the block.
    pub page_size: u32,
    /// OOB bytes per page in the dump; 0 with [`OobPlacement::None`].
    pub oob_size: u32,
    /// The smallest unit of a program: the page, a subpage, or 1 for NOR.
    pub write_unit: u32,
    /// Where the OOB bytes are stored.
    pub oob: OobPlacement,
    /// Which bytes mark bad blocks.
    pub marker: BadMarker,
    /// Offset of the region in the file.
    pub offset: u64,
    /// Length of the region in the file, including OOB between pages or blocks; `None` means up to
    /// the end of the file.
    pub size: Option<u64>,
    /// With [`OobPlacement::Separate`]: offset of the region's OOB in the second file.
    pub oob_offset: u64,
    /// Blocks of the device that the file omits (`nanddump --bb=skipbad` drops bad blocks), in
    /// ascending order, counted from the region's start. They are bad and read as erased.
    pub missing: Vec<u32>,
    /// Blocks in the file that are known to be bad although nothing in it says so (`nanddump
    /// --bb=padbad` writes 0xFF in their place).
    pub bad: Vec<u32>,
    /// Blocks that are good although they are marked, because their content is intact.
    pub good: Vec<u32>,
    /// The position of data, ECC and OOB in pages, if ECC is to be checked and written; `None` for
    /// data and OOB as stored in the dump.
    pub ecc: Option<Arc<OobLayout>>,
}

impl ImageLayout {
    /// NOR, or any flash dumped without OOB whose bits may be cleared at any time. Pages are as
    /// large as the block allows.
    pub const fn nor(block_size: u32) -> Self {
        // The largest power of two that divides the block, because a page size must be one.
        let page_size = block_size & block_size.wrapping_neg();
        Self::new(FlashKind::Nor, block_size, page_size, 0, OobPlacement::None)
    }

    /// NAND without OOB in the dump.
    pub const fn nand(block_size: u32, page_size: u32) -> Self {
        Self::new(FlashKind::Nand, block_size, page_size, 0, OobPlacement::None)
    }

    /// NAND with OOB after each page.
    pub const fn nand_oob(block_size: u32, page_size: u32, oob_size: u32) -> Self {
        Self::new(FlashKind::Nand, block_size, page_size, oob_size, OobPlacement::AfterPage)
    }

    /// A layout for one whole file; the write unit is the page for NAND and the byte for NOR.
    pub const fn new(kind: FlashKind, block_size: u32, page_size: u32, oob_size: u32, oob: OobPlacement) -> Self {
        let write_unit = match kind {
            FlashKind::Nand => page_size,
            FlashKind::Nor => 1,
        };
        Self {
            kind,
            block_size,
            page_size,
            oob_size,
            write_unit,
            oob,
            marker: BadMarker::Auto,
            offset: 0,
            size: None,
            oob_offset: 0,
            missing: Vec::new(),
            bad: Vec::new(),
            good: Vec::new(),
            ecc: None,
        }
    }

    /// The OOB byte that marks bad blocks by convention: byte 5 for pages of 512 bytes, byte 0 for
    /// larger ones. Source: Linux `include/linux/mtd/bbm.h` (`NAND_SMALL_BADBLOCK_POS`,
    /// `NAND_LARGE_BADBLOCK_POS`) and the manufacturers' data sheets.
    pub const fn marker_byte(&self) -> u32 {
        if self.page_size <= 512 { 5 } else { 0 }
    }

    /// Bytes of a page in the (first) file, including OOB stored with it.
    pub const fn stored_page(&self) -> u64 {
        match self.oob {
            OobPlacement::AfterPage => self.page_size as u64 + self.oob_size as u64,
            _ => self.page_size as u64,
        }
    }

    /// Bytes of a block in the (first) file.
    pub const fn stored_block(&self) -> u64 {
        match self.oob {
            OobPlacement::None | OobPlacement::Separate => self.block_size as u64,
            OobPlacement::AfterPage | OobPlacement::AfterBlock => {
                let pages = match self.block_size.checked_div(self.page_size) {
                    Some(pages) => pages as u64,
                    None => 0,
                };
                self.block_size as u64 + pages * self.oob_size as u64
            }
        }
    }

    /// Whether the data bytes of a block are contiguous in the file.
    pub const fn is_contiguous(&self) -> bool {
        !matches!(self.oob, OobPlacement::AfterPage)
    }

    /// The layout of a region: `size` data bytes from data byte `offset` on, as partition tables
    /// count (including missing blocks, without OOB).
    ///
    /// `size` `None` is the rest. Errors: `Layout` if the region does not begin at a block while
    /// blocks are not simply contiguous (OOB in the file, omitted blocks).
    pub fn region(&self, offset: u64, size: Option<u64>) -> Result<Self> {
        let block_size = u64::from(self.block_size.max(1));
        let mut region = self.clone();
        let plain = matches!(self.oob, OobPlacement::None) && self.missing.is_empty() && self.bad.is_empty();
        let too_far = || ImageError::layout(format!("region at {offset}: no dump is that long"));
        if plain {
            region.offset = self.offset.checked_add(offset).ok_or_else(too_far)?;
            let left = self.size.map(|size| size.saturating_sub(offset));
            region.size = least(size, left);
            return Ok(region);
        }
        if !offset.is_multiple_of(block_size) {
            return Err(ImageError::layout(format!(
                "region at data byte {offset}: expected a multiple of the block size {block_size}, since the dump holds OOB, or leaves blocks out"
            )));
        }
        let first = u32::try_from(offset / block_size).map_err(|_| too_far())?;
        let end = match size {
            Some(size) => u32::try_from(offset.saturating_add(size).div_ceil(block_size)).map_err(|_| too_far())?,
            None => u32::MAX,
        };
        // The lists of a layout that is not yet used by a device are unchecked.
        let stored = |block: u32| u64::from(block).saturating_sub(self.missing_before(block) as u64);
        let inside = |blocks: &[u32]| -> Vec<u32> {
            blocks.iter().filter(|block| (first..end).contains(block)).map(|block| block - first).collect()
        };
        let stored_first = stored(first);
        let skipped = stored_first.checked_mul(self.stored_block()).ok_or_else(too_far)?;
        region.offset = self.offset.checked_add(skipped).ok_or_else(too_far)?;
        let pages = u64::from(self.block_size / self.page_size.max(1));
        let oob_block = pages.saturating_mul(self.oob_size.into());
        region.oob_offset = self.oob_offset.saturating_add(stored_first.saturating_mul(oob_block));
        let wanted = size.map(|_| (stored(end).saturating_sub(stored_first)).saturating_mul(self.stored_block()));
        region.size = least(wanted, self.size.map(|size| size.saturating_sub(skipped)));
        region.missing = inside(&self.missing);
        region.bad = inside(&self.bad);
        region.good = inside(&self.good);
        Ok(region)
    }

    /// The number of missing blocks before this one.
    fn missing_before(&self, block: u32) -> usize {
        self.missing.partition_point(|&missing| missing < block)
    }

    /// A one-line description: `NAND 2048+64, 128 KiB blocks, OOB after each page`.
    pub fn describe(&self) -> String {
        let kind = match self.kind {
            FlashKind::Nand => "NAND",
            FlashKind::Nor => "NOR",
        };
        let block = nandkit_units::format_bytes(u64::from(self.block_size));
        match (self.oob, self.kind) {
            (OobPlacement::None, FlashKind::Nor) => format!("{kind}, {block} blocks"),
            (OobPlacement::None, _) => format!("{kind}, {} byte pages, {block} blocks, no OOB", self.page_size),
            (placement, _) => {
                let place = match placement {
                    OobPlacement::AfterBlock => "OOB after each block",
                    OobPlacement::Separate => "OOB in a file of its own",
                    _ => "OOB after each page",
                };
                let ecc = self.ecc.as_ref().map_or_else(String::new, |ecc| format!(" ({})", ecc.name()));
                format!("{kind} {}+{}{ecc}, {block} blocks, {place}", self.page_size, self.oob_size)
            }
        }
    }
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The file offsets of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagePosition {
    /// Offset of the data in the image file.
    pub data: u64,
    /// Offset of the OOB, in the image file or in the OOB file.
    pub oob: u64,
}

/// A layout checked against the length of a file.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub layout: ImageLayout,
    pub geometry: FlashGeometry,
    /// End of the region in the file: data past it belong to others, or do not exist.
    pub end: u64,
    /// Whether the file ends with the region, so that the device may extend it to the end of the
    /// last block.
    pub may_grow: bool,
    /// Existing bytes of an incomplete last block; 0 if it is complete.
    pub tail: u64,
}

impl Shape {
    /// Checks every number of the layout, and computes how many blocks a file of `length` bytes
    /// contains.
    pub fn new(layout: ImageLayout, length: u64) -> Result<Self> {
        if (layout.oob_size == 0) != (layout.oob == OobPlacement::None) {
            let detail = format!(
                "OOB placement {:?} with {} OOB bytes a page: expected no OOB bytes without, and at least one with a placement",
                layout.oob, layout.oob_size
            );
            return Err(ImageError::layout(detail));
        }
        if let Some(ecc) = &layout.ecc {
            let (page, oob) = (ecc.page_size(), ecc.oob_size());
            if layout.oob == OobPlacement::None || (layout.page_size, layout.oob_size) != (page, oob) {
                let detail = format!(
                    "OOB layout {} with pages of {}+{} bytes; expected pages of {page}+{oob}, with their OOB in the dump",
                    ecc.name(),
                    layout.page_size,
                    layout.oob_size
                );
                return Err(ImageError::layout(detail));
            }
        }
        if layout.page_size == 0 || layout.block_size == 0 || !layout.block_size.is_multiple_of(layout.page_size) {
            let detail = format!(
                "blocks of {} bytes with pages of {}: expected a whole number of pages",
                layout.block_size, layout.page_size
            );
            return Err(ImageError::layout(detail));
        }
        if let BadMarker::Byte { offset, pages } = layout.marker
            && (offset >= layout.oob_size || pages == 0)
        {
            let detail = format!(
                "bad-block mark in OOB byte {offset} of {pages} pages: expected a byte below {} and at least one page",
                layout.oob_size
            );
            return Err(ImageError::layout(detail));
        }
        if layout.offset >= length {
            let detail = format!("region at byte {}: expected it within the image's {length} bytes", layout.offset);
            return Err(ImageError::layout(detail));
        }
        let end = layout.size.and_then(|size| layout.offset.checked_add(size)).map_or(length, |end| end.min(length));
        let held = end.saturating_sub(layout.offset);
        if held == 0 {
            return Err(ImageError::layout(format!(
                "region at byte {} is empty: expected at least a byte",
                layout.offset
            )));
        }
        let stored_block = layout.stored_block();
        let blocks = (held.div_ceil(stored_block)).saturating_add(layout.missing.len() as u64);
        let tail = held % stored_block;
        let ordered = |list: &[u32]| list.windows(2).all(|pair| pair.first() < pair.last());
        let inside = |list: &[u32]| list.last().is_none_or(|&last| u64::from(last) < blocks);
        if !ordered(&layout.missing) || !inside(&layout.missing) || !ordered(&layout.bad) || !inside(&layout.bad) {
            let detail = format!("lists of missing and bad blocks: expected ascending numbers below {blocks}");
            return Err(ImageError::layout(detail));
        }
        let geometry = FlashGeometry {
            kind: layout.kind,
            write_unit: layout.write_unit,
            blocks: u32::try_from(blocks).map_err(|_| too_many(blocks))?,
            ..FlashGeometry::nand(layout.page_size, layout.oob_size, layout.block_size / layout.page_size, 1)
        };
        geometry.check().map_err(|error| ImageError::layout(error.to_string()))?;
        let may_grow =
            end == length && layout.size.is_none_or(|size| layout.offset.saturating_add(size) > length || tail == 0);
        Ok(Self { layout, geometry, end, may_grow, tail })
    }

    /// The file's index of a device block; `None` if the file omits it. The block must be inside
    /// the device.
    #[inline]
    pub fn stored_index(&self, block: BlockIndex) -> Option<u64> {
        if self.layout.missing.is_empty() {
            return Some(u64::from(block.0));
        }
        match self.layout.missing.binary_search(&block.0) {
            Ok(_) => None,
            Err(before) => Some(u64::from(block.0) - before as u64),
        }
    }

    /// The file offsets of a page; `None` if the file omits its block. No overflow: the geometry is
    /// at most 2^50 bytes, and OOB at most as much again.
    #[inline]
    pub fn place(&self, at: PageAddress) -> Option<PagePosition> {
        let layout = &self.layout;
        let stored = self.stored_index(at.block)?;
        let page = u64::from(at.page);
        let base = layout.offset + stored * layout.stored_block();
        let data = base + page * layout.stored_page();
        let oob_size = u64::from(layout.oob_size);
        let oob = match layout.oob {
            OobPlacement::None => 0,
            OobPlacement::AfterPage => data + u64::from(layout.page_size),
            OobPlacement::AfterBlock => base + u64::from(layout.block_size) + page * oob_size,
            OobPlacement::Separate => {
                layout.oob_offset + (stored * u64::from(self.geometry.pages_per_block) + page) * oob_size
            }
        };
        Some(PagePosition { data, oob })
    }

    /// End of the last of these page bytes in the image file; 0 if there are none.
    pub fn end_of(&self, at: PageAddress, column: u32, data: usize, oob: usize) -> u64 {
        let Some(place) = self.place(at) else { return 0 };
        let in_file = !matches!(self.layout.oob, OobPlacement::None | OobPlacement::Separate);
        let data_end = if data == 0 { 0 } else { place.data + u64::from(column) + data as u64 };
        let oob_end = if oob == 0 || !in_file { 0 } else { place.oob + oob as u64 };
        data_end.max(oob_end)
    }

    /// End of the page in the image file, including its OOB if in the same file.
    pub fn page_end(&self, at: PageAddress) -> u64 {
        let Some(place) = self.place(at) else { return 0 };
        let data_end = place.data + u64::from(self.layout.page_size);
        match self.layout.oob {
            OobPlacement::None | OobPlacement::Separate => data_end,
            OobPlacement::AfterPage | OobPlacement::AfterBlock => place.oob + u64::from(self.layout.oob_size),
        }
    }
}

#[cold]
fn too_many(blocks: u64) -> ImageError {
    ImageError::layout(format!("{blocks} blocks: expected at most {}; is the block size right?", u32::MAX))
}
