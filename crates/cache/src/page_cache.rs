//! A cache with one owner.

use crate::list::{Ends, Links};
use crate::number_map::NumberMap;

#[derive(Clone, Debug)]
struct Slot {
    key: u64,
    bytes: Box<[u8]>,
}

/// A bounded cache of clean pages with `u64` keys (sector, page or block numbers).
///
/// Cost of each access: one hash lookup and a few list links, independent of the number of pages.
/// The same calls give the same results: nothing depends on the order of the hash table.
#[derive(Clone, Debug)]
pub struct PageCache {
    page_size: usize,
    capacity: usize,
    index: NumberMap<u64, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    links: Links,
    /// The most recently used page comes first.
    used: Ends,
}

impl PageCache {
    /// An empty cache for `capacity` pages of `page_size` bytes each; the capacity is at least 1
    /// and below 2^32 - 1. Memory is allocated as pages come in.
    pub fn new(page_size: usize, capacity: usize) -> Self {
        Self {
            page_size,
            capacity: capacity.clamp(1, u32::MAX as usize - 1),
            index: NumberMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            used: Ends::EMPTY,
        }
    }

    /// The number of cached pages.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The content of a page; makes it the most recently used one.
    pub fn read(&mut self, key: u64) -> Option<&[u8]> {
        let number = *self.index.get(&key)?;
        self.touch(number);
        self.slots.get(number as usize).map(|slot| &*slot.bytes)
    }

    /// Caches a page as the most recently used one. A full cache evicts the least recently used
    /// page. Missing bytes become zeroes, and bytes beyond the page size are dropped.
    pub fn put(&mut self, key: u64, bytes: &[u8]) {
        let number = match self.index.get(&key) {
            Some(&number) => {
                self.touch(number);
                number
            }
            None => self.take_slot(key),
        };
        if let Some(slot) = self.slots.get_mut(number as usize) {
            let length = bytes.len().min(slot.bytes.len());
            let (head, tail) = slot.bytes.split_at_mut(length);
            head.copy_from_slice(&bytes[..length]);
            tail.fill(0);
        }
    }

    /// Drops `count` pages from `first` on; if these are more than the cache can hold, all pages.
    /// Cost: one lookup per page, or none.
    pub fn remove_range(&mut self, first: u64, count: u64) {
        if count <= self.capacity as u64 {
            (first..first.saturating_add(count)).for_each(|key| self.remove(key));
            return;
        }
        self.index.clear();
        self.slots.clear();
        self.free.clear();
        self.links = Links::default();
        self.used = Ends::EMPTY;
    }

    fn remove(&mut self, key: u64) {
        if let Some(number) = self.index.remove(&key) {
            self.links.remove(&mut self.used, number);
            self.free.push(number);
        }
    }

    fn touch(&mut self, number: u32) {
        if self.used.first != number {
            self.links.remove(&mut self.used, number);
            self.links.push_first(&mut self.used, number);
        }
    }

    /// Takes a slot for a page that is not cached and indexes it as the most recently used one.
    fn take_slot(&mut self, key: u64) -> u32 {
        if self.index.len() >= self.capacity
            && let Some(last) = self.slots.get(self.used.last as usize)
        {
            self.remove(last.key);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            let bytes = vec![0; self.page_size].into_boxed_slice();
            self.slots.push(Slot { key, bytes });
            (self.slots.len() - 1) as u32
        });
        if let Some(slot) = self.slots.get_mut(number as usize) {
            slot.key = key;
        }
        self.index.insert(key, number);
        self.links.push_first(&mut self.used, number);
        number
    }
}
