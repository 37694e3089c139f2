//! The dimensions of a device, computed once.

use nandkit_block::BlockGeometry;
use nandkit_flash::Flash;
use nandkit_units::{FlashGeometry, Lba};

use crate::failure::{Failure, LayerResult};
use crate::tag::{NO_BLOCK, TAG_BYTES, TagFormat};

/// How much of the chip the host sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogicalCapacity {
    /// Everything except the blocks that the layer needs and a reserve for bad blocks: 2 % of the
    /// chip, at least 2 blocks.
    #[default]
    Automatic,
    /// This many bytes, rounded down to whole sectors.
    Bytes(u64),
    /// All blocks of the chip except this many.
    SpareBlocks(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub tag: TagFormat,
    pub page_size: u32,
    /// Pages per block.
    pub np: u32,
    pub blocks: u32,
    /// Number of logical blocks.
    pub lbns: u32,
    pub block: BlockGeometry,
    shifts: Shifts,
}

/// Derived values that the per-page code needs.
#[derive(Clone, Copy, Debug)]
struct Shifts {
    /// Sectors per page minus one.
    in_page: u64,
    /// The end of the device's whole pages, as a sector number.
    whole_end: u64,
    /// Base-2 logarithm of the sectors per page.
    sectors_per_page: u8,
    /// Base-2 logarithm of the pages per block; `None` if they are no power of two.
    np: Option<u8>,
}

impl Shifts {
    const fn new(chip: &FlashGeometry, sector: u32, sectors: u64) -> Self {
        let in_page = (chip.page_size / sector) as u64 - 1;
        let np = chip.pages_per_block;
        Self {
            in_page,
            whole_end: sectors & !in_page,
            sectors_per_page: (in_page + 1).trailing_zeros() as u8,
            np: if np.is_power_of_two() { Some(np.trailing_zeros() as u8) } else { None },
        }
    }
}

/// A page of the host's address space, and the request's bytes in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub lbn: u32,
    pub offset: u32,
    /// First byte within the page.
    pub column: u32,
    /// Length in bytes.
    pub length: u32,
    /// First byte within the request.
    pub start: usize,
}

fn unfit<T>(detail: String) -> LayerResult<T> {
    Err(Failure::unfit(detail))
}

impl Shape {
    /// Checks the options against the chip. `working` is the number of blocks that the layer needs
    /// in addition to one per logical block; `most_pages` is the most that its tables support.
    pub fn new<F: Flash>(
        flash: &F,
        capacity: LogicalCapacity,
        sector_size: u32,
        (working, most_pages): (u32, u32),
    ) -> LayerResult<Self> {
        let chip = *flash.geometry();
        Self::check_chip(&chip)?;
        let sector = if sector_size == 0 { chip.page_size } else { sector_size };
        if !sector.is_power_of_two() || sector < 512 || sector > chip.page_size {
            return unfit(format!(
                "sector size {sector}: expected a power of two from 512 to the page size {}",
                chip.page_size
            ));
        }
        let sectors_per_block = chip.block_size() / u64::from(sector);
        let sectors = match capacity {
            LogicalCapacity::Bytes(bytes) => bytes / u64::from(sector),
            LogicalCapacity::SpareBlocks(spare) => u64::from(chip.blocks.saturating_sub(spare)) * sectors_per_block,
            LogicalCapacity::Automatic => {
                let spare = working.saturating_add((chip.blocks / 50).max(2));
                u64::from(chip.blocks.saturating_sub(spare)) * sectors_per_block
            }
        };
        let lbns = sectors.div_ceil(sectors_per_block);
        let most = u64::from(chip.blocks.saturating_sub(working));
        if most == 0 {
            return unfit(format!(
                "a chip of {} blocks, of which {working} are needed for logs, targets and the map: expected at least {} blocks, or fewer log blocks",
                chip.blocks,
                u64::from(working) + 1
            ));
        }
        if lbns == 0 && capacity == LogicalCapacity::Automatic {
            return unfit(format!(
                "a chip of {} blocks: {working} are needed for logs, targets and the map, and some are kept for blocks that go bad; expected more blocks, \
                 fewer log blocks, or a capacity of 1 to {most} blocks that is asked for",
                chip.blocks
            ));
        }
        if lbns == 0 || lbns > most {
            return unfit(format!(
                "logical capacity of {lbns} blocks on a chip of {}: expected 1 to {most}, since {working} blocks are needed for logs, \
                 targets and the map",
                chip.blocks
            ));
        }
        if lbns * u64::from(chip.pages_per_block) > u64::from(most_pages) {
            return unfit(format!(
                "{lbns} logical blocks of {} pages: this layer maps at most {most_pages} pages; expected a smaller capacity",
                chip.pages_per_block
            ));
        }
        Ok(Self {
            tag: TagFormat::new(chip.page_size),
            page_size: chip.page_size,
            np: chip.pages_per_block,
            blocks: chip.blocks,
            lbns: lbns as u32,
            block: BlockGeometry {
                sector_size: sector,
                sectors,
                preferred_size: chip.page_size,
                recycling_size: chip.block_size(),
            },
            shifts: Shifts::new(&chip, sector, sectors),
        })
    }

    fn check_chip(chip: &FlashGeometry) -> LayerResult<()> {
        if (chip.oob_size as usize) < TAG_BYTES {
            return unfit(format!("the chip has {} OOB bytes per page: expected at least {TAG_BYTES}", chip.oob_size));
        }
        if !(4..=32_768).contains(&chip.pages_per_block) {
            return unfit(format!("the chip has {} pages per block: expected 4 to 32768", chip.pages_per_block));
        }
        if chip.blocks >= NO_BLOCK {
            return unfit(format!("the chip has {} blocks: expected fewer than {NO_BLOCK}", chip.blocks));
        }
        Ok(())
    }

    /// The piece of a request from byte `start` to the next page boundary; `None` at the request's
    /// end.
    #[inline]
    pub fn piece(&self, first_byte: u64, total: usize, start: usize) -> Option<Piece> {
        let left = total.checked_sub(start).filter(|left| *left > 0)?;
        let byte = first_byte + start as u64;
        let page_shift = self.page_size.trailing_zeros();
        let page = byte >> page_shift;
        let column = byte as u32 & (self.page_size - 1);
        let length = (self.page_size - column).min(u32::try_from(left).unwrap_or(u32::MAX));
        let (lbn, offset) = self.place_of(page);
        Some(Piece { lbn, offset, column, length, start })
    }

    /// If the request is exactly one page: its logical block, and its offset there.
    #[inline]
    pub fn whole_page(&self, at: Lba, bytes: usize) -> Option<(u32, u32)> {
        let Shifts { in_page, whole_end, sectors_per_page, .. } = self.shifts;
        if bytes == self.page_size as usize && at.0 & in_page == 0 && at.0 < whole_end {
            Some(self.place_of(at.0 >> sectors_per_page))
        } else {
            None
        }
    }

    /// The logical block of a host page, and the page's offset in it. Called for each page: needs
    /// no division if the pages per block are a power of two, and a short one if the number fits.
    #[inline]
    pub fn place_of(&self, page: u64) -> (u32, u32) {
        if let Some(shift) = self.shifts.np {
            return ((page >> shift) as u32, page as u32 & (self.np - 1));
        }
        match u32::try_from(page) {
            Ok(page) => (page / self.np, page % self.np),
            // The capacity is at most 2^50 bytes, and pages are at least 512: the quotient fits.
            Err(_) => ((page / u64::from(self.np)) as u32, (page % u64::from(self.np)) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use nandkit_nand_sim::{ChipSpec, ShadowChip};

    use super::*;

    /// Tests one and four sectors per page, blocks with and without a power of two of pages, and a
    /// partial page at the device's end.
    #[test]
    fn whole_pages_are_the_pieces_that_are_whole() {
        for (np, sector) in [(64, 2048), (64, 512), (48, 2048), (48, 512)] {
            let mut spec = ChipSpec::default();
            (spec.geometry.pages_per_block, spec.geometry.blocks) = (np, 16);
            let chip = ShadowChip::new(&spec, 1).unwrap();
            let capacity = LogicalCapacity::Bytes(200 * 2048 + 512);
            let shape = Shape::new(&chip, capacity, sector, (3, u32::MAX)).unwrap();
            let mut whole = 0;
            for (at, bytes) in (0..810).flat_map(|at| [0, 512, 2048, 2560, 4096].map(|bytes| (at, bytes))) {
                let inside = at * u64::from(sector) + bytes as u64 <= shape.block.sectors * u64::from(sector);
                let piece = shape.piece(at * u64::from(sector), bytes, 0);
                let expected = piece.filter(|piece| inside && bytes == 2048 && piece.length == 2048);
                whole += u32::from(expected.is_some());
                assert_eq!(shape.whole_page(Lba(at), bytes), expected.map(|piece| (piece.lbn, piece.offset)));
            }
            assert_eq!(whole, 200);
        }
    }
}
