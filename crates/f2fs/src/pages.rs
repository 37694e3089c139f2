//! Pages of files and directories in memory: dirty ones until they are written back, clean ones
//! while there is room.
//!
//! Inodes are written back in the order in which they first became dirty, each in page order,
//! because Linux's classes depend on it: an inode with at most 16 dirty pages goes to hot data
//! (f2fs-writing.md, "Logs and classes"). A page is bytes or a description; this module never
//! converts one into the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nandkit_units::{Described, Payload};

use crate::ids::{Block, NodeId};
use crate::segments::DirtyPages;

/// A write-back of at most this many pages goes to hot data (data.c, `f2fs_write_cache_pages`;
/// DEF_MIN_HOT_BLOCKS).
pub const HOT_PAGES: usize = 16;

/// A page's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The bytes of one block.
    Bytes(Block),
    /// One block of described bytes.
    Described(Described),
}

impl Page {
    /// The payload for a write.
    pub fn payload(&self) -> Payload<'_> {
        match self {
            Self::Bytes(bytes) => Payload::Bytes(bytes),
            Self::Described(described) => Payload::Described(*described),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    page: Page,
    is_dirty: bool,
    /// When the clean page was last requested; 0 if it is not in the queue.
    asked: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    pages: BTreeMap<u32, Entry>,
    dirty: usize,
    /// The inode's position in the order of first dirtying, if it has dirty pages.
    place: Option<u64>,
    directory: bool,
}

/// Limits on the pages in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// The number of dirty pages at which some must be written back.
    pub dirty: usize,
    /// The most clean pages. A write-back may exceed it by the pages it cleaned; these go as new
    /// pages come.
    pub clean: usize,
}

impl Default for PageLimits {
    /// 64 MiB dirty and 64 MiB clean.
    fn default() -> Self {
        Self { dirty: 16_384, clean: 16_384 }
    }
}

/// Pages by inode and number.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    files: BTreeMap<NodeId, File>,
    order: BTreeMap<u64, NodeId>,
    limits: PageLimits,
    dirty: usize,
    dirty_dentries: usize,
    clean: usize,
    /// Clean pages in eviction order, with the time at which they were queued.
    queue: VecDeque<(NodeId, u32, u64)>,
    time: u64,
    /// Memory of evicted pages for reuse: the allocator is slow for blocks of this size.
    spare: Vec<Block>,
}

/// The most evicted pages whose memory is kept.
const SPARE: usize = 64;

impl Pages {
    /// An empty store.
    pub fn new(limits: PageLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A page, if it is in memory; marks it as used. Cost: two searches.
    pub fn get(&mut self, inode: NodeId, page: u32) -> Option<&Page> {
        self.time += 1;
        let entry = self.files.get_mut(&inode)?.pages.get_mut(&page)?;
        entry.asked = self.time;
        Some(&entry.page)
    }

    /// A page and whether it is dirty, without postponing its eviction.
    pub fn peek(&self, inode: NodeId, page: u32) -> Option<(&Page, bool)> {
        let entry = self.files.get(&inode)?.pages.get(&page)?;
        Some((&entry.page, entry.is_dirty))
    }

    /// A page with these bytes, in recycled memory if there is any.
    fn filled(&mut self, bytes: &[u8]) -> Page {
        while let Some(mut block) = self.spare.pop() {
            if let Some(place) = Arc::get_mut(&mut block)
                && place.len() == bytes.len()
            {
                place.copy_from_slice(bytes);
                return Page::Bytes(block);
            }
        }
        Page::Bytes(Block::from(bytes))
    }

    /// Drops a page and keeps its memory for reuse unless someone else holds it.
    fn let_go(spare: &mut Vec<Block>, page: Page) {
        if let Page::Bytes(mut block) = page
            && spare.len() < SPARE
            && Arc::get_mut(&mut block).is_some()
        {
            spare.push(block);
        }
    }

    /// Overwrites a whole page of a file with `bytes`.
    pub fn overwrite(&mut self, inode: NodeId, page: u32, bytes: &[u8]) {
        let content = self.filled(bytes);
        self.change(inode, page, content, false);
    }

    /// Stores a clean page as read from the device, unless a dirty one is here.
    pub fn keep(&mut self, inode: NodeId, page: u32, content: Page) {
        let file = self.files.entry(inode).or_default();
        if file.pages.get(&page).is_some_and(|entry| entry.is_dirty) {
            return;
        }
        self.time += 1;
        let entry = Entry { page: content, is_dirty: false, asked: self.time };
        if file.pages.insert(page, entry).is_none() {
            self.clean += 1;
            self.queue.push_back((inode, page, self.time));
        }
        self.make_room();
    }

    /// Replaces the content of a page and marks it dirty. `directory`: the inode is a directory.
    pub fn change(&mut self, inode: NodeId, page: u32, content: Page, directory: bool) {
        self.time += 1;
        let file = self.files.entry(inode).or_default();
        file.directory = directory;
        let was_dirty = match file.pages.get_mut(&page) {
            Some(entry) => {
                Self::let_go(&mut self.spare, std::mem::replace(&mut entry.page, content));
                let was_dirty = std::mem::replace(&mut entry.is_dirty, true);
                self.clean -= usize::from(!was_dirty);
                was_dirty
            }
            None => {
                file.pages.insert(page, Entry { page: content, is_dirty: true, asked: 0 });
                false
            }
        };
        if !was_dirty {
            file.dirty += 1;
            self.dirty += 1;
            self.dirty_dentries += usize::from(directory);
        }
        if file.place.is_none() {
            file.place = Some(self.time);
            self.order.insert(self.time, inode);
        }
        self.make_room();
    }

    /// Marks a dirty page as written: it is clean now.
    pub fn written(&mut self, inode: NodeId, page: u32) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let Some(entry) = file.pages.get_mut(&page).filter(|entry| entry.is_dirty) else { return };
        self.time += 1;
        (entry.is_dirty, entry.asked) = (false, self.time);
        self.clean += 1;
        self.queue.push_back((inode, page, self.time));
        self.washed(inode, 1);
        self.shrink(self.limits.clean.saturating_add(self.limits.dirty));
    }

    /// Subtracts `count` from the dirty pages of an inode.
    fn washed(&mut self, inode: NodeId, count: usize) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        file.dirty -= count;
        self.dirty -= count;
        if file.directory {
            self.dirty_dentries -= count;
        }
        if file.dirty == 0
            && let Some(place) = file.place.take()
        {
            self.order.remove(&place);
        }
        if file.pages.is_empty() {
            self.files.remove(&inode);
        }
    }

    /// Drops all pages of an inode from page `from` on, dirty or not; 0 if the file is gone.
    pub fn truncate(&mut self, inode: NodeId, from: u32) {
        self.drop_pages(inode, from..=u32::MAX);
    }

    /// Drops a range of pages.
    pub fn punch(&mut self, inode: NodeId, pages: std::ops::Range<u32>) {
        if let Some(last) = pages.end.checked_sub(1).filter(|last| *last >= pages.start) {
            self.drop_pages(inode, pages.start..=last);
        }
    }

    fn drop_pages(&mut self, inode: NodeId, pages: std::ops::RangeInclusive<u32>) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let numbers: Vec<u32> = file.pages.range(pages).map(|(&page, _)| page).collect();
        let mut dirty = 0;
        for page in &numbers {
            match file.pages.remove(page) {
                Some(Entry { is_dirty: true, .. }) => dirty += 1,
                Some(_) => self.clean -= 1,
                None => {}
            }
        }
        self.washed(inode, dirty);
    }

    /// Evicts a clean page for a new one if there are too many. One at a time: its memory is reused
    /// for the next page, and a write-back does not evict all that it just cleaned.
    fn make_room(&mut self) {
        self.shrink(self.limits.clean.max(self.clean.saturating_sub(1)));
    }

    /// Evicts clean pages, least recently used first, until at most `most` are left.
    fn shrink(&mut self, most: usize) {
        while self.clean > most {
            let Some((inode, page, put)) = self.queue.pop_front() else { return };
            let Some(file) = self.files.get_mut(&inode) else { continue };
            let Some(entry) = file.pages.get(&page).filter(|entry| !entry.is_dirty) else { continue };
            if entry.asked > put {
                self.queue.push_back((inode, page, entry.asked));
                continue;
            }
            if let Some(gone) = file.pages.remove(&page) {
                Self::let_go(&mut self.spare, gone.page);
            }
            self.clean -= 1;
            if file.pages.is_empty() {
                self.files.remove(&inode);
            }
        }
        // The queue may still hold pages that were dropped or changed.
        if self.queue.len() > 4 * self.limits.clean.max(16) {
            let files = &self.files;
            self.queue.retain(|(inode, page, put)| {
                let entry = files.get(inode).and_then(|file| file.pages.get(page));
                entry.is_some_and(|entry| !entry.is_dirty && entry.asked >= *put)
            });
        }
    }

    /// Inodes with dirty pages, in the order in which they became dirty.
    pub fn dirty_inodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.order.values().copied()
    }

    /// The number of dirty pages of an inode.
    pub fn dirty_of(&self, inode: NodeId) -> usize {
        self.files.get(&inode).map_or(0, |file| file.dirty)
    }

    /// Whether a write-back of the inode would go to hot data now.
    pub fn is_hot(&self, inode: NodeId) -> bool {
        self.dirty_of(inode) <= HOT_PAGES
    }

    /// The dirty pages of an inode starting at page `from`, ascending.
    pub fn dirty_pages(&self, inode: NodeId, from: u32) -> impl Iterator<Item = (u32, &Page)> {
        let pages = self.files.get(&inode).filter(|file| file.dirty > 0);
        let pages = pages.into_iter().flat_map(move |file| file.pages.range(from..));
        pages.filter(|(_, entry)| entry.is_dirty).map(|(&page, entry)| (page, &entry.page))
    }

    /// Whether pages must be written back before more are dirtied.
    pub fn is_over_limit(&self) -> bool {
        self.dirty > self.limits.dirty
    }

    /// The numbers of clean and dirty pages in memory.
    pub const fn counts(&self) -> (usize, usize) {
        (self.clean, self.dirty)
    }

    /// Fills in the counts of [`DirtyPages`] that this module knows.
    pub fn tell(&self, pages: &mut DirtyPages) {
        pages.dentries = self.dirty_dentries as u64;
        pages.data = (self.dirty - self.dirty_dentries) as u64;
    }
}

#[cfg(test)]
mod tests {
    use nandkit_units::random::Random;

    use super::*;

    fn page(byte: u8) -> Page {
        Page::Bytes(Block::from([byte; 16]))
    }

    #[test]
    fn inodes_go_back_in_the_order_in_which_they_were_dirtied() {
        let mut pages = Pages::new(PageLimits { dirty: 40, clean: 4 });
        for (inode, number) in [(9, 3), (4, 1), (9, 0), (7, 0)] {
            pages.change(NodeId(inode), number, page(1), inode == 7);
        }
        assert!(pages.dirty_inodes().map(|inode| inode.0).eq([9, 4, 7]));
        assert!(pages.dirty_pages(NodeId(9), 0).map(|(number, ..)| number).eq([0, 3]));
        pages.written(NodeId(9), 0);
        pages.written(NodeId(9), 3);
        pages.change(NodeId(9), 5, page(2), false);
        assert!(pages.dirty_inodes().map(|inode| inode.0).eq([4, 7, 9]));
        let mut told = DirtyPages::default();
        pages.tell(&mut told);
        assert_eq!((told.dentries, told.data), (1, 2));
        pages.truncate(NodeId(4), 0);
        assert!(pages.dirty_inodes().map(|inode| inode.0).eq([7, 9]));
    }

    #[test]
    fn sixteen_dirty_pages_are_hot_and_seventeen_are_not() {
        let mut pages = Pages::default();
        (0..16).for_each(|number| pages.change(NodeId(5), number * 3, page(1), false));
        assert!(pages.is_hot(NodeId(5)));
        pages.change(NodeId(5), 1, page(1), false);
        assert!(!pages.is_hot(NodeId(5)));
    }

    #[test]
    fn a_clean_copy_does_not_replace_a_changed_page() {
        let mut pages = Pages::default();
        pages.keep(NodeId(5), 1, page(1));
        assert_eq!(pages.peek(NodeId(5), 1).unwrap(), (&page(1), false));
        pages.change(NodeId(5), 1, page(2), false);
        assert_eq!(pages.peek(NodeId(5), 1).unwrap(), (&page(2), true));
        pages.keep(NodeId(5), 1, page(1));
        assert_eq!(pages.get(NodeId(5), 1), Some(&page(2)));
    }

    #[test]
    fn clean_pages_are_bounded_and_asked_for_ones_stay() {
        let mut pages = Pages::new(PageLimits { dirty: 4, clean: 8 });
        for number in 0..100 {
            pages.keep(NodeId(5), number, page(number as u8));
            assert!(pages.get(NodeId(5), 0).is_some(), "{number}");
            assert!(pages.counts().0 <= 8);
        }
        assert_eq!(pages.get(NodeId(5), 50), None);
    }

    #[test]
    fn random_changes_keep_counts_and_contents_right() {
        let mut pages = Pages::new(PageLimits { dirty: 50, clean: 20 });
        let mut dirty: BTreeMap<(u32, u32), u8> = BTreeMap::new();
        let mut random = Random::new(3, "pages");
        for step in 0..20_000u32 {
            let (inode, number) = (random.below(4) as u32 + 3, random.below(30) as u32);
            match random.below(10) {
                0..4 => {
                    pages.change(NodeId(inode), number, page(step as u8), inode == 3);
                    dirty.insert((inode, number), step as u8);
                }
                4..7 => {
                    pages.written(NodeId(inode), number);
                    dirty.remove(&(inode, number));
                }
                7 => {
                    pages.keep(NodeId(inode), number, page(0xEE));
                }
                8 if step % 10 == 0 => {
                    pages.truncate(NodeId(inode), number);
                    dirty.retain(|&(i, n), _| i != inode || n < number);
                }
                _ => {
                    pages.punch(NodeId(inode), number..number + 2);
                    dirty.retain(|&(i, n), _| i != inode || !(number..number + 2).contains(&n));
                }
            }
            let all =
                (3..7).flat_map(|inode| pages.dirty_pages(NodeId(inode), 0).map(move |(n, p)| ((inode, n), p.clone())));
            assert!(all.eq(dirty.iter().map(|(&at, &byte)| (at, page(byte)))), "step {step}");
            assert_eq!(pages.counts().1, dirty.len());
            assert!(pages.counts().0 <= 70);
            let clean = pages.files.values().flat_map(|file| file.pages.values()).filter(|entry| !entry.is_dirty);
            assert_eq!(clean.count(), pages.counts().0);
        }
    }
}
