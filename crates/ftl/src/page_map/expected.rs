//! Announced writes: prefetching the memory that they will touch.

use nandkit_units::prefetch;

use super::{NOWHERE, PageMapFtl};

/// Announcements between the two prefetch steps.
const DISTANCE: usize = 8;

/// The most recently announced pages. First, the map's cache line of the page is prefetched; some
/// announcements later that line has arrived and tells what else the write will touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pages: [u32; DISTANCE],
    next: usize,
}

impl Default for Expected {
    fn default() -> Self {
        Self { pages: [NOWHERE; DISTANCE], next: 0 }
    }
}

impl<F> PageMapFtl<F> {
    #[inline(always)]
    pub(super) fn expect_page(&mut self, page: u32) {
        prefetch(&self.map, page as usize);
        let Expected { pages, next } = &mut self.expected;
        let earlier = std::mem::replace(&mut pages[*next % DISTANCE], page);
        *next = next.wrapping_add(1);
        if let Some(&slot) = self.map.get(earlier as usize)
            && slot != NOWHERE
        {
            self.valid.prefetch(slot);
            self.index.prefetch(self.superblocks.superblock(slot));
        }
    }
}
