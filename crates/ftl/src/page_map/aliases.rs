//! Slots to which other logical pages point than the one in their tag.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// Who points at a slot, where that is not just the page in its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharers {
    /// The page in the tag, if it points here.
    pub owner: Option<u32>,
    /// Other pages.
    pub others: SmallVec<[u32; 2]>,
}

impl Sharers {
    /// All of them, the owner first.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.owner.into_iter().chain(self.others.iter().copied())
    }
}

/// By slot. A slot without an entry has one reference at most, that of its owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    slots: BTreeMap<u32, Sharers>,
    /// Pages that are in `others` of some slot.
    count: usize,
}

impl Aliases {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Pages that point at a slot whose tag names another one.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The same in order of their slots.
    pub fn pages(&self) -> Vec<u32> {
        self.slots.values().flat_map(|sharers| sharers.others.iter().copied()).collect()
    }

    pub fn get(&self, slot: u32) -> Option<&Sharers> {
        self.slots.get(&slot)
    }

    /// A page begins to point at a slot whose owner, if it points there, is this one.
    pub fn add(&mut self, slot: u32, owner: Option<u32>, page: u32) {
        let sharers = self.slots.entry(slot).or_insert_with(|| Sharers { owner, others: SmallVec::new() });
        sharers.others.push(page);
        self.count += 1;
    }

    /// Names the page in a slot's tag, or that it does not point there.
    pub fn set_owner(&mut self, slot: u32, owner: Option<u32>) {
        if let Some(sharers) = self.slots.get_mut(&slot) {
            sharers.owner = owner;
        }
    }

    /// A page no longer points at a slot. Whether others still do.
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

    /// Takes a slot's entry out: its content has moved.
    pub fn take(&mut self, slot: u32) -> Option<Sharers> {
        let sharers = self.slots.remove(&slot)?;
        self.count -= sharers.others.len();
        Some(sharers)
    }

    /// Every slot with its sharers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Sharers)> {
        self.slots.iter().map(|(slot, sharers)| (*slot, sharers))
    }
}
