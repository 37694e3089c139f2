//! The mapping cache: which map pages a device with little memory would hold, and what it reads and
//! writes because it cannot hold more. The design is in `docs/design/08-mapping-cache.md`.
//!
//! The whole map stays in the simulator's memory and is always correct. This module decides which
//! part of it the *device* would have in memory, so that a lookup costs what it would cost there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_units::Nanos;

use crate::failure::LayerResult;

/// Bytes in the directory for each map page: its slot.
const DIRECTORY_BYTES: u64 = 4;
/// Least map pages in a cache: those of a remap's source and target.
const FRAMES_MIN: u64 = 2;
/// The end of the list; not a valid map page.
const END: u32 = u32::MAX;

/// Counters of the mapping cache. A lookup concerns one logical page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingCounters {
    /// Lookups whose map page was in the cache.
    pub hits: u64,
    /// Lookups whose map page was not in the cache.
    pub misses: u64,
    /// Evicted map pages that were unchanged.
    pub evictions_clean: u64,
    /// Evicted map pages that had to be written.
    pub evictions_dirty: u64,
    /// Map pages read for lookups: fewer than misses, because a map page may never have been
    /// written, or a trim may replace it entirely.
    pub pages_read: u64,
    /// Map pages outside the cache that were read because cleaning moved slots that they refer to.
    pub pages_read_for_cleaning: u64,
    /// Map pages written because they were evicted, or changed outside the cache.
    pub pages_written: u64,
    /// Uncorrectable map pages; they are rewritten from the simulator's memory.
    pub unreadable: u64,
}

/// The cache, behind a lock because device reads change it.
#[derive(Debug)]
pub(crate) struct MappingCache {
    state: Mutex<Cached>,
}

impl MappingCache {
    /// Makes a cache of `bytes` for `map_pages`. Errors: `Unfit` if the directory and two map pages
    /// do not fit.
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

/// The state of one map page.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Neighbours in the list of cached map pages: the next older and the next newer.
    older: u32,
    newer: u32,
    is_cached: bool,
    /// Evicted, or changed outside the cache, and waiting to be written.
    is_owed: bool,
    /// When its read completes and it is in the cache.
    ready: Nanos,
    /// When everything that it refers to has completed; it must not be written earlier.
    settled: Nanos,
}

/// The cached map pages in LRU order, and those that wait to be written.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    pages: Vec<Known>,
    /// The most and the least recently used map page.
    newest: u32,
    oldest: u32,
    count: usize,
    frames: usize,
    owed: Vec<u32>,
    /// Map pages with an unreadable part, to be rewritten.
    unreadable: Vec<u32>,
    /// The completion time of the journal lines that describe the map.
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

    /// The most map pages in the cache.
    pub const fn frames(&self) -> usize {
        self.frames
    }

    /// Looks up logical pages of a map page and makes it the most recently used one. Returns
    /// whether it was cached; `is_dirty` tells whether an evicted page must be written.
    pub fn look_up(&mut self, map_page: u32, pages: u64, is_dirty: impl Fn(u32) -> bool) -> bool {
        let Some(known) = self.pages.get_mut(map_page as usize) else { return true };
        // A page that waits to be written counts as absent: if reads had evicted it, it would have
        // been written long ago.
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
        // A page that already waits is written once.
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

    /// Queues a changed map page for writing, unless it is in the cache.
    pub fn owe(&mut self, map_page: u32) {
        if let Some(known) = self.pages.get_mut(map_page as usize)
            && !known.is_cached
            && !known.is_owed
        {
            known.is_owed = true;
            self.owed.push(map_page);
        }
    }

    /// Queues an unreadable map page for rewriting.
    pub fn note_unreadable(&mut self, map_page: u32) {
        self.counters.unreadable += 1;
        self.unreadable.push(map_page);
    }

    /// Takes the map pages that wait to be written, in order of arrival, and those to be rewritten;
    /// both queues are empty afterwards.
    pub fn take_owed(&mut self) -> (Vec<u32>, Vec<u32>) {
        let Self { pages, owed, .. } = self;
        let mut taken = std::mem::take(owed);
        let mut still =
            |map_page: &u32| pages.get_mut(*map_page as usize).is_some_and(|known| std::mem::take(&mut known.is_owed));
        taken.retain(&mut still);
        (taken, std::mem::take(&mut self.unreadable))
    }

    /// Whether any map page waits to be written.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty() || !self.unreadable.is_empty()
    }

    /// The time at which a map page's read has completed.
    pub fn ready(&self, map_page: u32) -> Nanos {
        self.pages.get(map_page as usize).map_or(Nanos::ZERO, |known| known.ready)
    }

    pub fn set_ready(&mut self, map_page: u32, at: Nanos) {
        if let Some(known) = self.pages.get_mut(map_page as usize) {
            known.ready = at;
        }
    }

    /// Records that everything a map page refers to completes at `at`.
    pub fn settle(&mut self, map_page: u32, at: Nanos) {
        if let Some(known) = self.pages.get_mut(map_page as usize) {
            known.settled = known.settled.max(at);
        }
    }

    /// Records that the journal's lines complete at `at`.
    pub fn settle_lines(&mut self, at: Nanos) {
        self.lines = self.lines.max(at);
    }

    /// The earliest time to write a map page: when everything it refers to, and the journal lines
    /// about it, have completed.
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
        // Page 1 was evicted when 2 came, and waited to be written, as it did when it came back and
        // evicted 2.
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
