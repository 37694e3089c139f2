//! Which nodes count: those to which the index leads, and where it is lost the newest ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use nandkit_vfs::check::{Finding, Findings, Kind as _};
use nandkit_vfs::{ErrorKind, InodeNumber, Result};
use zerocopy::FromBytes;

use super::scan::{DamagedLeaf, Found, Scan};
use crate::damage::{self, DamageKind};
use crate::layout::{BLOCK_SIZE, HEADER_SIZE, Header, Key, KeyType, MAGIC, node_type};
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::node::{self, Node, Place};
use crate::replay::{Change, change_of};

/// A node that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub place: Place,
    pub sequence: u64,
    /// Whether only the scan found it.
    pub is_found: bool,
}

/// The nodes that count, by key; those of names also by the name.
pub(super) type Leaves = BTreeMap<(Key, Vec<u8>), Leaf>;

/// All keys.
const ALL: RangeInclusive<Key> = Key::new(0, 0)..=Key::new(u32::MAX, u32::MAX);

/// What of the index is lost, and the nodes to which the rest leads.
pub(super) struct Base {
    pub leaves: Leaves,
    /// Ranges of keys whose leaves are not known.
    lost: Vec<RangeInclusive<Key>>,
    /// Keys at whose place no node stands.
    missed: BTreeSet<Key>,
    /// Nodes newer than this may be in no index, if the journal is damaged.
    newer_than: Option<u64>,
}

impl Base {
    /// Of a volume without an index.
    pub fn none() -> Self {
        Self { leaves: Leaves::new(), lost: vec![ALL], missed: BTreeSet::new(), newer_than: None }
    }

    /// Of a volume that can be mounted. Errors: `Device`.
    pub fn of(volume: &Ubifs, commit_sequence: u64, dropped: &mut Findings) -> Result<Self> {
        // A log that ends in the middle may have named more.
        let is_journal = |finding: &Finding| finding.kind == DamageKind::Journal.name();
        let is_torn = volume.replayed.log.is_torn || volume.damage().iter().any(is_journal);
        let newer_than = is_torn.then_some(commit_sequence);
        let (leaves, missed, lost) = (Leaves::new(), BTreeSet::new(), volume.tree.lost().to_vec());
        let mut base = Self { leaves, lost, missed, newer_than };
        let (mut before, mut is_open) = (*ALL.start(), false);
        for (key, place) in volume.tree.all() {
            match leaf_at(&volume.lebs, key, place)? {
                Stands::Leaf(name, leaf) => {
                    // What the index has wrong lies between two leaves that are right.
                    if std::mem::take(&mut is_open) {
                        base.lost.push(before..=key);
                    }
                    before = key;
                    base.leaves.insert((key, name), leaf);
                }
                Stands::Damaged => {
                    let detail = format!("{key} is damaged: what stood there is lost");
                    let finding = damage::at(DamageKind::Leaf, &volume.lebs, place, &detail);
                    dropped.add(finding.of(InodeNumber(key.inode.into())));
                }
                Stands::Other => {
                    is_open = true;
                    base.missed.insert(key);
                }
            }
        }
        if is_open {
            base.lost.push(before..=*ALL.end());
        }
        Ok(base)
    }

    /// Whether nodes must be searched that the index does not lead to.
    pub fn is_incomplete(&self) -> bool {
        !self.lost.is_empty() || self.newer_than.is_some()
    }

    /// The nodes that count, with those among the found ones, and the keys of which some may be
    /// missing.
    pub fn with(self, scan: &Scan, lebs: &dyn Lebs, dropped: &mut Findings) -> (Leaves, Lost) {
        let Self { mut leaves, lost, missed, newer_than } = self;
        let lost = Lost::new(lost);
        let counts = |key: Key, sequence: u64| lost.holds(key) || newer_than.is_some_and(|than| sequence > than);
        let found = &scan.found;
        let mut last_links: BTreeMap<u32, bool> = BTreeMap::new();
        for Found { change, .. } in found {
            if let Change::Inode { inode, is_deletion, .. } = change {
                last_links.insert(*inode, *is_deletion);
            }
        }
        for Found { sequence, place, change } in found {
            let leaf = Leaf { place: *place, sequence: *sequence, is_found: true };
            let mut put = |key: Key, name: &[u8]| {
                let slot = (key, name.to_vec());
                if counts(key, *sequence) && leaves.get(&slot).is_none_or(|old| old.sequence < *sequence) {
                    leaves.insert(slot, leaf);
                }
            };
            match change {
                Change::Inode { inode, is_deletion: false, .. } => put(Key::inode(*inode), &[]),
                Change::Data { key, .. } => put(*key, &[]),
                Change::Name { key, name, is_removal: false } => put(*key, name),
                Change::Inode { inode, .. } => {
                    if last_links.get(inode) != Some(&false) && counts(Key::inode(*inode), *sequence) {
                        remove(&mut leaves, Key::new(*inode, 0)..=Key::new(*inode, u32::MAX), *sequence);
                    }
                }
                Change::Name { key, name, .. } => {
                    let slot = (*key, name.clone());
                    if counts(*key, *sequence) && leaves.get(&slot).is_some_and(|old| old.sequence < *sequence) {
                        leaves.remove(&slot);
                    }
                }
                Change::Truncation { inode, new_size } => {
                    let first = new_size.div_ceil(BLOCK_SIZE.into());
                    let ends = Key::data(*inode, first).zip(Key::data(*inode, (1 << 29) - 1));
                    if let Some((first, last)) = ends.filter(|(first, _)| counts(*first, *sequence)) {
                        remove(&mut leaves, first..=last, *sequence);
                    }
                }
            }
        }
        let damaged = scan.damaged.iter().filter(|damaged| counts(damaged.key, damaged.sequence));
        damaged.for_each(|damaged| tell_damaged(damaged, &mut leaves, lebs, dropped));
        missed.into_iter().for_each(|key| tell_missed(key, &leaves, dropped));
        (leaves, lost)
    }
}

/// Tells a damaged node that no newer one replaced. A block of data that is older is left out: a
/// hole is seen, an old block between new ones is not.
fn tell_damaged(damaged: &DamagedLeaf, leaves: &mut Leaves, lebs: &dyn Lebs, dropped: &mut Findings) {
    let slot = (damaged.key, Vec::new());
    let is_data = damaged.key.key_type() == Some(KeyType::Data);
    let what = match leaves.get(&slot) {
        Some(leaf) if leaf.sequence >= damaged.sequence => return,
        Some(leaf) if is_data && leaf.is_found => {
            leaves.remove(&slot);
            "an older one is left out"
        }
        Some(_) => "an older one takes its place",
        None => "what stood there is lost",
    };
    let detail = format!("{} is damaged: {what}", damaged.key);
    let finding = damage::at(DamageKind::Leaf, lebs, damaged.place, &detail);
    dropped.add(finding.of(InodeNumber(damaged.key.inode.into())));
}

/// Tells a key at whose place no node stands.
fn tell_missed(key: Key, leaves: &Leaves, dropped: &mut Findings) {
    let mut there = leaves.range((key, Vec::new())..).take_while(|((other, _), _)| *other == key);
    let detail = match there.any(|(_, leaf)| leaf.is_found) {
        true => format!("{key} is not where the index has it: what was found of it may be an older version"),
        false => format!("{key} is not where the index has it"),
    };
    dropped.add(Finding::new(DamageKind::Leaf, detail).of(InodeNumber(key.inode.into())));
}

/// Keys that the index may have lost: ranges in order, of which no two meet.
#[derive(Default)]
pub(super) struct Lost(Vec<RangeInclusive<Key>>);

impl Lost {
    fn new(mut ranges: Vec<RangeInclusive<Key>>) -> Self {
        ranges.sort_unstable_by_key(|range| *range.start());
        let mut apart: Vec<RangeInclusive<Key>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start() <= last.end() => *last = *last.start()..=*last.end().max(range.end()),
                _ => apart.push(range),
            }
        }
        Self(apart)
    }

    /// Whether a key is among them.
    fn holds(&self, key: Key) -> bool {
        self.meets(key, key)
    }

    /// Whether one of the keys from `first` to `last` is among them.
    pub fn meets(&self, first: Key, last: Key) -> bool {
        let behind = self.0.partition_point(|range| *range.start() <= last);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|range| *range.end() >= first)
    }
}

/// Removes the leaves of a range of keys that are older than a sequence number.
fn remove(leaves: &mut Leaves, keys: RangeInclusive<Key>, sequence: u64) {
    let slots = (*keys.start(), Vec::new())..=(*keys.end(), vec![0xFF; 256]);
    let old: Vec<_> =
        leaves.range(slots).filter(|(_, leaf)| leaf.sequence < sequence).map(|(slot, _)| slot.clone()).collect();
    for slot in &old {
        leaves.remove(slot);
    }
}

/// What stands where the index has a leaf.
enum Stands {
    /// The leaf, and its name if it is an entry.
    Leaf(Vec<u8>, Leaf),
    /// A damaged node.
    Damaged,
    /// Something else: the index is wrong.
    Other,
}

/// What stands where the index has a key; the length is what the node says. Errors: `Device`.
fn leaf_at(lebs: &dyn Lebs, key: Key, place: Place) -> Result<Stands> {
    let mut header = [0; HEADER_SIZE];
    let is_inside = place.leb < lebs.leb_count() && place.offset < lebs.leb_size();
    if !is_inside {
        return Ok(Stands::Other);
    }
    lebs.read(place.leb, place.offset, &mut header)?;
    let Some(header) = Header::read_from_bytes(&header).ok().filter(|header| header.magic.get() == MAGIC) else {
        return Ok(Stands::Other);
    };
    let place = Place { length: header.length.get(), ..place };
    let node = match node::read(lebs, place, header.node_type) {
        Ok(node) => node,
        Err(error) if error.kind == ErrorKind::Corrupt => return Ok(Stands::Damaged),
        Err(error) => return Err(error),
    };
    let leaf = Leaf { place, sequence: node.sequence, is_found: false };
    Ok(name_of(&node, key).map_or(Stands::Other, |name| Stands::Leaf(name, leaf)))
}

/// The name in a node with this key, empty for a node without one; `None` if it has another key.
fn name_of(node: &Node, key: Key) -> Option<Vec<u8>> {
    let (found, name) = match change_of(node)? {
        Change::Inode { inode, .. } => (Key::inode(inode), Vec::new()),
        Change::Data { key, .. } => (key, Vec::new()),
        Change::Name { key, name, is_removal: false } => (key, name),
        _ => return None,
    };
    let is_type = match key.key_type()? {
        KeyType::Inode => node.node_type == node_type::INODE,
        KeyType::Data => node.node_type == node_type::DATA,
        KeyType::Dentry => node.node_type == node_type::DENTRY,
        KeyType::Xentry => node.node_type == node_type::XENTRY,
    };
    (is_type && found == key).then_some(name)
}
