//! The numbers of a device that every step needs, worked out once.

use nandkit_block::BlockGeometry;
use nandkit_flash::Flash;
use nandkit_units::FlashGeometry;

use crate::failure::{Failure, Outcome};
use crate::tag::{NO_BLOCK, TAG_BYTES, TagFormat};

/// How much of the chip the host sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogicalCapacity {
    /// Everything but the blocks that the layer needs and 2 % of the chip, at least 2 blocks, for blocks that go bad.
    #[default]
    Automatic,
    /// So many bytes; rounded down to whole sectors.
    Bytes(u64),
    /// All blocks of the chip but these.
    SpareBlocks(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub tag: TagFormat,
    pub page_size: u32,
    /// Pages per block.
    pub np: u32,
    pub blocks: u32,
    /// Logical blocks.
    pub lbns: u32,
    pub block: BlockGeometry,
}

/// A page of the host's address space and the bytes of a request in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub lbn: u32,
    pub offset: u32,
    /// First byte in the page.
    pub column: u32,
    /// Bytes.
    pub length: u32,
    /// First byte in the request.
    pub start: usize,
}

fn unfit<T>(detail: String) -> Outcome<T> {
    Err(Failure::unfit(detail))
}

impl Shape {
    /// Checks the options against the chip. `working` is the number of blocks that the layer needs beside one per logical block, `most_pages` what its
    /// tables are made for.
    pub fn new<F: Flash>(
        flash: &F,
        capacity: LogicalCapacity,
        sector_size: u32,
        (working, most_pages): (u32, u32),
    ) -> Outcome<Self> {
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
        })
    }

    fn check_chip(chip: &FlashGeometry) -> Outcome<()> {
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

    /// Cuts a request at page borders, from byte `start` of it on; `None` at its end.
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

    /// The logical block of a page of the host's, and the page's place in it. Runs for each page: no division where there are a power of two pages to a
    /// block, and a short one where the number fits.
    #[inline]
    pub fn place_of(&self, page: u64) -> (u32, u32) {
        let np = u64::from(self.np);
        if np.is_power_of_two() {
            return ((page >> np.trailing_zeros()) as u32, page as u32 & (self.np - 1));
        }
        match u32::try_from(page) {
            Ok(page) => (page / self.np, page % self.np),
            // The capacity is at most 2^50 bytes and pages at least 512: the quotient fits.
            Err(_) => ((page / np) as u32, (page % np) as u32),
        }
    }
}
