//! The index in memory: from keys to the places of their leaves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use nandkit_vfs::check::Findings;
use nandkit_vfs::{ErrorKind, Result};
use zerocopy::FromBytes;

use crate::damage::{self, DamageKind};
use crate::layout::{Branch, Index, Key, Master, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Place};

/// Leaves by key. Names with the same hash have the same key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    leaves: BTreeMap<Key, Vec<Place>>,
}

impl Tree {
    /// Loads the index from its root. A part that cannot be read is left out and told. Errors: the
    /// root cannot be read; those of the device. Cost: a read per index node, together no more
    /// bytes than the volume has: nodes that overlap, or that several branches lead to, would take
    /// any time.
    pub fn load<L: Lebs>(lebs: &L, master: &Master, findings: &mut Findings) -> Result<Self> {
        Self::load_with(lebs, master, findings, &mut |_| {})
    }

    /// Does [`Tree::load`], and shows the place of each index node.
    pub fn load_with<L: Lebs>(
        lebs: &L,
        master: &Master,
        findings: &mut Findings,
        see: &mut dyn FnMut(Place),
    ) -> Result<Self> {
        let mut tree = Self::default();
        let root =
            Place { leb: master.root_leb.get(), offset: master.root_offset.get(), length: master.root_length.get() };
        let mut left = u64::from(lebs.leb_size()) * u64::from(lebs.mapped());
        let mut pending: Vec<(Place, Option<u16>)> = vec![(root, None)];
        while let Some((place, level)) = pending.pop() {
            left = match left.checked_sub(place.length.min(lebs.leb_size()).into()) {
                Some(left) => left,
                None => {
                    let detail = "more index nodes than the volume has space for: the rest is left out";
                    findings.add(damage::at(DamageKind::Index, lebs, place, detail));
                    break;
                }
            };
            let node = match node::read(lebs, place, node_type::INDEX) {
                Ok(node) => node,
                Err(error) if error.kind == ErrorKind::Corrupt && level.is_some() => {
                    findings.add(damage::at(DamageKind::Index, lebs, place, &error.detail));
                    continue;
                }
                Err(error) => return Err(error),
            };
            see(place);
            let Some((index, branches)) = node.body::<Index>() else {
                findings.add(damage::at(DamageKind::Index, lebs, place, "an index node that is too short"));
                continue;
            };
            if let Some(expected) = level.filter(|level| index.level.get() != *level) {
                let detail = format!("an index node of level {}; expected {expected}", index.level);
                findings.add(damage::at(DamageKind::Index, lebs, place, &detail));
                continue;
            }
            let (children, held) = (usize::from(index.children.get()), branches.len() / size_of::<Branch>());
            if children > held {
                let detail = format!("an index node with {children} branches and space for {held}");
                findings.add(damage::at(DamageKind::Index, lebs, place, &detail));
            }
            for bytes in branches.chunks_exact(size_of::<Branch>()).take(children) {
                let Ok(branch) = Branch::read_from_bytes(bytes) else { continue };
                let child = Place { leb: branch.leb.get(), offset: branch.offset.get(), length: branch.length.get() };
                match index.level.get().checked_sub(1) {
                    Some(level) => pending.push((child, Some(level))),
                    None => tree.add(Key::new(branch.inode.get(), branch.word.get()), child),
                }
            }
        }
        Ok(tree)
    }

    /// Adds a leaf beside those with the same key.
    pub fn add(&mut self, key: Key, place: Place) {
        self.leaves.entry(key).or_default().push(place);
    }

    /// Makes this the only leaf of a key.
    pub fn set(&mut self, key: Key, place: Place) {
        self.leaves.insert(key, vec![place]);
    }

    /// Makes these the leaves of a key.
    pub fn replace(&mut self, key: Key, places: Vec<Place>) {
        match places.is_empty() {
            true => drop(self.leaves.remove(&key)),
            false => drop(self.leaves.insert(key, places)),
        }
    }

    /// Removes all leaves of a range of keys.
    pub fn remove(&mut self, keys: RangeInclusive<Key>) {
        let removed: Vec<Key> = self.leaves.range(keys).map(|(key, _)| *key).collect();
        for key in removed {
            self.leaves.remove(&key);
        }
    }

    /// The leaves of a key.
    pub fn get(&self, key: Key) -> &[Place] {
        self.leaves.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The keys of a range with their leaves, in order.
    pub fn range(&self, keys: RangeInclusive<Key>) -> impl Iterator<Item = (Key, &[Place])> {
        self.leaves.range(keys).map(|(key, places)| (*key, places.as_slice()))
    }

    /// All keys with their leaves, in order.
    pub fn all(&self) -> impl Iterator<Item = (Key, &[Place])> {
        self.leaves.iter().map(|(key, places)| (*key, places.as_slice()))
    }
}
