//! The map of a file: which nodes hold which bytes.

use std::collections::BTreeSet;

use crate::NodeAddress;
use crate::work;

/// A range of a file whose bytes are in one node. Holes have no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the first byte in the file.
    pub start: u32,
    /// Offset just past the last byte.
    pub end: u32,
    /// The node that holds it.
    pub node: NodeAddress,
    /// Offset of the node's first byte in the file; at most `start`.
    pub node_start: u32,
    /// Offset just past the node's last byte; at least `end`.
    pub node_end: u32,
}

impl Fragment {
    /// A fragment with all bytes of a node.
    pub const fn whole(node: NodeAddress, start: u32, end: u32) -> Self {
        Self { start, end, node, node_start: start, node_end: end }
    }
}

/// The effect of a change on an existing node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None of its bytes is valid any more.
    Gone(NodeAddress),
    /// Some of its bytes are no longer valid.
    Cut(NodeAddress),
}

/// The fragments of a file, sorted by offset, without overlap. 20 bytes each.
///
/// A lookup is a binary search; replacing a range with the same bounds costs no more, and any other
/// insertion moves all later fragments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    list: Vec<Fragment>,
}

impl Fragments {
    /// Makes a map from fragments in any order that do not overlap.
    pub(crate) fn of(mut list: Vec<Fragment>) -> Self {
        list.sort_unstable_by_key(|fragment| fragment.start);
        Self { list }
    }

    /// All fragments.
    pub fn all(&self) -> &[Fragment] {
        &self.list
    }

    /// The fragments that overlap `start..end`.
    pub fn within(&self, start: u32, end: u32) -> &[Fragment] {
        let from = self.list.partition_point(|fragment| fragment.end <= start);
        let to = self.list.partition_point(|fragment| fragment.start < end).max(from);
        &self.list[from..to]
    }

    /// The fragments of a node that holds `node_start..node_end`.
    pub fn of_node(&self, node: NodeAddress, node_start: u32, node_end: u32) -> impl Iterator<Item = &Fragment> {
        let all = self.within(node_start, node_end).iter().inspect(|_| work::steps(1));
        all.filter(move |fragment| fragment.node == node)
    }

    /// Makes a node the newest one for `start..end`. Adds its effects on other nodes to `effects`,
    /// in file order. An empty range changes nothing.
    pub fn insert(&mut self, node: NodeAddress, start: u32, end: u32, effects: &mut Vec<Effect>) {
        if start >= end {
            return;
        }
        self.replace(start, end, Some(Fragment::whole(node, start, end)), effects);
    }

    /// Removes `start..end` from the map: the file was truncated, or the range became a hole.
    pub fn clear(&mut self, start: u32, end: u32, effects: &mut Vec<Effect>) {
        if start < end {
            self.replace(start, end, None, effects);
        }
    }

    fn replace(&mut self, start: u32, end: u32, new: Option<Fragment>, effects: &mut Vec<Effect>) {
        let from = self.list.partition_point(|fragment| fragment.end <= start);
        let to = self.list.partition_point(|fragment| fragment.start < end).max(from);
        let hit = &self.list[from..to];
        let before = hit.first().filter(|first| first.start < start).map(|first| Fragment { end: start, ..*first });
        let behind = hit.last().filter(|last| last.end > end).map(|last| Fragment { start: end, ..*last });
        let touched: Vec<Fragment> = hit.to_vec();
        work::steps(self.list.len() - from);
        self.list.splice(from..to, before.into_iter().chain(new).chain(behind));
        let gone = self.without_fragments(&touched);
        let mut told = BTreeSet::new();
        for old in touched {
            if new.is_some_and(|new| new.node == old.node) || !told.insert(old.node) {
                continue;
            }
            effects.push(if gone.contains(&old.node) { Effect::Gone(old.node) } else { Effect::Cut(old.node) });
        }
    }

    /// The nodes of these fragments that have none left. Cost: at most one pass over the ranges of
    /// all those nodes, however many nodes share a range.
    fn without_fragments(&self, touched: &[Fragment]) -> BTreeSet<NodeAddress> {
        let mut without: BTreeSet<NodeAddress> = touched.iter().map(|old| old.node).collect();
        let start = touched.iter().map(|old| old.node_start).min().unwrap_or(0);
        let end = touched.iter().map(|old| old.node_end).max().unwrap_or(0);
        for fragment in self.within(start, end) {
            work::steps(1);
            if without.is_empty() {
                break;
            }
            without.remove(&fragment.node);
        }
        without
    }

    /// Moves the fragments of a copied node to the copy. The node holds `node_start..node_end`.
    pub fn moved(&mut self, from: NodeAddress, to: NodeAddress, node_start: u32, node_end: u32) {
        let first = self.list.partition_point(|fragment| fragment.end <= node_start);
        for fragment in &mut self.list[first..] {
            if fragment.start >= node_end {
                break;
            }
            if fragment.node == from {
                fragment.node = to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u32 = 64;

    /// For each byte the node that holds it.
    fn map(fragments: &Fragments) -> Vec<Option<NodeAddress>> {
        let mut map = vec![None; SIZE as usize];
        for fragment in fragments.all() {
            map[fragment.start as usize..fragment.end as usize].fill(Some(fragment.node));
        }
        map
    }

    #[test]
    fn a_node_in_the_middle_cuts_another_in_two() {
        let (mut fragments, mut effects) = (Fragments::default(), Vec::new());
        let (old, new) = (NodeAddress(0), NodeAddress(4));
        fragments.insert(old, 0, 30, &mut effects);
        fragments.insert(new, 10, 20, &mut effects);
        assert_eq!(effects, [Effect::Cut(old)]);
        assert_eq!(fragments.of_node(old, 0, 30).count(), 2);
        effects.clear();
        fragments.clear(0, 10, &mut effects);
        fragments.clear(15, 64, &mut effects);
        assert_eq!(effects, [Effect::Cut(old), Effect::Cut(new), Effect::Gone(old)]);
        fragments.moved(new, NodeAddress(8), 10, 20);
        let left = Fragment { start: 10, end: 15, node: NodeAddress(8), node_start: 10, node_end: 20 };
        assert_eq!(fragments.all(), [left]);
    }

    proptest! {
        #[test]
        fn fragments_tell_what_a_map_of_bytes_tells(operations in prop::collection::vec((0..SIZE, 0..SIZE, any::<bool>()), 1..40)) {
            let (mut fragments, mut bytes) = (Fragments::default(), vec![None; SIZE as usize]);
            for (number, (a, b, clear)) in operations.into_iter().enumerate() {
                let (start, end) = (a.min(b), a.max(b));
                let node = NodeAddress(number as u32 * 4);
                let before = bytes.clone();
                let mut effects = Vec::new();
                if clear {
                    fragments.clear(start, end, &mut effects);
                } else {
                    fragments.insert(node, start, end, &mut effects);
                }
                bytes[start as usize..end as usize].fill((!clear).then_some(node));
                prop_assert_eq!(&map(&fragments), &bytes);
                prop_assert!(fragments.all().windows(2).all(|pair| pair[0].end <= pair[1].start));
                let mut touched: Vec<NodeAddress> = before[start as usize..end as usize].iter().flatten().copied().collect();
                touched.sort();
                touched.dedup();
                let mut told: Vec<NodeAddress> = Vec::new();
                for effect in effects {
                    let (node, gone) = match effect { Effect::Gone(node) => (node, true), Effect::Cut(node) => (node, false) };
                    prop_assert_eq!(gone, !bytes.contains(&Some(node)));
                    told.push(node);
                }
                told.sort();
                prop_assert_eq!(told, touched);
            }
        }
    }
}
