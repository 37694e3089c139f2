//! The replacement order: who was used last, and who has to go.

use std::collections::BTreeMap;

use crate::Replacement;
use crate::list::{Ends, Links, NONE};

/// All pages from the most to the least recently used one and, for clean-first LRU, the clean ones among them.
///
/// Cost per call: constant for LRU; for clean-first LRU the logarithm of the number of clean pages, instead of the paper's walk through the window.
#[derive(Clone, Debug)]
pub(crate) struct ReplacementOrder {
    links: Links,
    /// First: most recently used.
    used: Ends,
    count: usize,
    window: Option<Window>,
}

#[derive(Clone, Debug)]
struct Window {
    pages: usize,
    /// The most recently used page inside the window; `NONE` where nothing is cached.
    edge: u32,
    /// Grows with each use, so that the order of stamps is the order of use.
    clock: u64,
    stamps: Vec<u64>,
    clean: BTreeMap<u64, u32>,
}

impl ReplacementOrder {
    pub(crate) fn new(rule: Replacement) -> Self {
        let window = match rule {
            Replacement::CleanFirst { window_pages } if window_pages > 1 => {
                Some(Window { pages: window_pages, edge: NONE, clock: 0, stamps: Vec::new(), clean: BTreeMap::new() })
            }
            Replacement::Lru | Replacement::CleanFirst { .. } => None,
        };
        Self { links: Links::default(), used: Ends::EMPTY, count: 0, window }
    }

    /// A page came in; it is the most recently used one.
    pub(crate) fn insert(&mut self, slot: u32, dirty: bool) {
        self.links.push_first(&mut self.used, slot);
        self.count += 1;
        if let Some(window) = &mut self.window {
            window.stamp(slot);
            window.set_dirty(slot, dirty);
            if self.count <= window.pages {
                window.edge = slot;
            }
        }
    }

    /// A page left.
    pub(crate) fn remove(&mut self, slot: u32) {
        if let Some(window) = &mut self.window {
            let stamp = window.stamp_of(slot);
            window.clean.remove(&stamp);
            if stamp <= window.stamp_of(window.edge) {
                // The window loses a page; the next more recently used one enters, if there is one, else the edge steps back.
                let entering = self.links.before(window.edge);
                if entering != NONE {
                    window.edge = entering;
                } else if window.edge == slot {
                    window.edge = self.links.after(slot);
                }
            }
        }
        self.links.remove(&mut self.used, slot);
        self.count -= 1;
    }

    /// A page was used.
    pub(crate) fn touch(&mut self, slot: u32, dirty: bool) {
        if self.used.first != slot {
            self.remove(slot);
            self.insert(slot, dirty);
        }
    }

    /// A page became dirty or clean.
    pub(crate) fn set_dirty(&mut self, slot: u32, dirty: bool) {
        if let Some(window) = &mut self.window {
            window.set_dirty(slot, dirty);
        }
    }

    /// The page that goes next.
    pub(crate) fn victim(&self) -> Option<u32> {
        if self.used.is_empty() {
            return None;
        }
        if let Some(window) = &self.window
            && let Some((&stamp, &slot)) = window.clean.first_key_value()
            && stamp <= window.stamp_of(window.edge)
        {
            return Some(slot);
        }
        Some(self.used.last)
    }
}

impl Window {
    fn stamp(&mut self, slot: u32) {
        let index = slot as usize;
        if index >= self.stamps.len() {
            self.stamps.resize(index + 1, 0);
        }
        self.clock += 1;
        self.stamps[index] = self.clock;
    }

    fn stamp_of(&self, slot: u32) -> u64 {
        self.stamps.get(slot as usize).copied().unwrap_or(0)
    }

    fn set_dirty(&mut self, slot: u32, dirty: bool) {
        let stamp = self.stamp_of(slot);
        if dirty {
            self.clean.remove(&stamp);
        } else {
            self.clean.insert(stamp, slot);
        }
    }
}
