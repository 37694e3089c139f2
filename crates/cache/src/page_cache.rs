//! The cache itself.

use crate::list::{Ends, Links};
use crate::number_map::NumberMap;

#[derive(Clone, Debug)]
struct Slot {
    key: u64,
    bytes: Box<[u8]>,
}

/// A bounded cache of clean pages with `u64` keys (sector, page or block numbers).
///
/// Cost of each access: one hash look-up and a few list links; never proportional to the number of
/// pages. Same calls, same results: nothing depends on the order of the hash table.
#[derive(Clone, Debug)]
pub struct PageCache {
    page_size: usize,
    capacity: usize,
    index: NumberMap<u64, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    links: Links,
    /// First: most recently used.
    used: Ends,
}

impl PageCache {
    /// An empty cache of `capacity` pages of `page_size` bytes each. It holds at least 1 page, and
    /// fewer than 2^32 - 1. Memory is taken as pages come in, not ahead.
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

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A page's content; makes the page the most recently used one.
    pub fn read(&mut self, key: u64) -> Option<&[u8]> {
        let number = *self.index.get(&key)?;
        self.touch(number);
        self.slots.get(number as usize).map(|slot| &*slot.bytes)
    }

    /// A page as the medium has it now; it is the most recently used one. A full cache loses the
    /// least recently used page. Bytes that are missing are zeroes, and those beyond the page's
    /// size are left out.
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

    /// Forgets `count` pages from `first` on; where these are more than the cache can hold, all
    /// pages. Cost: one look-up for each, or none.
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

    /// A slot for a page that is not cached, entered in the index as the most recently used one.
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
