//! The set of map pages that differ from their copies on flash.

/// One bit per map page; empty if no map pages are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedMaps {
    words: Vec<u64>,
    /// Base-2 logarithm of the entries per map page.
    shift: u32,
    /// The number of logical pages; higher page numbers are map pages.
    user: u32,
}

impl ChangedMaps {
    /// An empty set.
    pub fn new(map_pages: usize, entries: u32, user: u32) -> Self {
        Self { words: vec![0; map_pages.div_ceil(64)], shift: entries.trailing_zeros(), user }
    }

    /// Records that the entry of a logical page has changed.
    #[inline(always)]
    pub fn note(&mut self, page: u32) {
        if page < self.user
            && let Some(word) = self.words.get_mut((page >> self.shift) as usize / 64)
        {
            *word |= 1 << ((page >> self.shift) % 64);
        }
    }

    /// Records that a whole map page has changed.
    pub fn note_map(&mut self, map_page: u32) {
        if let Some(word) = self.words.get_mut(map_page as usize / 64) {
            *word |= 1 << (map_page % 64);
        }
    }

    /// Records that a map page on flash is up to date.
    pub fn clear_map(&mut self, map_page: u32) {
        if let Some(word) = self.words.get_mut(map_page as usize / 64) {
            *word &= !(1 << (map_page % 64));
        }
    }

    /// The map page that holds a logical page's entry.
    pub const fn map_page(&self, page: u32) -> u32 {
        page >> self.shift
    }

    /// The number of logical pages in a map page: fewer in the last one.
    pub fn pages_of(&self, map_page: u32) -> u64 {
        let first = u64::from(map_page) << self.shift;
        u64::from(self.user).saturating_sub(first).min(1 << self.shift)
    }

    /// Whether a map page has changed.
    pub fn has(&self, map_page: u32) -> bool {
        self.words.get(map_page as usize / 64).is_some_and(|word| word >> (map_page % 64) & 1 == 1)
    }

    /// Returns the changed map pages, and clears the set.
    pub fn take(&mut self) -> Vec<u32> {
        let mut changed = Vec::new();
        for (word, base) in self.words.iter_mut().zip((0u32..).step_by(64)) {
            let mut left = std::mem::take(word);
            while left != 0 {
                changed.push(base + left.trailing_zeros());
                left &= left - 1;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_map_page_are_one_and_map_pages_none() {
        let mut changed = ChangedMaps::new(200, 128, 200 * 128 - 5);
        for page in [0, 127, 128, 100 * 128, 199 * 128, 200 * 128 - 5, u32::MAX] {
            changed.note(page);
        }
        changed.note_map(7);
        assert!(changed.has(7) && !changed.has(6) && !changed.has(900));
        assert_eq!(changed.take(), [0, 1, 7, 100, 199]);
        assert_eq!(changed.take(), []);
        let mut none = ChangedMaps::default();
        none.note(3);
        assert_eq!(none.take(), []);
    }
}
