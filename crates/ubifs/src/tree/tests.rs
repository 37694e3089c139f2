//! The tree against a map of lists, and loading of hostile nodes.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_units::random::Random;
use nandkit_vfs::check::Findings;
use zerocopy::{FromZeros, IntoBytes};

use super::*;
use crate::layout::{Header, KeyType, MAGIC, Master, checksum, node_type};
use crate::lebs::{LebBytes, LebWriter};

const LEB_SIZE: u32 = 8192;

type Model = BTreeMap<Key, Vec<Place>>;

/// Where commits write nodes, one behind the other.
#[derive(Clone)]
struct Flash {
    lebs: LebBytes,
    end: u64,
    root: Place,
}

impl Flash {
    fn new() -> Self {
        Self { lebs: LebBytes { bytes: Vec::new(), leb_size: LEB_SIZE }, end: 0, root: NOWHERE }
    }

    /// Writes a node; the last one is the root.
    fn put(&mut self, body: &[u8]) -> Place {
        let node = encoded(body);
        let (size, length) = (u64::from(LEB_SIZE), node.len() as u64);
        if self.end % size + length > size {
            self.end = self.end.next_multiple_of(size);
        }
        let place = Place { leb: (self.end / size) as u32, offset: (self.end % size) as u32, length: length as u32 };
        // The volume has no LEB before it is written.
        let bytes = self.lebs.bytes.len().max((place.leb + 1) as usize * LEB_SIZE as usize);
        self.lebs.bytes.resize(bytes, 0xFF);
        self.lebs.write(place.leb, place.offset, &node).unwrap();
        self.end += length.next_multiple_of(8);
        self.root = place;
        place
    }

    fn master(&self) -> Master {
        let mut master = Master::new_zeroed();
        master.root_leb.set(self.root.leb);
        master.root_offset.set(self.root.offset);
        master.root_length.set(self.root.length);
        master
    }

    /// The tree on flash, what is told of it, and the places of its nodes.
    fn load(&self, fanout: u32) -> (Tree, Vec<String>, Vec<Place>) {
        let (mut findings, mut seen) = (Findings::default(), Vec::new());
        let tree =
            Tree::load_with(&self.lebs, &self.master(), fanout, &mut findings, &mut |place| seen.push(place)).unwrap();
        (tree, findings.into_list().into_iter().map(|finding| finding.detail).collect(), seen)
    }
}

fn encoded(body: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: MAGIC.into(),
        checksum: 0.into(),
        sequence: 1.into(),
        length: ((HEADER_SIZE + body.len()) as u32).into(),
        node_type: node_type::INDEX,
        group: 0,
        padding: [0; 2],
    };
    let mut node = [header.as_bytes(), body].concat();
    mend(&mut node);
    node
}

fn mend(node: &mut [u8]) {
    let sum = checksum(node).to_le_bytes();
    node[4..8].copy_from_slice(&sum);
}

fn triple(place: &Place) -> (u32, u32, u32) {
    (place.leb, place.offset, place.length)
}

/// Checks all that the tree promises itself.
fn verify(tree: &Tree) {
    let mut pending = vec![(tree.root, None, Key::new(0, 0), Key::new(u32::MAX, u32::MAX))];
    let (mut used, mut leaves, mut size) = (0, 0, 0);
    while let Some((id, parent, first, last)) = pending.pop() {
        let node = tree.node(id);
        assert_eq!(node.parent, parent);
        assert!(!node.entries.is_empty() || (parent.is_none() && node.level == 0));
        assert!(node.entries.len() <= tree.fanout || !tree.is_whole());
        assert!(node.entries.is_sorted_by_key(|entry| entry.key));
        assert!(node.entries.iter().all(|entry| (first..=last).contains(&entry.key)));
        if let Some(parent) = parent {
            assert_eq!(tree.node(parent).level, node.level + 1);
            assert!(node.place.is_some() || tree.node(parent).place.is_none(), "a dirty node under a clean one");
        }
        used += 1;
        size += node.bytes();
        if node.level == 0 {
            assert!(node.entries.iter().all(|entry| entry.child.is_none()));
            leaves += node.entries.len();
            continue;
        }
        let ends = node.entries.iter().skip(1).map(|entry| entry.key).chain([last]);
        for (entry, last) in node.entries.iter().zip(ends) {
            let child = entry.child.expect("a child");
            let place = tree.node(child).place;
            assert!(place.is_none_or(|place| place == entry.place));
            pending.push((child, Some(id), entry.key, last));
        }
    }
    assert_eq!(used + tree.free.len(), tree.nodes.len());
    assert_eq!((tree.leaves, tree.size), (leaves, size));
}

/// A run of random changes, in the tree and in the model.
struct Run {
    tree: Tree,
    model: Model,
    flash: Flash,
    fanout: u32,
    on_flash: BTreeSet<(u32, u32, u32)>,
    random: Random,
    leaves_made: u32,
}

impl Run {
    fn new(fanout: u32) -> Self {
        Self {
            tree: Tree::new(fanout),
            model: Model::new(),
            flash: Flash::new(),
            fanout,
            on_flash: BTreeSet::new(),
            random: Random::new(fanout.into(), "index"),
            leaves_made: 0,
        }
    }

    fn place(&mut self) -> Place {
        self.leaves_made += 1;
        Place { leb: 1 << 20, offset: self.leaves_made, length: 100 }
    }

    /// One of few keys: names with few hashes, and data.
    fn key(&mut self) -> Key {
        let inode = 1 + self.random.index(12) as u32;
        match self.random.index(4) {
            0 => Key::inode(inode),
            1 => Key::name(inode, self.random.index(2) as u32, false),
            _ => Key::data(inode, self.random.index(40) as u64).unwrap(),
        }
    }

    fn nth(&mut self, key: Key) -> usize {
        let count = self.model.get(&key).map_or(0, Vec::len);
        self.random.index(count + 2)
    }

    fn range(&mut self) -> RangeInclusive<Key> {
        let (one, other) = (self.key(), self.key());
        let last = match self.random.index(4) {
            0 => one.max(other),
            1 => Key::new(one.inode, u32::MAX),
            _ => Key::new(one.inode, one.word() + self.random.index(8) as u32),
        };
        one.min(other).min(last)..=last
    }

    fn expected(&self, keys: RangeInclusive<Key>) -> Vec<(Key, Place)> {
        let of = self.model.range(keys);
        of.flat_map(|(key, places)| places.iter().map(|place| (*key, *place))).collect()
    }

    fn change(&mut self, grows: bool) {
        let (key, place) = (self.key(), self.place());
        let nth = self.nth(key);
        match (self.random.index(16), grows) {
            // Names with one hash become many.
            (0..=2, _) if key.key_type() != Some(KeyType::Dentry) || self.random.index(100) == 0 => {
                let before = self.model.insert(key, vec![place]);
                assert_eq!(self.tree.set(key, place), before.and_then(|places| places.first().copied()));
            }
            (3, _) => {
                let place_of = self.model.get_mut(&key).and_then(|places| places.get_mut(nth));
                let before = place_of.map(|of| std::mem::replace(of, place));
                assert_eq!(self.tree.set_nth(key, nth, place), before);
            }
            (4, _) => {
                let places = self.model.get_mut(&key).map_or(&mut [][..], Vec::as_mut_slice);
                let from = places.get(nth).copied().unwrap_or(place);
                let moved = places.iter_mut().find(|of| **of == from);
                let is_there = moved.map(|of| *of = place).is_some();
                assert_eq!(self.tree.relocate(key, from, place), is_there);
            }
            (5, _) if self.random.index(if grows { 40 } else { 10 }) == 0 => {
                let keys = self.range();
                assert_eq!(self.tree.remove(keys.clone()), self.expected(keys.clone()));
                self.model.retain(|key, _| !keys.contains(key));
            }
            (5, _) => {
                let keys = self.range();
                assert!(self.tree.range(keys.clone()).eq(self.expected(keys)));
                let places = self.model.get(&key).cloned().unwrap_or_default();
                assert_eq!(self.tree.first(key), places.first().copied());
                assert_eq!(self.tree.get(key), places);
            }
            (6..=8, _) | (_, true) => {
                self.tree.insert_nth(key, nth, place);
                let places = self.model.entry(key).or_default();
                places.insert(nth.min(places.len()), place);
            }
            (_, false) => {
                let places = self.model.entry(key).or_default();
                let removed = (nth < places.len()).then(|| places.remove(nth));
                if places.is_empty() {
                    self.model.remove(&key);
                }
                assert_eq!(self.tree.remove_nth(key, nth), removed);
            }
        }
    }

    fn commit(&mut self) {
        if self.random.index(4) == 0 && self.flash.end > 0 {
            let leb = self.random.index(self.flash.lebs.bytes.len() / LEB_SIZE as usize) as u32;
            let clean: Vec<Place> = self.tree.clean_places_in(leb);
            assert!(clean.iter().all(|place| place.leb == leb && self.on_flash.contains(&triple(place))));
            assert!(clean.is_sorted_by_key(|place| place.offset));
            self.tree.make_dirty_in(leb);
            assert_eq!(self.tree.clean_places_in(leb), []);
        }
        verify(&self.tree);
        for place in self.tree.take_obsolete() {
            assert!(self.on_flash.remove(&triple(&place)), "{place:?} was not on flash");
        }
        let mut last = (0, Key::new(0, 0));
        let dirty = self.tree.dirty_nodes();
        for id in &dirty {
            let node = self.tree.node(*id);
            let order = (node.level, node.entries.first().map_or(last.1, |entry| entry.key));
            assert!(
                order >= last
                    && node
                        .entries
                        .iter()
                        .filter_map(|entry| entry.child)
                        .all(|child| { self.tree.node(child).place.is_some() })
            );
            last = order;
            let body = self.tree.body(*id);
            assert_eq!(self.tree.encoded_length(*id), HEADER_SIZE + body.len());
            let place = self.flash.put(&body);
            self.tree.written(*id, place);
            assert!(self.on_flash.insert(triple(&place)));
        }
        verify(&self.tree);
        assert_eq!((self.tree.dirty_nodes(), self.tree.root()), (Vec::new(), self.flash.root));
        self.reload();
    }

    /// Holds the tree on flash against the one in memory, and goes on with either.
    fn reload(&mut self) {
        let all = self.expected(Key::new(0, 0)..=Key::new(u32::MAX, u32::MAX));
        assert!(self.tree.all().eq(all.iter().copied()));
        assert_eq!(self.tree.len(), all.len());
        if all.is_empty() {
            return;
        }
        let (loaded, told, seen) = self.flash.load(self.fanout);
        assert_eq!((told, loaded.is_whole()), (vec![], true));
        assert!(loaded.all().eq(all));
        assert_eq!(seen.iter().map(triple).collect::<BTreeSet<_>>(), self.on_flash);
        assert_eq!((loaded.size(), loaded.len()), (self.tree.size(), self.tree.len()));
        verify(&loaded);
        if self.random.index(2) == 0 {
            self.tree = loaded;
        }
    }
}

#[test]
fn random_changes_are_those_of_a_map() {
    let mut most = 0;
    for (fanout, count) in [(3, 80_000), (8, 60_000), (32, 60_000)] {
        let mut run = Run::new(fanout);
        for number in 0..count {
            run.change(number / 6000 % 2 == 0);
            if number % 100 == 0 {
                verify(&run.tree);
            }
            if run.random.index(500) == 0 {
                run.commit();
            }
            most = most.max(run.model.values().map(Vec::len).max().unwrap_or(0));
        }
        run.commit();
        let all = Key::new(0, 0)..=Key::new(u32::MAX, u32::MAX);
        assert_eq!(run.tree.remove(all.clone()), run.expected(all));
        assert_eq!((run.tree.len(), run.tree.size()), (0, 32));
        verify(&run.tree);
        run.model.clear();
        run.commit();
        assert_eq!(run.on_flash.len(), 1, "only the root is left");
    }
    assert!(most > 40, "at most {most} leaves have one key");
}

#[test]
fn appended_blocks_fill_their_nodes() {
    assert_eq!(size_of::<Entry>(), 24);
    let mut tree = Tree::new(8);
    tree.set(Key::inode(1), NOWHERE);
    for block in 0..1000 {
        tree.set(Key::data(1, block).unwrap(), NOWHERE);
    }
    verify(&tree);
    let nodes = |level| tree.nodes.iter().filter(move |node| node.level == level).count();
    assert_eq!([nodes(0), nodes(1), nodes(2), nodes(3)], [126, 16, 2, 1]);
}

#[test]
fn a_root_with_one_branch_gives_way() {
    let mut tree = Tree::new(3);
    let keys = |inodes: RangeInclusive<u32>| inodes.map(Key::inode);
    keys(1..=40).for_each(|key| assert_eq!(tree.set(key, NOWHERE), None));
    assert!(tree.node(tree.root).level > 2);
    keys(1..=39).for_each(|key| assert!(tree.remove_nth(key, 0).is_some()));
    assert_eq!((tree.node(tree.root).level, tree.len(), tree.size()), (0, 1, 48));
    verify(&tree);
}

/// The body of an index node.
fn body(level: u16, branches: &[(Key, Place)]) -> Vec<u8> {
    let child = |(key, place): &(Key, Place)| Entry { key: *key, place: *place, child: None };
    let mut tree = Tree::new(3);
    let node = &mut tree.nodes[0];
    (node.level, node.entries) = (level, branches.iter().map(child).collect());
    tree.body(tree.root)
}

#[test]
fn nodes_that_break_the_order_are_told() {
    let leaf = |inode: u32| (Key::inode(inode), Place { leb: 9, offset: 8 * inode, length: 8 });
    let loaded = |nodes: &[&[u32]], firsts: &[u32], root_level: u16| {
        let mut flash = Flash::new();
        let places: Vec<Place> = nodes
            .iter()
            .map(|inodes| flash.put(&body(0, &inodes.iter().copied().map(leaf).collect::<Vec<_>>())))
            .collect();
        let branches: Vec<(Key, Place)> = firsts.iter().copied().map(Key::inode).zip(places).collect();
        flash.put(&body(root_level, &branches));
        let (tree, told, _) = flash.load(4);
        verify(&tree);
        (tree.all().map(|(key, _)| key.inode).collect::<Vec<_>>(), told, tree.is_whole())
    };
    let plain: [&[u32]; 3] = [&[1, 2, 5], &[5, 6], &[9]];
    assert_eq!(loaded(&plain, &[1, 5, 9], 1), (vec![1, 2, 5, 5, 6, 9], vec![], true));
    assert_eq!(loaded(&plain, &[0, 5, 7], 1), (vec![1, 2, 5, 5, 6, 9], vec![], true));
    let told = |nodes: &[&[u32]], firsts: &[u32], level, left: &[u32], part: &str| {
        let (all, told, is_whole) = loaded(nodes, firsts, level);
        assert_eq!((all.as_slice(), is_whole), (left, false), "{part}");
        assert!(told.iter().any(|told| told.contains(part)), "{part}: {told:?}");
    };
    told(&[&[1, 3, 2], &[5]], &[1, 5], 1, &[1, 2, 3, 5], "not in order");
    told(&[&[1, 2], &[5]], &[5, 1], 1, &[5], "keys outside its branch's");
    told(&[&[1, 6], &[5, 7]], &[1, 5], 1, &[1, 5, 7], "1 keys outside its branch's");
    told(&[&[1], &[], &[5]], &[1, 3, 5], 1, &[1, 5], "without branches");
    told(&[&[1], &[2], &[3], &[4], &[5]], &[1, 2, 3, 4, 5], 1, &[1, 2, 3, 4, 5], "at most 4");
    told(&[&[1]], &[1], 2, &[], "of level 0; expected 1");
    told(&[&[1]], &[1], 600, &[], "of level 600");
}

#[test]
fn hostile_nodes_never_break_the_tree() {
    let mut run = Run::new(4);
    (0..400).for_each(|_| run.change(true));
    run.commit();
    let places: Vec<_> = run.on_flash.iter().copied().collect();
    let mut mended = 0;
    for round in 0..1500 {
        let mut random = Random::new(round, "hostile index");
        let mut flash = run.flash.clone();
        for _ in 0..1 + random.index(4) {
            let (leb, offset, length) = places[random.index(places.len())];
            let node = &mut flash.lebs.bytes[(leb * LEB_SIZE + offset) as usize..][..length as usize];
            let at = HEADER_SIZE + random.index((length as usize - HEADER_SIZE) / 4) * 4;
            let (leb, offset, length) = places[random.index(places.len())];
            let values = [leb, offset, length, random.index(14) as u32, random.next_u64() as u32];
            node[at..at + 4].copy_from_slice(&values[random.index(values.len())].to_le_bytes());
            mend(node);
        }
        let (tree, told, _) = flash.load(4);
        mended += usize::from(!told.is_empty());
        verify(&tree);
        assert!(tree.all().is_sorted_by_key(|(key, _)| key) && tree.all().count() == tree.len());
        run.tree = tree;
        run.model = Model::new();
        for (key, place) in run.tree.all() {
            run.model.entry(key).or_default().push(place);
        }
        (0..60).for_each(|_| run.change(round % 2 == 0));
        verify(&run.tree);
    }
    assert!(mended > 500, "{mended} of the trees were damaged");
}
