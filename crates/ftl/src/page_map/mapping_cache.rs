//! The cache of the map: which of the map's pages a device with little memory would hold, and what
//! it reads and writes because it holds no more. The design is in
//! `docs/design/08-mapping-cache.md`.
//!
//! The whole map stays in the simulator's memory, and is right at any time. This module decides
//! what of it the *device* would have at hand, so that a lookup costs what it would cost there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_units::Nanos;

use crate::failure::LayerResult;

/// Bytes of the directory for each map page: the slot in which it lies.
const DIRECTORY_BYTES: u64 = 4;
/// Map pages that a cache holds at the least: those of a remap's source and target.
const FRAMES_MIN: u64 = 2;
/// No map page: the end of the list.
const END: u32 = u32::MAX;

/// What the cache of the map did. A lookup is one of one logical page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingCounters {
    /// Lookups that found their map page in the cache.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Map pages that left the cache, and were on flash as they were.
    pub evictions_clean: u64,
    /// Map pages that left the cache and had to be written.
    pub evictions_dirty: u64,
    /// Map pages that were read for lookups: fewer than misses, where a map page was never written,
    /// or a trim replaces all of it.
    pub pages_read: u64,
    /// Map pages outside the cache that were read because cleaning moved what they name.
    pub pages_read_for_cleaning: u64,
    /// Map pages that were written because they left the cache, or were changed outside it.
    pub pages_written: u64,
    /// Map pages that could not be corrected when they were read; they are written anew from the
    /// simulator's memory.
    pub unreadable: u64,
}

/// The state of the cache. Behind a lock, since reads of the device change it.
#[derive(Debug)]
pub(crate) struct MappingCache {
    state: Mutex<Cached>,
}

impl MappingCache {
    /// A cache of so many bytes for so many map pages. Errors: `Unfit` where the directory and two
    /// map pages do not fit.
    pub fn new(bytes: u64, map_pages: u64, page_size: u32) -> LayerResult<Self> {
        let directory = DIRECTORY_BYTES * map_pages;
        let least = directory + FRAMES_MIN * u64::from(page_size);
        if bytes < least {
            return super::unfit(format!(
                "a mapping cache of {bytes} bytes; expected at least {least}: the directory of {map_pages} map pages takes {directory}, and two map pages of {page_size} must fit \
                 beside it; 0 keeps the whole map in memory"
            ));
        }
        let frames = ((bytes - directory) / u64::from(page_size)).min(map_pages);
        Ok(Self { state: Mutex::new(Cached::new(frames as usize, map_pages as usize)) })
    }

    pub fn lock(&self) -> MutexGuard<'_, Cached> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut Cached {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a map page.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Neighbours in the list of cached map pages: the one used before, and the one used after.
    older: u32,
    newer: u32,
    is_cached: bool,
    /// It has left the cache, or was changed outside it, and waits to be written.
    is_owed: bool,
    /// When it is in the cache after its read.
    ready: Nanos,
    /// When everything that it names has completed: no earlier may it be written.
    settled: Nanos,
}

/// The map pages in the cache, the least recently used one first out, and those that wait to be
/// written.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pages: Vec<Known>,
    /// The map pages used last, and longest ago.
    newest: u32,
    oldest: u32,
    count: usize,
    frames: usize,
    owed: Vec<u32>,
    /// Map pages of which a part could not be read, to be written anew.
    unreadable: Vec<u32>,
    /// When the lines of the journal had completed that tell of what is in the map.
    lines: Nanos,
    pub counters: MappingCounters,
}

impl Cached {
    fn new(frames: usize, map_pages: usize) -> Self {
        let unknown = Known {
            older: END,
            newer: END,
            is_cached: false,
            is_owed: false,
            ready: Nanos::ZERO,
            settled: Nanos::ZERO,
        };
        Self {
            pages: vec![unknown; map_pages],
            newest: END,
            oldest: END,
            count: 0,
            frames,
            owed: Vec::new(),
            unreadable: Vec::new(),
            lines: Nanos::ZERO,
            counters: MappingCounters::default(),
        }
    }

    /// Map pages that it holds at most.
    pub const fn frames(&self) -> usize {
        self.frames
    }

    /// Looks so many logical pages of a map page up, which is the one used last afterwards. Whether
    /// it was there; `is_dirty` tells of the one that has to leave.
    pub fn look_up(&mut self, map_page: u32, pages: u64, is_dirty: impl Fn(u32) -> bool) -> bool {
        let Some(known) = self.pages.get_mut(map_page as usize) else { return true };
        // What waits to be written would have been written long ago, where reads drove it out: it
        // is not there.
        let is_there = std::mem::replace(&mut known.is_cached, true);
        self.counters.hits += if is_there { pages } else { pages.saturating_sub(1) };
        self.counters.misses += u64::from(!is_there);
        if is_there {
            self.unlink(map_page);
        } else if self.count == self.frames {
            self.evict(is_dirty);
        }
        self.link_newest(map_page);
        is_there
    }

    fn evict(&mut self, is_dirty: impl Fn(u32) -> bool) {
        let oldest = self.oldest;
        self.unlink(oldest);
        let Some(known) = self.pages.get_mut(oldest as usize) else { return };
        known.is_cached = false;
        // What waits already is written once.
        if !known.is_owed && is_dirty(oldest) {
            self.counters.evictions_dirty += 1;
            self.owe(oldest);
        } else {
            self.counters.evictions_clean += 1;
        }
    }

    /// Whether a map page is in memory: in the cache, or about to be written.
    pub fn holds(&self, map_page: u32) -> bool {
        self.pages.get(map_page as usize).is_some_and(|known| known.is_cached || known.is_owed)
    }

    /// A map page that was changed is written soon, unless it is in the cache.
    pub fn owe(&mut self, map_page: u32) {
        if let Some(known) = self.pages.get_mut(map_page as usize)
            && !known.is_cached
            && !known.is_owed
        {
            known.is_owed = true;
            self.owed.push(map_page);
        }
    }

    /// A map page that could not be read is written anew.
    pub fn note_unreadable(&mut self, map_page: u32) {
        self.counters.unreadable += 1;
        self.unreadable.push(map_page);
    }

    /// The map pages that wait to be written, in the order in which they came, and of the others
    /// those that are to be written anew; none waits afterwards.
    pub fn take_owed(&mut self) -> (Vec<u32>, Vec<u32>) {
        let Self { pages, owed, .. } = self;
        let mut taken = std::mem::take(owed);
        let mut still =
            |map_page: &u32| pages.get_mut(*map_page as usize).is_some_and(|known| std::mem::take(&mut known.is_owed));
        taken.retain(&mut still);
        (taken, std::mem::take(&mut self.unreadable))
    }

    /// Whether a map page waits to be written.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty() || !self.unreadable.is_empty()
    }

    /// When a map page is there after its read.
    pub fn ready(&self, map_page: u32) -> Nanos {
        self.pages.get(map_page as usize).map_or(Nanos::ZERO, |known| known.ready)
    }

    pub fn set_ready(&mut self, map_page: u32, at: Nanos) {
        if let Some(known) = self.pages.get_mut(map_page as usize) {
            known.ready = at;
        }
    }

    /// What a map page names has completed at this time, and not before.
    pub fn settle(&mut self, map_page: u32, at: Nanos) {
        if let Some(known) = self.pages.get_mut(map_page as usize) {
            known.settled = known.settled.max(at);
        }
    }

    /// The same for what the journal tells of.
    pub fn settle_lines(&mut self, at: Nanos) {
        self.lines = self.lines.max(at);
    }

    /// When a map page may be written: everything that it names has completed then, and the lines
    /// that belong to it.
    pub fn settled(&self, map_page: u32) -> Nanos {
        let known = self.pages.get(map_page as usize);
        known.map_or(Nanos::ZERO, |known| known.settled.max(known.ready)).max(self.lines)
    }

    fn unlink(&mut self, map_page: u32) {
        let Some(&Known { older, newer, .. }) = self.pages.get(map_page as usize) else { return };
        match self.pages.get_mut(older as usize) {
            Some(known) => known.newer = newer,
            None => self.oldest = newer,
        }
        match self.pages.get_mut(newer as usize) {
            Some(known) => known.older = older,
            None => self.newest = older,
        }
        self.count -= 1;
    }

    fn link_newest(&mut self, map_page: u32) {
        let before = std::mem::replace(&mut self.newest, map_page);
        match self.pages.get_mut(before as usize) {
            Some(known) => known.newer = map_page,
            None => self.oldest = map_page,
        }
        if let Some(known) = self.pages.get_mut(map_page as usize) {
            (known.older, known.newer) = (before, END);
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_longest_ago_leaves_and_is_written_if_it_was_changed() {
        let mut cached = Cached::new(2, 5);
        let mut look = |map_page| cached.look_up(map_page, 3, |page| page == 1);
        assert_eq!([0, 1, 0, 2, 0, 1].map(&mut look), [false, false, true, false, true, false]);
        // 1 left when 2 came, and waited to be written, as it does when it comes back and 2 leaves.
        let counters = cached.counters;
        assert_eq!((counters.hits, counters.misses), (2 * 3 + 4 * 2, 4));
        assert_eq!((counters.evictions_clean, counters.evictions_dirty), (1, 1));
        assert_eq!(cached.take_owed(), (vec![1], vec![]));
        assert_eq!((cached.holds(0), cached.holds(1), cached.holds(2)), (true, true, false));
        cached.owe(0);
        cached.owe(4);
        cached.owe(4);
        assert_eq!(cached.take_owed().0, [4]);
        assert!(!cached.owes() && !cached.holds(4));
    }

    #[test]
    fn a_list_of_any_length_is_in_order_of_use() {
        let mut random = nandkit_units::random::Random::new(3, "cache");
        for frames in [1, 2, 7, 20] {
            let mut cached = Cached::new(frames, 20);
            let mut used: Vec<u32> = Vec::new();
            for _ in 0..2000 {
                let page = random.below(20) as u32;
                let is_there = used.iter().rev().take(frames).any(|other| *other == page);
                assert_eq!(cached.look_up(page, 1, |_| false), is_there);
                used.retain(|other| *other != page);
                used.push(page);
            }
        }
    }

    #[test]
    fn a_cache_that_is_too_small_is_refused_with_what_would_do() {
        let error = |bytes| {
            let failure = MappingCache::new(bytes, 100, 512).map(|_| ()).unwrap_err();
            failure.at(nandkit_block::Operation::Open, nandkit_units::Lba(0)).to_string()
        };
        assert!(error(400).contains("expected at least 1424: the directory of 100 map pages takes 400"));
        assert!(error(1423).contains("expected at least 1424"));
        assert_eq!(MappingCache::new(1424, 100, 512).unwrap().lock().frames(), 2);
        assert_eq!(MappingCache::new(1 << 30, 100, 512).unwrap().lock().frames(), 100);
    }
}
