//! Shared slots: slots that logical pages point at other than the one in the slot's tag.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// The logical pages that point at a slot, if they are not just the page in its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharers {
    /// The page in the tag, if it points at this slot.
    pub owner: Option<u32>,
    /// All other pages that point at this slot.
    pub others: SmallVec<[u32; 2]>,
}

impl Sharers {
    /// All pages that point at the slot, the owner first.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.owner.into_iter().chain(self.others.iter().copied())
    }
}

/// The sharers of each slot. A slot without an entry has at most one reference, from its owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    slots: BTreeMap<u32, Sharers>,
    /// The number of pages in `others` of all slots.
    count: usize,
}

impl Aliases {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of pages that point at a slot whose tag names another page.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The pages that point at a slot whose tag names another page, in slot order.
    pub fn pages(&self) -> Vec<u32> {
        self.slots.values().flat_map(|sharers| sharers.others.iter().copied()).collect()
    }

    pub fn get(&self, slot: u32) -> Option<&Sharers> {
        self.slots.get(&slot)
    }

    /// Adds a reference from a page to a slot; `owner` is the page in the slot's tag, if it points
    /// there.
    pub fn add(&mut self, slot: u32, owner: Option<u32>, page: u32) {
        let sharers = self.slots.entry(slot).or_insert_with(|| Sharers { owner, others: SmallVec::new() });
        sharers.others.push(page);
        self.count += 1;
    }

    /// Sets the page in a slot's tag, or `None` if that page does not point there.
    pub fn set_owner(&mut self, slot: u32, owner: Option<u32>) {
        if let Some(sharers) = self.slots.get_mut(&slot) {
            sharers.owner = owner;
        }
    }

    /// Removes a reference from a page to a slot; returns whether other references remain.
    #[inline(never)]
    pub fn remove(&mut self, slot: u32, page: u32) -> bool {
        let Some(sharers) = self.slots.get_mut(&slot) else { return false };
        if sharers.owner == Some(page) {
            sharers.owner = None;
        } else {
            let before = sharers.others.len();
            sharers.others.retain(|other| *other != page);
            self.count -= before - sharers.others.len();
        }
        let left = sharers.owner.is_some() || !sharers.others.is_empty();
        if sharers.others.is_empty() {
            self.slots.remove(&slot);
        }
        left
    }

    /// Removes a slot's entry, because its content has moved.
    pub fn take(&mut self, slot: u32) -> Option<Sharers> {
        let sharers = self.slots.remove(&slot)?;
        self.count -= sharers.others.len();
        Some(sharers)
    }

    /// Every shared slot with its sharers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Sharers)> {
        self.slots.iter().map(|(slot, sharers)| (*slot, sharers))
    }
}
