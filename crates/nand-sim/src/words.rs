//! Tables of 64-bit words per block, shared between snapshots until one of them writes.
//!
//! The words are atomics although only one thread writes at a time: a block's table may then be
//! written through a shared reference once the reference count shows that no other holder exists.
//! `Arc::get_mut` proves the same with a locked compare-exchange, which at tens of millions of
//! programs per second is the larger part of the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The words of one page.
pub type PageWords<const WORDS: usize> = [AtomicU64; WORDS];

/// For each slot a copy-on-write table of equally many pages with `WORDS` words each.
#[derive(Clone, Debug)]
pub struct WordTables<const WORDS: usize> {
    tables: Vec<Arc<[PageWords<WORDS>]>>,
    pages: usize,
}

impl<const WORDS: usize> WordTables<WORDS> {
    /// No slots yet; each will have `pages` pages.
    pub const fn new(pages: usize) -> Self {
        Self { tables: Vec::new(), pages }
    }

    /// Adds a slot whose words are 0.
    pub fn add(&mut self) {
        self.tables.push((0..self.pages).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect());
    }

    /// The slot's words by page, for reading. Empty if the slot does not exist.
    #[inline]
    pub fn words(&self, slot: usize) -> &[PageWords<WORDS>] {
        self.tables.get(slot).map_or(&[], |table| table)
    }

    /// The slot's words by page, for writing, not shared with any snapshot. Empty if the slot does
    /// not exist.
    #[inline(always)]
    pub fn words_mut(&mut self, slot: usize) -> &[PageWords<WORDS>] {
        let Some(table) = self.tables.get_mut(slot) else { return &[] };
        if Arc::strong_count(table) != 1 {
            *table = copy(table);
        }
        // A snapshot on another thread that just dropped the table did so with a release; its reads
        // are over from here on.
        fence(Ordering::Acquire);
        table
    }

    /// Sets every word of the slot to 0.
    pub fn clear(&mut self, slot: usize) {
        for word in self.words_mut(slot).as_flattened() {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cold]
fn copy<const WORDS: usize>(table: &[PageWords<WORDS>]) -> Arc<[PageWords<WORDS>]> {
    table.iter().map(|words| words.each_ref().map(|word| AtomicU64::new(word.load(Ordering::Relaxed)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_do_not_see_later_writes() {
        let mut tables = WordTables::<1>::new(2);
        tables.add();
        tables.words_mut(0)[1][0].store(7, Ordering::Relaxed);
        let snapshot = tables.clone();
        tables.words_mut(0)[1][0].store(8, Ordering::Relaxed);
        assert_eq!(snapshot.words(0)[1][0].load(Ordering::Relaxed), 7);
        assert_eq!(tables.words(0)[1][0].load(Ordering::Relaxed), 8);
        let mut other = snapshot.clone();
        drop(snapshot);
        other.clear(0);
        assert_eq!(other.words(0)[1][0].load(Ordering::Relaxed), 0);
        assert!(tables.words(3).is_empty());
    }
}
