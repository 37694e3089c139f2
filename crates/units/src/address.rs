//! Address types of flash and block devices.

use std::fmt;

/// Index of an erase block of a flash device, counted over the whole device from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

impl BlockIndex {
    /// The block's index in a table with one entry per block.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The address of one page of this block.
    #[inline]
    pub const fn page(self, page: u32) -> PageAddress {
        PageAddress { block: self, page }
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// A page of a flash device: its block, and its index in that block.
///
/// The pair needs no division to find the block, whatever the number of pages per block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// The erase block.
    pub block: BlockIndex,
    /// The page within the block, from 0.
    pub page: u32,
}

impl PageAddress {
    /// Page `page` of block `block`.
    #[inline]
    pub const fn new(block: u32, page: u32) -> Self {
        Self { block: BlockIndex(block), page }
    }
}

impl fmt::Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} page {}", self.block.0, self.page)
    }
}

/// Logical block address: index of a sector of a block device, in units of that device's sector
/// size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl Lba {
    /// The address `sectors` further on; saturates at the end of the number range, which every
    /// device refuses.
    #[inline]
    pub const fn plus(self, sectors: u64) -> Self {
        Self(self.0.saturating_add(sectors))
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}", self.0)
    }
}
