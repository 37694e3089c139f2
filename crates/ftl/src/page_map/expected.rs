//! Writes that will come soon: what they touch is asked for before they come.

use nandkit_units::prefetch;

use super::{NOWHERE, PageMapFtl};

/// Pages between the two steps.
const DISTANCE: usize = 8;

/// The pages that were announced last. Of a page first its line of the map is asked for; some
/// announcements later that line is there, and says what else its write will touch.
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
