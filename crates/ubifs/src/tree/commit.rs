//! What a commit and the collector need of the index: which nodes to write, their bytes, and the
//! places that are out of use then.

use std::ops::RangeInclusive;

use zerocopy::IntoBytes;

use super::{NOWHERE, NodeId, Tree};
use crate::layout::{Branch, Index, Key};
use crate::node::Place;

impl Tree {
    /// Whether nothing of the index on flash was left out or mended: a damaged index must not be
    /// written.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty()
    }

    /// Ranges of keys of which something was left out or mended.
    pub fn lost(&self) -> &[RangeInclusive<Key>] {
        &self.lost
    }

    /// The number of leaves.
    pub fn len(&self) -> usize {
        self.leaves
    }

    /// The place of the root; one without bytes while the root is dirty.
    pub fn root(&self) -> Place {
        self.node(self.root).place.unwrap_or(NOWHERE)
    }

    /// Bytes of all nodes on flash, with their alignment.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The dirty nodes in the order in which a commit writes them: level by level from the leaves,
    /// and each level in the order of its keys.
    pub fn dirty_nodes(&self) -> Vec<NodeId> {
        let is_dirty = |id: &NodeId| self.node(*id).place.is_none();
        let mut levels = vec![vec![self.root]];
        levels.iter_mut().for_each(|root| root.retain(is_dirty));
        while let Some(above) = levels.last().filter(|level| !level.is_empty()) {
            let children = above.iter().flat_map(|id| &self.node(*id).entries).filter_map(|entry| entry.child);
            let below = children.filter(is_dirty).collect();
            levels.push(below);
        }
        levels.into_iter().rev().flatten().collect()
    }

    /// Bytes of a node on flash, without alignment.
    pub fn encoded_length(&self, id: NodeId) -> usize {
        self.node(id).encoded_length()
    }

    /// The bytes of a node behind the header that all nodes have. The nodes below must be on flash.
    pub fn body(&self, id: NodeId) -> Vec<u8> {
        let node = self.node(id);
        let head = Index { children: (node.entries.len() as u16).into(), level: node.level.into() };
        let mut body = Vec::with_capacity(node.encoded_length());
        body.extend_from_slice(head.as_bytes());
        for entry in &node.entries {
            let branch = Branch {
                leb: entry.place.leb.into(),
                offset: entry.place.offset.into(),
                length: entry.place.length.into(),
                inode: entry.key.inode.into(),
                word: entry.key.word().into(),
            };
            body.extend_from_slice(branch.as_bytes());
        }
        body
    }

    /// Notes that a dirty node is on flash now, at this place.
    pub fn written(&mut self, id: NodeId, place: Place) {
        let branch = self.branch_to(id);
        let Some(node) = self.nodes.get_mut(id.position()).filter(|node| node.place.is_none()) else { return };
        node.place = Some(place);
        if let Some((parent, slot)) = branch {
            let parent = self.nodes.get_mut(parent.position());
            parent.and_then(|parent| parent.entries.get_mut(slot)).into_iter().for_each(|entry| entry.place = place);
        }
    }

    /// The places of nodes that became dirty or went since the last call.
    pub fn take_obsolete(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.obsolete)
    }

    /// Marks all nodes that stand in this LEB dirty, and those above them: a commit writes them
    /// elsewhere. Cost: a look at each node.
    pub fn make_dirty_in(&mut self, leb: u32) {
        let is_there = |node: &super::IndexNode| node.place.is_some_and(|place| place.leb == leb);
        let there = (0..self.nodes.len()).filter(|at| self.nodes.get(*at).is_some_and(is_there));
        let there: Vec<NodeId> = there.filter_map(NodeId::at).collect();
        there.into_iter().for_each(|id| self.mark_dirty(id));
    }

    /// The places of the clean nodes in this LEB, in order. Cost: a look at each node.
    pub fn clean_places_in(&self, leb: u32) -> Vec<Place> {
        let mut places: Vec<Place> = self.nodes.iter().filter_map(|node| node.place).collect();
        places.retain(|place| place.leb == leb);
        places.sort_unstable_by_key(|place| place.offset);
        places
    }

    /// Notes that the leaf of this key at `from` was moved to `to`; returns whether there is one.
    pub fn relocate(&mut self, key: Key, from: Place, to: Place) -> bool {
        let nth = self.range(key..=key).position(|(_, place)| place == from);
        nth.and_then(|nth| self.set_nth(key, nth, to)).is_some()
    }
}
