//! The index in memory: a B+tree of its nodes as they are on flash, from keys to the places of
//! leaves. A commit writes the nodes that changed, and no others.
//!
//! Several leaves may have one key (names with one hash): they stand beside each other, also across
//! nodes. The key of a branch is at most the first key below it, and at least the last key below
//! the branch before it; it is not raised when the first entry below goes (facts: Linux
//! `fs/ubifs/tnc.c`).

mod change;
mod commit;
mod load;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::slice;

use crate::layout::{ALIGNMENT, Branch, HEADER_SIZE, Index, Key};
use crate::node::Place;

/// The fewest entries that a full node has: with two, one of its halves would be empty.
const FANOUT_MIN: u32 = 3;

/// The place of a child that is not on flash.
const NOWHERE: Place = Place { leb: 0, offset: 0, length: 0 };

/// An index node in memory: its number in the list of nodes, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    /// The node at a position in the list; `None` if the list is too long.
    fn at(position: usize) -> Option<Self> {
        u32::try_from(position + 1).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The position in the list.
    fn position(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A branch: to a leaf, or to a node one level below.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    /// The place of what it leads to; of a dirty child where it was last, or [`NOWHERE`].
    place: Place,
    /// The node below; `None` if it leads to a leaf.
    child: Option<NodeId>,
}

/// An index node. It is dirty, other than what is on flash, if it has no place there.
#[derive(Clone, Debug)]
struct IndexNode {
    entries: Vec<Entry>,
    place: Option<Place>,
    parent: Option<NodeId>,
    /// 0 for nodes whose entries lead to leaves.
    level: u16,
}

impl IndexNode {
    /// Bytes on flash.
    fn encoded_length(&self) -> usize {
        HEADER_SIZE + size_of::<Index>() + size_of::<Branch>() * self.entries.len()
    }

    /// Bytes on flash with their alignment.
    fn bytes(&self) -> u64 {
        (self.encoded_length() as u64).next_multiple_of(ALIGNMENT.into())
    }
}

/// What stands for a node that is not there.
static MISSING: IndexNode = IndexNode { entries: Vec::new(), place: None, parent: None, level: 0 };

/// A place between the entries of a node of level 0.
#[derive(Clone, Copy, Debug)]
struct At {
    node: NodeId,
    slot: usize,
}

/// The index.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// All nodes, and those that are free for new ones.
    nodes: Vec<IndexNode>,
    free: Vec<NodeId>,
    root: NodeId,
    /// The most entries of a node.
    fanout: usize,
    leaves: usize,
    /// Bytes of all nodes.
    size: u64,
    /// Where nodes were on flash that are dirty or gone.
    obsolete: Vec<Place>,
    /// Ranges of keys of which something is missing of the index on flash, or was mended.
    lost: Vec<RangeInclusive<Key>>,
}

impl Tree {
    /// A tree without leaves, whose nodes have at most so many entries.
    pub fn new(fanout: u32) -> Self {
        let root = MISSING.clone();
        let size = root.bytes();
        Self {
            nodes: vec![root],
            free: Vec::new(),
            root: NodeId(NonZeroU32::MIN),
            fanout: fanout.max(FANOUT_MIN) as usize,
            leaves: 0,
            size,
            obsolete: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// The first leaf of a key.
    pub fn first(&self, key: Key) -> Option<Place> {
        let found = self.entry(self.settle(self.seek(key))?)?;
        (found.key == key).then_some(found.place)
    }

    /// The leaves of a key, in order.
    pub fn get(&self, key: Key) -> Vec<Place> {
        self.range(key..=key).map(|(_, place)| place).collect()
    }

    /// The leaves of a range of keys, in order. Cost: of the first one that of a search, of each
    /// other one a step.
    pub fn range(&self, keys: RangeInclusive<Key>) -> Leaves<'_> {
        let start = self.seek(*keys.start());
        let entries = self.node(start.node).entries.get(start.slot..).unwrap_or_default().iter();
        Leaves { tree: self, node: Some(start.node), entries, last: *keys.end() }
    }

    /// All leaves, in order.
    pub fn all(&self) -> Leaves<'_> {
        self.range(Key::new(0, 0)..=Key::new(u32::MAX, u32::MAX))
    }

    fn node(&self, id: NodeId) -> &IndexNode {
        self.nodes.get(id.position()).unwrap_or(&MISSING)
    }

    fn entry(&self, at: At) -> Option<&Entry> {
        self.node(at.node).entries.get(at.slot)
    }

    /// The place in front of the first entry with this key or a larger one. It may be at the end of
    /// a node, if that entry is the first of the next one.
    fn seek(&self, key: Key) -> At {
        let mut id = self.root;
        loop {
            let entries = &self.node(id).entries;
            let smaller = entries.partition_point(|entry| entry.key < key);
            // Entries with the key of a branch may end the node in front of it.
            match entries.get(smaller.saturating_sub(1)).and_then(|entry| entry.child) {
                Some(child) => id = child,
                None => return At { node: id, slot: smaller },
            }
        }
    }

    /// Where a new leaf of a key that has none goes: below the last branch whose key is not larger.
    /// No two branches may have one key, but for names with one hash (Linux
    /// `dbg_check_old_index`).
    fn home(&self, key: Key) -> At {
        let mut id = self.root;
        loop {
            let entries = &self.node(id).entries;
            let not_larger = entries.partition_point(|entry| entry.key <= key);
            match entries.get(not_larger.saturating_sub(1)).and_then(|entry| entry.child) {
                Some(child) => id = child,
                None => return At { node: id, slot: not_larger },
            }
        }
    }

    /// A place in front of an entry instead of that behind the one before, if there is a further
    /// one.
    fn settle(&self, at: At) -> Option<At> {
        if at.slot < self.node(at.node).entries.len() {
            return Some(at);
        }
        self.next_node(at.node).map(|node| At { node, slot: 0 })
    }

    /// The place in front of the entry that has so many of its key before it.
    fn find(&self, key: Key, nth: usize) -> Option<At> {
        let mut at = self.settle(self.seek(key))?;
        for _ in 0..nth {
            self.entry(at).filter(|entry| entry.key == key)?;
            at = self.settle(At { slot: at.slot + 1, ..at })?;
        }
        self.entry(at).is_some_and(|entry| entry.key == key).then_some(at)
    }

    /// The parent of a node, and which of its entries leads to the node.
    fn branch_to(&self, id: NodeId) -> Option<(NodeId, usize)> {
        let parent = self.node(id).parent?;
        let slot = self.node(parent).entries.iter().position(|entry| entry.child == Some(id))?;
        Some((parent, slot))
    }

    /// The next node of level 0.
    fn next_node(&self, mut id: NodeId) -> Option<NodeId> {
        let mut next = loop {
            let (parent, slot) = self.branch_to(id)?;
            match self.node(parent).entries.get(slot + 1) {
                Some(entry) => break entry.child?,
                None => id = parent,
            }
        };
        while let Some(child) = self.node(next).entries.first().and_then(|entry| entry.child) {
            next = child;
        }
        Some(next)
    }
}

/// Leaves of a tree in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<'a> {
    tree: &'a Tree,
    /// The node that is at hand; `None` behind the last leaf.
    node: Option<NodeId>,
    entries: slice::Iter<'a, Entry>,
    last: Key,
}

impl Iterator for Leaves<'_> {
    type Item = (Key, Place);

    fn next(&mut self) -> Option<(Key, Place)> {
        loop {
            if let Some(entry) = self.entries.next() {
                if entry.key <= self.last {
                    return Some((entry.key, entry.place));
                }
                (self.node, self.entries) = (None, [].iter());
                return None;
            }
            self.node = self.tree.next_node(self.node?);
            self.entries = self.tree.node(self.node?).entries.iter();
        }
    }
}
