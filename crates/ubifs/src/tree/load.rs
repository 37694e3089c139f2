//! The index from flash.

use std::ops::RangeInclusive;

use nandkit_vfs::check::Findings;
use nandkit_vfs::{ErrorKind, Result};
use zerocopy::FromBytes;

use super::{Entry, IndexNode, MISSING, NodeId, Tree};
use crate::damage::{self, DamageKind};
use crate::layout::{Branch, HEADER_SIZE, Index, Key, Master, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Node, Place};

/// The most levels of an index (`UBIFS_MAX_LEVELS`).
const LEVELS_MAX: u16 = 512;

/// All keys.
const ALL: RangeInclusive<Key> = Key::new(0, 0)..=Key::new(u32::MAX, u32::MAX);

/// A node that is to be read, and what the branch to it promises.
struct Pending {
    place: Place,
    /// The node above, and which of its entries leads here; `None` for the root.
    branch: Option<(NodeId, usize)>,
    /// `None` for the root.
    level: Option<u16>,
    first: Key,
    last: Key,
}

impl Pending {
    /// The keys below it.
    const fn keys(&self) -> RangeInclusive<Key> {
        self.first..=self.last
    }
}

impl Tree {
    /// Loads the index from its root; full nodes have `fanout` entries. A part that cannot be read
    /// is left out and told. Errors: the root cannot be read; those of the device. Cost: a read per
    /// index node, together no more bytes than the volume has: nodes that overlap, or that several
    /// branches lead to, would take any time.
    pub fn load(lebs: &dyn Lebs, master: &Master, fanout: u32, findings: &mut Findings) -> Result<Self> {
        Self::load_with(lebs, master, fanout, findings, &mut |_| {})
    }

    /// Does [`Tree::load`], and shows the place of each index node.
    pub fn load_with(
        lebs: &dyn Lebs,
        master: &Master,
        fanout: u32,
        findings: &mut Findings,
        see: &mut dyn FnMut(Place),
    ) -> Result<Self> {
        let fanout_max = lebs.leb_size().saturating_sub((HEADER_SIZE + size_of::<Index>()) as u32);
        let fanout_max = (fanout_max / size_of::<Branch>() as u32).min(u16::MAX.into());
        let tree = Self { nodes: Vec::new(), ..Self::new(fanout.min(fanout_max)) };
        let mut loader = Loader { lebs, tree, findings };
        let root =
            Place { leb: master.root_leb.get(), offset: master.root_offset.get(), length: master.root_length.get() };
        let mut left = u64::from(lebs.leb_size()) * u64::from(lebs.mapped());
        let (first, last) = (*ALL.start(), *ALL.end());
        let mut pending = vec![Pending { place: root, branch: None, level: None, first, last }];
        while let Some(next) = pending.pop() {
            let place = next.place;
            left = match left.checked_sub(place.length.min(lebs.leb_size()).into()) {
                Some(left) => left,
                None => {
                    loader.tell(place, ALL, "more index nodes than the volume has space for: the rest is left out");
                    break;
                }
            };
            let node = match node::read(lebs, place, node_type::INDEX) {
                Ok(node) => node,
                Err(error) if error.kind == ErrorKind::Corrupt && next.level.is_some() => {
                    loader.tell(place, next.keys(), &error.detail);
                    continue;
                }
                Err(error) => return Err(error),
            };
            see(place);
            if let Some((level, entries)) = loader.decode(&node, &next) {
                loader.add(&next, level, entries, &mut pending);
            }
        }
        loader.remove_lost_branches();
        loader.tell_overlaps();
        Ok(loader.finish())
    }
}

/// The tree while it is loaded: the branches of its inner nodes get their children one by one.
struct Loader<'a> {
    lebs: &'a dyn Lebs,
    tree: Tree,
    findings: &'a mut Findings,
}

impl Loader<'_> {
    /// Tells what is wrong with a node; something of these keys is lost.
    fn tell(&mut self, place: Place, keys: RangeInclusive<Key>, detail: &str) {
        self.tree.lost.push(keys);
        self.findings.add(damage::at(DamageKind::Index, self.lebs, place, detail));
    }

    /// The level and the entries of a node, in order and in the range that its parent promises;
    /// `None` if nothing of it can be used.
    fn decode(&mut self, node: &Node, expected: &Pending) -> Option<(u16, Vec<Entry>)> {
        let place = expected.place;
        let Some((index, branches)) = node.body::<Index>() else {
            self.tell(place, expected.keys(), "an index node that is too short");
            return None;
        };
        let level = index.level.get();
        if let Some(right) = expected.level.filter(|right| *right != level) {
            self.tell(place, expected.keys(), &format!("an index node of level {level}; expected {right}"));
            return None;
        }
        if level >= LEVELS_MAX {
            self.tell(
                place,
                expected.keys(),
                &format!("an index node of level {level}; the highest is {}", LEVELS_MAX - 1),
            );
            return None;
        }
        let (children, held) = (usize::from(index.children.get()), branches.len() / size_of::<Branch>());
        if children > held {
            self.tell(place, expected.keys(), &format!("an index node with {children} branches and space for {held}"));
        } else if children > self.tree.fanout {
            let most = self.tree.fanout;
            self.tell(
                place,
                expected.keys(),
                &format!("an index node with {children} branches; the volume's have at most {most}"),
            );
        } else if children == 0 {
            self.tell(place, expected.keys(), "an index node without branches");
        }
        let mut entries = Vec::with_capacity(children.min(held));
        let branches = branches.chunks_exact(size_of::<Branch>()).take(children);
        entries.extend(branches.filter_map(|bytes| Branch::read_from_bytes(bytes).ok()).map(|branch| Entry {
            key: Key::new(branch.inode.get(), branch.word.get()),
            place: Place { leb: branch.leb.get(), offset: branch.offset.get(), length: branch.length.get() },
            child: None,
        }));
        // Searches rely on the order.
        if !entries.is_sorted_by_key(|entry| entry.key) {
            self.tell(place, expected.keys(), "an index node whose keys are not in order");
            entries.sort_by_key(|entry| entry.key);
        }
        let all = entries.len();
        entries.retain(|entry| (expected.first..=expected.last).contains(&entry.key));
        let lost = all - entries.len();
        if lost > 0 {
            self.tell(
                place,
                expected.keys(),
                &format!("an index node with {lost} keys outside its branch's: they are left out"),
            );
        }
        (!entries.is_empty()).then_some((level, entries))
    }

    /// Adds a node; those below it are to be read.
    fn add(&mut self, of: &Pending, level: u16, entries: Vec<Entry>, pending: &mut Vec<Pending>) {
        let tree = &mut self.tree;
        let Some(id) = NodeId::at(tree.nodes.len()) else { return };
        if let Some((parent, slot)) = of.branch {
            let above = tree.nodes.get_mut(parent.position());
            above.and_then(|above| above.entries.get_mut(slot)).into_iter().for_each(|entry| entry.child = Some(id));
        }
        if let Some(below) = level.checked_sub(1) {
            let ends = entries.iter().skip(1).map(|entry| entry.key).chain([of.last]);
            pending.extend(entries.iter().zip(ends).enumerate().map(|(slot, (entry, last))| Pending {
                place: entry.place,
                branch: Some((id, slot)),
                level: Some(below),
                first: entry.key,
                last,
            }));
        }
        let parent = of.branch.map(|(parent, _)| parent);
        tree.nodes.push(IndexNode { entries, place: Some(of.place), parent, level });
    }

    /// Removes the branches to nodes that were left out, and the nodes that have no other ones.
    fn remove_lost_branches(&mut self) {
        if self.tree.is_whole() {
            return;
        }
        let tree = &mut self.tree;
        // Parents stand in front of their children.
        for id in (0..tree.nodes.len()).rev().filter_map(NodeId::at) {
            let Some(node) = tree.nodes.get_mut(id.position()) else { continue };
            if node.level > 0 {
                node.entries.retain(|entry| entry.child.is_some());
            }
            if !node.entries.is_empty() {
                continue;
            }
            match node.parent {
                Some(parent) => {
                    *node = MISSING.clone();
                    tree.free.push(id);
                    let entries = tree.nodes.get_mut(parent.position()).map(|parent| parent.entries.iter_mut());
                    let branch = entries.and_then(|mut entries| entries.find(|entry| entry.child == Some(id)));
                    branch.into_iter().for_each(|branch| branch.child = None);
                }
                None => node.level = 0,
            }
        }
    }

    /// Tells nodes that share bytes: to write one would change the other.
    fn tell_overlaps(&mut self) {
        let mut places: Vec<Place> = self.tree.nodes.iter().filter_map(|node| node.place).collect();
        places.sort_unstable_by_key(|place| (place.leb, place.offset));
        let pairs = places.iter().zip(places.iter().skip(1));
        let mut shared = pairs.filter(|(one, next)| {
            one.leb == next.leb && u64::from(one.offset) + u64::from(one.length) > next.offset.into()
        });
        if let Some((_, place)) = shared.next() {
            self.tell(*place, ALL, "index nodes that share bytes");
        }
    }

    /// The tree, with the sums over its nodes.
    fn finish(self) -> Tree {
        let fanout = self.tree.fanout;
        if self.tree.nodes.is_empty() {
            let lost = self.tree.lost;
            return Tree { lost, ..Tree::new(u32::try_from(fanout).unwrap_or(u32::MAX)) };
        }
        let is_used = |node: &&IndexNode| node.place.is_some();
        let nodes = || self.tree.nodes.iter().filter(is_used);
        let size = nodes().map(IndexNode::bytes).sum();
        let leaves = nodes().filter(|node| node.level == 0).map(|node| node.entries.len()).sum();
        Tree { size, leaves, ..self.tree }
    }
}
