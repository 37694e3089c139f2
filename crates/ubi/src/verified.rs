//! Which PEBs of static volumes were read once and have the checksum of their header.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Peb;

/// A bit per PEB. Threads may set bits at the same time; only a writer, which is alone,
/// clears them.
#[derive(Debug)]
pub(crate) struct Verified(Vec<AtomicU64>);

impl Verified {
    /// Nothing is verified yet.
    pub fn none_of(pebs: u32) -> Self {
        Self((0..pebs.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether a PEB was added.
    pub fn has(&self, peb: Peb) -> bool {
        let word = self.0.get(peb.0 as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (peb.0 % 64)) != 0)
    }

    /// Adds a PEB.
    pub fn add(&self, peb: Peb) {
        if let Some(word) = self.0.get(peb.0 as usize / 64) {
            word.fetch_or(1 << (peb.0 % 64), Ordering::Relaxed);
        }
    }

    /// Removes a PEB, whose content changes.
    pub fn remove(&self, peb: Peb) {
        if let Some(word) = self.0.get(peb.0 as usize / 64) {
            word.fetch_and(!(1 << (peb.0 % 64)), Ordering::Relaxed);
        }
    }
}
