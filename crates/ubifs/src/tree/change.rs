//! Changes of the index. Each marks the nodes that it changes dirty, and all above them, whose
//! branches lead to other places then.

use std::ops::RangeInclusive;

use super::{At, Entry, IndexNode, NOWHERE, NodeId, Tree};
use crate::layout::{Key, KeyType};
use crate::node::Place;

impl Tree {
    /// Makes this the only leaf of a key; returns the one before.
    pub fn set(&mut self, key: Key, place: Place) -> Option<Place> {
        let before = self.set_nth(key, 0, place);
        match before {
            // More than one: a damaged index has it.
            Some(_) => while self.remove_nth(key, 1).is_some() {},
            None => self.insert_nth(key, 0, place),
        }
        before
    }

    /// Adds a leaf that has `nth` leaves of its key before it, or all if there are less.
    pub fn insert_nth(&mut self, key: Key, nth: usize, place: Place) {
        let mut at = if self.first(key).is_some() { self.seek(key) } else { self.home(key) };
        for _ in 0..nth {
            let next = self.settle(at).filter(|next| self.entry(*next).is_some_and(|entry| entry.key == key));
            let Some(next) = next else { break };
            at = At { slot: next.slot + 1, ..next };
        }
        self.leaves += 1;
        self.insert(at, Entry { key, place, child: None });
    }

    /// Changes the leaf that has `nth` leaves of its key before it; returns the one before, or
    /// `None` if there is none to change.
    pub fn set_nth(&mut self, key: Key, nth: usize, place: Place) -> Option<Place> {
        let at = self.find(key, nth)?;
        self.set_at(at, place)
    }

    /// Changes the leaf at a place between entries; returns the one before.
    pub(super) fn set_at(&mut self, at: At, place: Place) -> Option<Place> {
        self.mark_dirty(at.node);
        let entry = self.nodes.get_mut(at.node.position())?.entries.get_mut(at.slot)?;
        Some(std::mem::replace(&mut entry.place, place))
    }

    /// Removes the leaf that has `nth` leaves of its key before it, and returns it.
    pub fn remove_nth(&mut self, key: Key, nth: usize) -> Option<Place> {
        let at = self.find(key, nth)?;
        let place = self.entry(at)?.place;
        self.remove_entries(at, 1);
        Some(place)
    }

    /// Removes all leaves of a range of keys, and returns them in order.
    pub fn remove(&mut self, keys: RangeInclusive<Key>) -> Vec<(Key, Place)> {
        let mut removed = Vec::new();
        while let Some(at) = self.settle(self.seek(*keys.start())) {
            let entries = self.node(at.node).entries.get(at.slot..).unwrap_or_default();
            let count = entries.partition_point(|entry| entry.key <= *keys.end());
            if count == 0 {
                break;
            }
            removed.extend(entries.iter().take(count).map(|entry| (entry.key, entry.place)));
            self.remove_entries(at, count);
        }
        removed
    }

    /// Removes so many leaves of one node, from a place on.
    fn remove_entries(&mut self, at: At, count: usize) {
        self.mark_dirty(at.node);
        self.leaves = self.leaves.saturating_sub(count);
        self.edit(at.node, |entries| drop(entries.drain(at.slot..at.slot + count)));
        self.remove_empty(at.node);
    }

    /// Removes a node without entries, and those above it that have none then. A root with one
    /// branch gives way to the node below. All that change must be dirty.
    fn remove_empty(&mut self, mut id: NodeId) {
        while self.node(id).entries.is_empty() {
            let Some((parent, slot)) = self.branch_to(id) else {
                // The root stays, without any leaf.
                self.nodes.get_mut(id.position()).into_iter().for_each(|root| root.level = 0);
                return;
            };
            self.release(id);
            self.edit(parent, |entries| {
                entries.remove(slot);
            });
            id = parent;
        }
        while let [Entry { child: Some(child), .. }] = *self.node(self.root).entries.as_slice() {
            self.release(self.root);
            self.root = child;
            self.nodes.get_mut(child.position()).into_iter().for_each(|root| root.parent = None);
            // As Linux does: who changes leaves changes the root.
            self.mark_dirty(child);
        }
    }

    /// Inserts an entry; splits the nodes that are full.
    fn insert(&mut self, at: At, entry: Entry) {
        self.mark_dirty(at.node);
        if at.slot == 0 {
            self.lower_branches(at.node, entry.key);
        }
        let (At { node: mut id, mut slot }, mut entry) = (at, entry);
        // A file that is written from its beginning to its end fills its nodes.
        let last = self.node(id).entries.last().map(|last| last.key);
        let is_next = last.is_some_and(|last| last.key_type() == Some(KeyType::Data) && last.is_before(entry.key));
        loop {
            let length = self.node(id).entries.len();
            if length < self.fanout {
                self.edit(id, |entries| entries.insert(slot, entry));
                break;
            }
            let Some(right) = self.split(id, (slot, is_next), entry) else { break };
            let branch = |entries: &[Entry], child| {
                entries.first().map(|first| Entry { key: first.key, place: NOWHERE, child: Some(child) })
            };
            let Some(to_right) = branch(&self.node(right).entries, right) else { break };
            if let Some((parent, left)) = self.branch_to(id) {
                (id, slot, entry) = (parent, left + 1, to_right);
                continue;
            }
            let Some(to_left) = branch(&self.node(id).entries, id) else { break };
            let level = self.node(id).level.saturating_add(1);
            self.root = self.allocate(level, None, vec![to_left, to_right]).unwrap_or(self.root);
            break;
        }
    }

    /// Splits a full node for one entry more: in halves, but if the entry continues a file and
    /// comes at the end, it is alone in the new node. Returns the new node, which follows this one
    /// and has no branch yet.
    fn split(&mut self, id: NodeId, (slot, is_next): (usize, bool), entry: Entry) -> Option<NodeId> {
        let (length, level, parent) = (self.node(id).entries.len(), self.node(id).level, self.node(id).parent);
        let half = length.div_ceil(2);
        let (keep, is_left) = match slot {
            _ if slot >= length && is_next => (length, false),
            _ if slot < half => (half - 1, true),
            _ => (half, false),
        };
        let mut moved = Vec::new();
        self.edit(id, |entries| {
            moved = entries.split_off(keep.min(length));
            if is_left {
                entries.insert(slot, entry);
            } else {
                moved.insert((slot - keep).min(moved.len()), entry);
            }
        });
        self.allocate(level, parent, moved)
    }

    /// Lowers the keys of the branches that lead to a node, to which a first entry with this key
    /// is added.
    fn lower_branches(&mut self, mut id: NodeId, key: Key) {
        while let Some((parent, slot)) = self.branch_to(id) {
            let node = self.nodes.get_mut(parent.position());
            let branch = node.and_then(|node| node.entries.get_mut(slot)).filter(|branch| branch.key > key);
            let Some(branch) = branch else { return };
            branch.key = key;
            id = parent;
        }
    }

    /// Marks a node and those above it dirty.
    pub(super) fn mark_dirty(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(node) = next.and_then(|id| self.nodes.get_mut(id.position())) {
            // Above a dirty node all are dirty.
            let Some(place) = node.place.take() else { return };
            self.obsolete.push(place);
            next = node.parent;
        }
    }

    /// Changes the entries of a dirty node.
    fn edit(&mut self, id: NodeId, change: impl FnOnce(&mut Vec<Entry>)) {
        let Some(node) = self.nodes.get_mut(id.position()) else { return };
        let before = node.bytes();
        change(&mut node.entries);
        let after = node.bytes();
        self.size = self.size - before + after;
    }

    /// Makes a dirty node of these entries, which lead to no other node from now on; `None` if
    /// there are too many nodes.
    fn allocate(&mut self, level: u16, parent: Option<NodeId>, entries: Vec<Entry>) -> Option<NodeId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let id = NodeId::at(self.nodes.len())?;
                self.nodes.push(super::MISSING.clone());
                id
            }
        };
        for child in entries.iter().filter_map(|entry| entry.child) {
            self.nodes.get_mut(child.position()).into_iter().for_each(|child| child.parent = Some(id));
        }
        let node = IndexNode { entries, place: None, parent, level };
        self.size += node.bytes();
        *self.nodes.get_mut(id.position())? = node;
        Some(id)
    }

    /// Frees a dirty node, to which no branch leads any more.
    fn release(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.position()) {
            let bytes = node.bytes();
            *node = super::MISSING.clone();
            self.size -= bytes;
            self.free.push(id);
        }
    }
}
