//! The state of every block: 16 bytes each, in one zero-initialised table, so that untouched blocks
//! take no memory.

use nandkit_units::{BlockIndex, PageAddress};

/// Flags of a block: at most eight bits, because a saved chip stores no more.
pub mod flag {
    /// It was determined whether the block is bad from the factory (see
    /// [`super::flag::FACTORY_BAD`]).
    pub const SEEN: u32 = 1;
    /// Bad from the factory.
    pub const FACTORY_BAD: u32 = 2;
    /// Marked bad by the host.
    pub const MARKED_BAD: u32 = 4;
    /// A program or an erase failed, and so does every later one.
    pub const FAILING: u32 = 8;
    /// An erase was interrupted: pages programmed before the next complete erase cannot be read
    /// back.
    pub const WEAK: u32 = 16;
    /// At least one page has a flaw (torn, failed, or damaged by copyback).
    pub const FLAWED: u32 = 32;
    /// Some program of this erase cycle will fail.
    pub const FAILS_THIS_CYCLE: u32 = 64;
    /// The block is bad, by the factory's or the host's mark.
    pub const BAD: u32 = FACTORY_BAD | MARKED_BAD;
}

const ERASES: usize = 0;
const NEXT_PAGE: usize = 1;
const SLOT: usize = 2;
const FLAGS: usize = 3;

/// A row: erases, next page, slot + 1, flags. A plain array, because only for those the standard
/// library requests zeroed memory from the system.
type Row = [u32; 4];

/// All blocks of a device.
#[derive(Clone, Debug)]
pub struct BlockTable {
    rows: Vec<Row>,
}

/// A copy of one block's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockState {
    /// The number of erases of the block.
    pub erases: u32,
    /// One past the highest page programmed since the erase; 0 for an erased block.
    pub next_page: u32,
    /// The block's flags: see [`flag`].
    pub flags: u32,
    slot_plus_one: u32,
}

impl BlockState {
    /// The block's slot in the stores; `None` before its first program.
    #[inline]
    pub const fn slot(&self) -> Option<usize> {
        match self.slot_plus_one {
            0 => None,
            number => Some(number as usize - 1),
        }
    }

    /// Whether any of the given flags is set.
    #[inline]
    pub const fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

impl BlockTable {
    /// A table of `blocks` erased blocks. Takes address space, but no memory.
    pub fn new(blocks: u32) -> Self {
        Self { rows: vec![[0; 4]; blocks as usize] }
    }

    /// The block's state; a block outside the device looks untouched.
    #[inline]
    pub fn get(&self, block: BlockIndex) -> BlockState {
        match self.rows.get(block.index()) {
            Some(&[erases, next_page, slot_plus_one, flags]) => BlockState { erases, next_page, flags, slot_plus_one },
            None => BlockState { erases: 0, next_page: 0, flags: 0, slot_plus_one: 0 },
        }
    }

    #[inline]
    fn update(&mut self, block: BlockIndex, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(block.index()) {
            change(row);
        }
    }

    /// Records that pages below `next_page` may be programmed.
    #[inline]
    pub fn set_next_page(&mut self, block: BlockIndex, next_page: u32) {
        self.update(block, |row| row[NEXT_PAGE] = next_page);
    }

    /// Fast path: records a program and returns the block's slot, if the page is the next one of a
    /// partly programmed block whose only flag is the verified good factory state.
    #[inline(always)]
    pub fn take_plain(&mut self, at: PageAddress) -> Option<usize> {
        let row = self.rows.get_mut(at.block.index())?;
        if at.page == 0 || row[NEXT_PAGE] != at.page || row[FLAGS] != flag::SEEN {
            return None;
        }
        let slot = row[SLOT].checked_sub(1)?;
        row[NEXT_PAGE] = at.page + 1;
        Some(slot as usize)
    }

    /// Records the block's slot in the stores.
    pub fn set_slot(&mut self, block: BlockIndex, slot: usize) {
        self.update(block, |row| row[SLOT] = slot as u32 + 1);
    }

    /// Sets flags.
    #[inline]
    pub fn set(&mut self, block: BlockIndex, flags: u32) {
        self.update(block, |row| row[FLAGS] |= flags);
    }

    /// Clears flags.
    #[inline]
    pub fn clear(&mut self, block: BlockIndex, flags: u32) {
        self.update(block, |row| row[FLAGS] &= !flags);
    }

    /// Records an erase: increments the count, and resets the next page.
    #[inline]
    pub fn count_erase(&mut self, block: BlockIndex) {
        self.update(block, |row| {
            row[ERASES] = row[ERASES].saturating_add(1);
            row[NEXT_PAGE] = 0;
        });
    }

    /// Restores a saved state.
    pub fn restore(&mut self, block: BlockIndex, erases: u32, next_page: u32, flags: u32) {
        self.update(block, |row| {
            row[ERASES] = erases;
            row[NEXT_PAGE] = next_page;
            row[FLAGS] = flags;
        });
    }

    /// The erase count of every block, in order.
    pub fn erase_counts(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.rows.iter().map(|row| row[ERASES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_state_apart_and_ranges_do_not_panic() {
        let mut table = BlockTable::new(3);
        table.count_erase(BlockIndex(1));
        table.set_next_page(BlockIndex(1), 5);
        table.set_slot(BlockIndex(1), 0);
        table.set(BlockIndex(1), flag::WEAK | flag::SEEN);
        table.clear(BlockIndex(1), flag::SEEN);
        table.set(BlockIndex(9), flag::WEAK);
        let state = table.get(BlockIndex(1));
        assert_eq!((state.erases, state.next_page, state.flags, state.slot()), (1, 5, flag::WEAK, Some(0)));
        assert_eq!(table.get(BlockIndex(0)).slot(), None);
        assert_eq!(table.get(BlockIndex(9)).flags, 0);
        assert_eq!(table.erase_counts().collect::<Vec<_>>(), [0, 1, 0]);
    }
}
