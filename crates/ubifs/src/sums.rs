//! Sums over the LEBs of the main area, as the master node has them.
//!
//! Source: Linux `fs/ubifs/lprops.c` (`ubifs_change_lp`, `ubifs_calc_dark`).

use crate::encode::INODE_SIZE;
use crate::layout::{INLINE_MAX, Master};
use crate::lpt::LebProperties;

/// Pieces smaller than this are of no use (Linux `MIN_WRITE_SZ`): a data node of a few bytes.
const WRITE_MIN: u32 = 56;

/// Sizes that decide what a piece of space is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceLimits {
    /// Bytes per LEB.
    pub leb_size: u32,
    /// Smaller pieces are dead: they hold no node.
    pub dead: u32,
    /// Smaller pieces are dark: they may not hold the largest node.
    pub dark: u32,
}

impl SpaceLimits {
    /// The limits of LEBs of `leb_size` bytes, written in units of `min_io_size`.
    pub const fn new(leb_size: u32, min_io_size: u32) -> Self {
        let largest = INODE_SIZE as u32 + INLINE_MAX as u32;
        let (dead, dark) = (WRITE_MIN.next_multiple_of(min_io_size), largest.next_multiple_of(min_io_size));
        Self { leb_size, dead, dark }
    }

    /// Dark bytes of a LEB with so many free and dirty bytes, of which not all are dead.
    const fn dark_in(self, space: u32) -> u32 {
        match space {
            space if space < self.dark => space,
            space if space - self.dark < WRITE_MIN => space - WRITE_MIN,
            _ => self.dark,
        }
    }
}

/// Sums over the LEBs of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceSums {
    pub free: u64,
    pub dirty: u64,
    /// Bytes in use, without LEBs of the index.
    pub used: u64,
    pub dead: u64,
    pub dark: u64,
    pub empty_lebs: u32,
    pub index_lebs: u32,
}

impl SpaceSums {
    /// The sums over these LEBs.
    pub fn of(lebs: &[LebProperties], limits: SpaceLimits) -> Self {
        let mut sums = Self::default();
        lebs.iter().for_each(|leb| sums.add(leb, limits));
        sums
    }

    /// Tells the master node.
    pub fn enter(&self, master: &mut Master) {
        master.free = self.free.into();
        master.dirty = self.dirty.into();
        master.used = self.used.into();
        master.dead = self.dead.into();
        master.dark = self.dark.into();
        master.empty_lebs = self.empty_lebs.into();
        master.index_lebs = self.index_lebs.into();
    }

    /// Counts a LEB.
    pub fn add(&mut self, leb: &LebProperties, limits: SpaceLimits) {
        self.change(leb, limits, u64::wrapping_add, u32::wrapping_add);
    }

    /// Counts a LEB no more.
    pub fn remove(&mut self, leb: &LebProperties, limits: SpaceLimits) {
        self.change(leb, limits, u64::wrapping_sub, u32::wrapping_sub);
    }

    fn change(
        &mut self,
        leb: &LebProperties,
        limits: SpaceLimits,
        bytes: fn(u64, u64) -> u64,
        count: fn(u32, u32) -> u32,
    ) {
        self.free = bytes(self.free, leb.free.into());
        self.dirty = bytes(self.dirty, leb.dirty.into());
        self.empty_lebs = count(self.empty_lebs, u32::from(leb.free == limits.leb_size));
        if leb.is_index {
            self.index_lebs = count(self.index_lebs, 1);
            return;
        }
        let space = leb.free.saturating_add(leb.dirty);
        self.used = bytes(self.used, limits.leb_size.saturating_sub(space).into());
        match space < limits.dead {
            true => self.dead = bytes(self.dead, space.into()),
            false => self.dark = bytes(self.dark, limits.dark_in(space).into()),
        }
    }
}
