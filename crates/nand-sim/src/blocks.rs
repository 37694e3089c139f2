//! The state of every block: 16 bytes each, in one zero-initialised table, so that blocks never
//! touched cost no memory.

use nandkit_units::{BlockIndex, PageAddress};

/// Facts about a block, as bits: at most eight, since a saved chip has room for no more.
pub mod flag {
    /// The factory's verdict has been looked up (see [`super::flag::FACTORY_BAD`]).
    pub const SEEN: u32 = 1;
    /// Bad from the factory.
    pub const FACTORY_BAD: u32 = 2;
    /// Marked bad by the host.
    pub const MARKED_BAD: u32 = 4;
    /// A program or an erase failed: every later one does too.
    pub const FAILING: u32 = 8;
    /// An erase was cut: what is programmed before the next whole erase cannot be read back.
    pub const WEAK: u32 = 16;
    /// At least one page has a flaw (torn, failed, damaged by copyback).
    pub const FLAWED: u32 = 32;
    /// Some program of this erase cycle will fail.
    pub const FAILS_THIS_CYCLE: u32 = 64;
    /// The block is bad, by whoever's mark.
    pub const BAD: u32 = FACTORY_BAD | MARKED_BAD;
}

const ERASES: usize = 0;
const NEXT_PAGE: usize = 1;
const SLOT: usize = 2;
const FLAGS: usize = 3;

/// A row: erases, next page, slot + 1, flags. A plain array, because only for those does the
/// standard library ask the system for zeroed memory.
type Row = [u32; 4];

/// All blocks of a device.
#[derive(Clone, Debug)]
pub struct BlockTable {
    rows: Vec<Row>,
}

/// One block's state, copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockState {
    /// How often the block was erased.
    pub erases: u32,
    /// One more than the highest page programmed since the erase; 0 for an erased block.
    pub next_page: u32,
    /// Facts about the block: see [`flag`].
    pub flags: u32,
    slot_plus_one: u32,
}

impl BlockState {
    /// Where the stores keep the block's pages; `None` before its first program.
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
    /// `blocks` erased blocks. Costs address space, no memory.
    pub fn new(blocks: u32) -> Self {
        Self { rows: vec![[0; 4]; blocks as usize] }
    }

    /// The block's state; a block outside the device is like one never touched.
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

    /// Notes that pages below `next_page` may be programmed.
    #[inline]
    pub fn set_next_page(&mut self, block: BlockIndex, next_page: u32) {
        self.update(block, |row| row[NEXT_PAGE] = next_page);
    }

    /// Notes that a page is programmed, and tells its block's slot, where it is the next page of a
    /// block that has others and of which nothing is known but the factory's verdict: good.
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

    /// Notes where the stores keep the block.
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

    /// Notes an erase: one more of them, no page programmed.
    #[inline]
    pub fn count_erase(&mut self, block: BlockIndex) {
        self.update(block, |row| {
            row[ERASES] = row[ERASES].saturating_add(1);
            row[NEXT_PAGE] = 0;
        });
    }

    /// Puts back a state that was saved.
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
