//! The cache itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use nandkit_units::{Nanos, StatisticValue, Statistics, random};

use crate::order::{WriteOrder, is_aged};
use crate::replacement::ReplacementOrder;
use crate::{CacheOptions, InvalidOptions, WriteBack};

/// A step in the order of write-back: pages of a lower epoch reach the medium before pages of a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What has to be written before a refused call can succeed: all dirty pages of epochs below `epoch`, then page `key`.
/// [`PageCache::next_for`] hands them out in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFirst {
    /// The page that is in the way.
    pub key: u64,
    /// The epoch in which it is dirty.
    pub epoch: Epoch,
}

/// Why a page cannot be changed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The page is not in the cache: [`PageCache::load`] it first, or [`PageCache::put`] it whole.
    NotCached,
    /// Older versions have to be written first.
    WriteFirst(WriteFirst),
}

/// A page that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPage<'a> {
    /// The page.
    pub key: u64,
    /// Its epoch.
    pub epoch: Epoch,
    /// Since when it is dirty.
    pub since: Nanos,
    /// Its content.
    pub bytes: &'a [u8],
}

#[derive(Clone, Debug)]
struct Slot {
    key: u64,
    dirty: Option<(Epoch, Nanos)>,
    bytes: Box<[u8]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    insertions: u64,
    evictions: u64,
    writebacks: u64,
    dirtied: u64,
    redirtied: u64,
    dirty_discards: u64,
    order_stalls: u64,
}

/// A bounded cache of pages with `u64` keys (sector, page or block numbers).
///
/// Cost of each access: one hash look-up and a few list links (see the replacement rules for clean-first LRU, and the logarithm of the number of live epochs where a
/// page becomes dirty or clean); never proportional to the number of pages. Same calls, same results: nothing depends on the order of the hash table.
#[derive(Clone, Debug)]
pub struct PageCache {
    options: CacheOptions,
    index: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    replacement: ReplacementOrder,
    order: WriteOrder,
    counts: Counts,
}

/// Fixed, so that runs are the same on every machine; no key's place depends on the process.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = random::hash(self.0, value, 0);
    }
}

impl PageCache {
    /// An empty cache. Refuses options of which nothing can be made.
    pub fn new(options: CacheOptions) -> Result<Self, InvalidOptions> {
        let options = options.validated()?;
        Ok(Self {
            options,
            index: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            replacement: ReplacementOrder::new(options.replacement),
            order: WriteOrder::default(),
            counts: Counts::default(),
        })
    }

    /// The options of this cache.
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many of its pages are dirty.
    pub fn dirty_len(&self) -> usize {
        self.order.count()
    }

    /// The lowest epoch that has dirty pages.
    pub fn lowest_dirty_epoch(&self) -> Option<Epoch> {
        self.order.lowest_epoch()
    }

    /// The epoch in which a page is dirty; `None` where it is clean or not cached.
    pub fn dirty_epoch(&self, key: u64) -> Option<Epoch> {
        self.slot(key).and_then(|(_, slot)| slot.dirty).map(|(epoch, _)| epoch)
    }

    /// A page's content, as a use: counts a hit or a miss and makes the page the most recently used one.
    pub fn read(&mut self, key: u64) -> Option<&[u8]> {
        let Some(&number) = self.index.get(&key) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        let slot = self.slots.get(number as usize)?;
        self.replacement.touch(number, slot.dirty.is_some());
        Some(&slot.bytes)
    }

    /// A page's content without any effect on counts and order.
    pub fn peek(&self, key: u64) -> Option<&[u8]> {
        self.slot(key).map(|(_, slot)| &*slot.bytes)
    }

    /// Takes in a page that was read from the medium (a shorter content is completed with zeroes). A page that is already
    /// cached stays as it is, since it is at least as new. Refused where the page that has to go is dirty.
    pub fn load(&mut self, key: u64, bytes: &[u8]) -> Result<(), WriteFirst> {
        if self.index.contains_key(&key) {
            return Ok(());
        }
        let number = self.take_slot(key)?;
        self.fill(number, bytes);
        self.replacement.insert(number, false);
        Ok(())
    }

    /// Makes a cached page dirty in `epoch` and lends it for a change; counts as a use (a hit or a miss). Refused where the page is not cached, or dirty in another epoch.
    pub fn modify(&mut self, key: u64, epoch: Epoch, now: Nanos) -> Result<&mut [u8], Refused> {
        let Some(&number) = self.index.get(&key) else {
            self.counts.misses += 1;
            return Err(Refused::NotCached);
        };
        self.make_dirty(number, epoch, now).map_err(Refused::WriteFirst)?;
        self.counts.hits += 1;
        match self.slots.get_mut(number as usize) {
            Some(slot) => Ok(&mut slot.bytes),
            None => Err(Refused::NotCached),
        }
    }

    /// Writes a whole page (a shorter content is completed with zeroes), cached or not; no read of the medium is needed. Refused where the page is dirty in
    /// another epoch, or where the page that has to go for it is dirty.
    pub fn put(&mut self, key: u64, bytes: &[u8], epoch: Epoch, now: Nanos) -> Result<(), WriteFirst> {
        let number = match self.index.get(&key) {
            Some(&number) => {
                self.make_dirty(number, epoch, now)?;
                number
            }
            None => {
                let number = self.take_slot(key)?;
                self.replacement.insert(number, false);
                self.make_dirty(number, epoch, now)?;
                number
            }
        };
        self.fill(number, bytes);
        Ok(())
    }

    /// The page to be written first: lowest epoch, then the one that became dirty first. `None` where all is clean.
    pub fn next_dirty(&self) -> Option<DirtyPage<'_>> {
        self.dirty_page(self.order.first()?)
    }

    /// The next page to be written so that a refused call can succeed; `None` when it can be tried again.
    pub fn next_for(&self, need: WriteFirst) -> Option<DirtyPage<'_>> {
        let number = *self.index.get(&need.key)?;
        let page = self.dirty_page(number)?;
        self.first_below(page.epoch).or(Some(page))
    }

    /// The next page that the write-back rule wants on the medium at `now`; `None` where it is content. To be asked
    /// after each change and, with an age limit, as time goes on.
    pub fn next_due(&self, now: Nanos) -> Option<DirtyPage<'_>> {
        match self.options.write_back {
            WriteBack::Through => self.next_dirty(),
            WriteBack::Back { dirty_limit_pages, .. } if self.order.count() > dirty_limit_pages => self.next_dirty(),
            WriteBack::Back { age_limit, .. } => {
                let oldest = self.dirty_page(self.order.oldest()?)?;
                if !is_aged(oldest.since, age_limit, now) {
                    return None;
                }
                self.first_below(oldest.epoch).or(Some(oldest))
            }
        }
    }

    /// When the age limit makes the next page due; `None` where no page is dirty or there is no such limit.
    pub fn due_at(&self) -> Option<Nanos> {
        match self.options.write_back {
            WriteBack::Through => None,
            WriteBack::Back { age_limit, .. } => {
                self.order.oldest().and_then(|number| self.dirty_page(number)).map(|page| page.since + age_limit)
            }
        }
    }

    /// The page was written. False where it was not dirty.
    pub fn mark_clean(&mut self, key: u64) -> bool {
        let Some(&number) = self.index.get(&key) else { return false };
        let Some(slot) = self.slots.get_mut(number as usize) else { return false };
        let Some((epoch, _)) = slot.dirty.take() else { return false };
        self.order.remove(number, epoch);
        self.replacement.set_dirty(number, false);
        self.counts.writebacks += 1;
        true
    }

    /// Drops a page, even a dirty one whose content is of no use any more (a deleted file's cluster). False where it was not cached.
    pub fn discard(&mut self, key: u64) -> bool {
        let Some(number) = self.index.remove(&key) else { return false };
        self.replacement.remove(number);
        if let Some((epoch, _)) = self.slots.get_mut(number as usize).and_then(|slot| slot.dirty.take()) {
            self.order.remove(number, epoch);
            self.counts.dirty_discards += 1;
        }
        self.free.push(number);
        true
    }

    /// Drops all pages, dirty ones too: what a power cut does to memory. Counts stay.
    pub fn clear(&mut self) {
        self.index.clear();
        self.slots.clear();
        self.free.clear();
        self.replacement = ReplacementOrder::new(self.options.replacement);
        self.order = WriteOrder::default();
    }

    fn slot(&self, key: u64) -> Option<(u32, &Slot)> {
        let number = *self.index.get(&key)?;
        self.slots.get(number as usize).map(|slot| (number, slot))
    }

    fn dirty_page(&self, number: u32) -> Option<DirtyPage<'_>> {
        let slot = self.slots.get(number as usize)?;
        let (epoch, since) = slot.dirty?;
        Some(DirtyPage { key: slot.key, epoch, since, bytes: &slot.bytes })
    }

    fn first_below(&self, epoch: Epoch) -> Option<DirtyPage<'_>> {
        self.next_dirty().filter(|page| page.epoch < epoch)
    }

    /// Marks a page as used and dirty in `epoch`.
    fn make_dirty(&mut self, number: u32, epoch: Epoch, now: Nanos) -> Result<(), WriteFirst> {
        let Some(slot) = self.slots.get_mut(number as usize) else { return Ok(()) };
        match slot.dirty {
            Some((held, _)) if held != epoch => {
                self.counts.order_stalls += 1;
                return Err(WriteFirst { key: slot.key, epoch: held });
            }
            Some(_) => self.counts.redirtied += 1,
            None => {
                slot.dirty = Some((epoch, now));
                self.order.insert(number, epoch);
                self.replacement.set_dirty(number, true);
                self.counts.dirtied += 1;
            }
        }
        self.replacement.touch(number, true);
        Ok(())
    }

    /// A slot for a page that is not cached, entered in the index. A full cache loses its victim, which must be clean.
    fn take_slot(&mut self, key: u64) -> Result<u32, WriteFirst> {
        let number = if self.index.len() >= self.options.capacity_pages {
            self.evict()?
        } else if let Some(number) = self.free.pop() {
            number
        } else {
            let bytes = vec![0; self.options.page_size].into_boxed_slice();
            self.slots.push(Slot { key, dirty: None, bytes });
            (self.slots.len() - 1) as u32
        };
        if let Some(slot) = self.slots.get_mut(number as usize) {
            slot.key = key;
        }
        self.index.insert(key, number);
        self.counts.insertions += 1;
        Ok(number)
    }

    fn evict(&mut self) -> Result<u32, WriteFirst> {
        // A full cache has a victim, since it holds at least one page.
        let number = self.replacement.victim().unwrap_or(0);
        let Some(slot) = self.slots.get(number as usize) else { return Ok(number) };
        if let Some((epoch, _)) = slot.dirty {
            return Err(WriteFirst { key: slot.key, epoch });
        }
        self.index.remove(&slot.key);
        self.replacement.remove(number);
        self.counts.evictions += 1;
        Ok(number)
    }

    fn fill(&mut self, number: u32, bytes: &[u8]) {
        if let Some(slot) = self.slots.get_mut(number as usize) {
            let length = bytes.len().min(slot.bytes.len());
            let (head, tail) = slot.bytes.split_at_mut(length);
            head.copy_from_slice(&bytes[..length]);
            tail.fill(0);
        }
    }
}

impl Statistics for PageCache {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let counts = &self.counts;
        for (name, count) in [
            ("cache_hits", counts.hits),
            ("cache_misses", counts.misses),
            ("cache_insertions", counts.insertions),
            ("cache_evictions", counts.evictions),
            ("cache_writebacks", counts.writebacks),
            ("cache_dirtied", counts.dirtied),
            ("cache_redirtied", counts.redirtied),
            ("cache_dirty_discards", counts.dirty_discards),
            ("cache_order_stalls", counts.order_stalls),
        ] {
            sink(name, StatisticValue::Count(count));
        }
        sink("cache_pages", StatisticValue::Level(self.len() as f64));
        sink("cache_dirty_pages", StatisticValue::Level(self.dirty_len() as f64));
    }
}
