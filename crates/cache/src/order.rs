//! The write-back order: dirty pages by epoch, and by how long they have been dirty.

use std::collections::BTreeMap;

use nandkit_units::Nanos;

use crate::Epoch;
use crate::list::{Ends, Links, NONE};

/// The dirty pages. Cost per call: the logarithm of the number of epochs that have dirty pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOrder {
    by_epoch: Links,
    epochs: BTreeMap<Epoch, Ends>,
    by_age: Links,
    /// First: dirty for the longest time.
    ages: Option<Ends>,
    count: usize,
}

impl WriteOrder {
    /// A clean page became dirty.
    pub(crate) fn insert(&mut self, slot: u32, epoch: Epoch) {
        self.by_epoch.push_last(self.epochs.entry(epoch).or_insert(Ends::EMPTY), slot);
        self.by_age.push_last(self.ages.get_or_insert(Ends::EMPTY), slot);
        self.count += 1;
    }

    /// A page that is dirty in `epoch` became clean.
    pub(crate) fn remove(&mut self, slot: u32, epoch: Epoch) {
        if let Some(ends) = self.epochs.get_mut(&epoch) {
            self.by_epoch.remove(ends, slot);
            if ends.is_empty() {
                self.epochs.remove(&epoch);
            }
        }
        if let Some(ends) = &mut self.ages {
            self.by_age.remove(ends, slot);
        }
        self.count -= 1;
    }

    /// The page to be written first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.epochs.first_key_value().map(|(_, ends)| ends.first)
    }

    /// The lowest epoch with dirty pages.
    pub(crate) fn lowest_epoch(&self) -> Option<Epoch> {
        self.epochs.first_key_value().map(|(epoch, _)| *epoch)
    }

    /// The page that has been dirty for the longest time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.ages.map(|ends| ends.first).filter(|slot| *slot != NONE)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Whether something dirty since `since` has reached `limit` at `now`.
pub(crate) fn is_aged(since: Nanos, limit: Nanos, now: Nanos) -> bool {
    now.since(since) >= limit
}
