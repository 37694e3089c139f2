//! The map in memory: data blocks, the sequential log block, the ring of random log blocks.

use std::collections::{BTreeSet, VecDeque};

use nandkit_units::{BlockIndex, PageAddress};

use crate::present::Present;

/// The log block of a sequential stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequential {
    pub lbn: u32,
    pub block: u32,
    /// Pages 0 to `next - 1` are written, each at its offset.
    pub next: u32,
    /// A program failed: the block takes no more pages, and the logical block gets merged.
    pub failed: bool,
}

/// A log block of the ring.
#[derive(Clone, Debug)]
pub(super) struct Random {
    pub block: u32,
    /// The logical page of each written page.
    pub pages: Vec<u32>,
    /// A program failed: the block takes no more pages, and is marked bad when it is empty.
    pub failed: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub np: u32,
    /// For each logical block: its data block + 1, or 0.
    data: Vec<u32>,
    /// For each logical block: the number of pages written in its data block; `Np` if no more may
    /// be written in place.
    pub written: Vec<u16>,
    pub present: Present,
    pub sequential: Option<Sequential>,
    /// The ring, oldest block first; the last one is being written.
    pub ring: VecDeque<Random>,
    /// For each logical page: the position of its newest version in the ring, as flash block * Np +
    /// page + 1, or 0. A trimmed page keeps its entry, so that older versions do not come back
    /// (rule 8).
    entries: Vec<u64>,
    /// Logical pages with lost content.
    pub poisoned: BTreeSet<u64>,
}

impl State {
    pub fn new(lbns: u32, np: u32) -> Self {
        Self {
            np,
            data: vec![0; lbns as usize],
            written: vec![0; lbns as usize],
            present: Present::new(lbns, np),
            sequential: None,
            ring: VecDeque::new(),
            entries: vec![0; lbns as usize * np as usize],
            poisoned: BTreeSet::new(),
        }
    }

    #[inline]
    pub fn page(&self, lbn: u32, offset: u32) -> usize {
        lbn as usize * self.np as usize + offset as usize
    }

    #[inline]
    pub fn data(&self, lbn: u32) -> Option<u32> {
        self.data.get(lbn as usize).and_then(|block| block.checked_sub(1))
    }

    pub fn set_data(&mut self, lbn: u32, block: Option<u32>, written: u32) {
        if let Some(entry) = self.data.get_mut(lbn as usize) {
            *entry = block.map_or(0, |block| block + 1);
        }
        self.set_written(lbn, written);
    }

    pub fn set_written(&mut self, lbn: u32, written: u32) {
        if let Some(entry) = self.written.get_mut(lbn as usize) {
            *entry = written as u16;
        }
    }

    #[inline]
    pub fn entry(&self, page: usize) -> Option<PageAddress> {
        let place = self.entries.get(page)?.checked_sub(1)?;
        let np = u64::from(self.np);
        Some(BlockIndex((place / np) as u32).page((place % np) as u32))
    }

    pub fn set_entry(&mut self, page: usize, at: Option<PageAddress>) {
        if let Some(entry) = self.entries.get_mut(page) {
            *entry = at.map_or(0, |at| u64::from(at.block.0) * u64::from(self.np) + u64::from(at.page) + 1);
        }
    }

    /// Removes the ring's entries of a logical block.
    pub fn clear_entries(&mut self, lbn: u32) {
        let first = self.page(lbn, 0);
        self.entries.get_mut(first..first + self.np as usize).unwrap_or(&mut []).fill(0);
    }

    /// The address of a page's newest version, whether current or trimmed.
    #[inline]
    pub fn newest(&self, lbn: u32, offset: u32) -> Option<PageAddress> {
        if let Some(at) = self.entry(self.page(lbn, offset)) {
            return Some(at);
        }
        match self.sequential {
            Some(log) if log.lbn == lbn && offset < log.next => Some(BlockIndex(log.block).page(offset)),
            _ => self.data(lbn).map(|block| BlockIndex(block).page(offset)),
        }
    }

    /// The address of a page's current content.
    #[inline]
    pub fn locate(&self, lbn: u32, offset: u32) -> Option<PageAddress> {
        if self.present.get(lbn, offset) { self.newest(lbn, offset) } else { None }
    }

    #[inline]
    pub fn is_poisoned(&self, lbn: u32, offset: u32) -> bool {
        !self.poisoned.is_empty() && self.poisoned.contains(&(self.page(lbn, offset) as u64))
    }

    pub fn set_poisoned(&mut self, lbn: u32, offset: u32, poisoned: bool) {
        let page = self.page(lbn, offset) as u64;
        if poisoned {
            self.poisoned.insert(page);
        } else if !self.poisoned.is_empty() {
            self.poisoned.remove(&page);
        }
    }
}
