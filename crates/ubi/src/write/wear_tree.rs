//! Free PEBs as a red-black tree, of which UBI takes the root.
//!
//! Which PEB is the root depends on the order of insertions and removals, and decides how wear
//! spreads: a sorted list's middle would leave the least worn half alone for ever. So the tree is
//! balanced by the usual rules (Cormen et al., *Introduction to Algorithms*, chapter 13; a removed
//! node with two children gives its place to its successor), as Linux's is.

use crate::Peb;

/// Erases, and the PEB.
type Key = (u32, Peb);

/// Which child.
type Side = usize;
const LEFT: Side = 0;
const RIGHT: Side = 1;

/// The number of the node that stands for no node: black, and a child of every leaf.
const NONE: usize = 0;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    children: [usize; 2],
    parent: usize,
    is_red: bool,
}

/// The tree.
#[derive(Debug)]
pub(super) struct WearTree {
    nodes: Vec<Node>,
    unused: Vec<usize>,
    root: usize,
}

impl WearTree {
    pub fn new() -> Self {
        let none = Node { key: (0, Peb(0)), children: [NONE; 2], parent: NONE, is_red: false };
        Self { nodes: vec![none], unused: Vec::new(), root: NONE }
    }

    /// The number of PEBs.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len() - 1 - self.unused.len()
    }

    /// A node; the node that is none for a number that is none's.
    fn node(&self, number: usize) -> Node {
        self.nodes.get(number).or(self.nodes.first()).copied().unwrap_or(Node {
            key: (0, Peb(0)),
            children: [NONE; 2],
            parent: NONE,
            is_red: false,
        })
    }

    fn change(&mut self, number: usize, change: impl FnMut(&mut Node)) {
        self.nodes.get_mut(number).into_iter().for_each(change);
    }

    fn child(&self, number: usize, side: Side) -> usize {
        self.node(number).children.get(side).copied().unwrap_or(NONE)
    }

    fn set_child(&mut self, number: usize, side: Side, child: usize) {
        self.change(number, |node| node.children.get_mut(side).into_iter().for_each(|slot| *slot = child));
    }

    /// The node furthest to one side below a node.
    fn end(&self, mut number: usize, side: Side) -> usize {
        while self.child(number, side) != NONE {
            number = self.child(number, side);
        }
        number
    }

    fn key(&self, number: usize) -> Option<Key> {
        (number != NONE).then(|| self.node(number).key)
    }

    /// The least worn PEB.
    pub fn first(&self) -> Option<Key> {
        self.key(self.end(self.root, LEFT))
    }

    /// The most worn PEB.
    pub fn last(&self) -> Option<Key> {
        self.key(self.end(self.root, RIGHT))
    }

    /// The PEB at the root.
    pub fn root(&self) -> Option<Key> {
        self.key(self.root)
    }

    /// The most worn PEB with fewer erases than `limit`, or the least worn one.
    pub fn last_below(&self, limit: u32) -> Option<Key> {
        let (mut at, mut found) = (self.root, None);
        while at != NONE {
            let key = self.node(at).key;
            let is_below = key.0 < limit;
            if is_below {
                found = Some(key);
            }
            at = self.child(at, if is_below { RIGHT } else { LEFT });
        }
        found.or_else(|| self.first())
    }

    /// Turns a node and its child on the other side of `side`, so that the child is above.
    fn rotate(&mut self, number: usize, side: Side) {
        let child = self.child(number, 1 - side);
        let inner = self.child(child, side);
        self.set_child(number, 1 - side, inner);
        self.change(inner, |node| node.parent = number);
        self.replace(number, child);
        self.set_child(child, side, number);
        self.change(number, |node| node.parent = child);
    }

    /// Puts another node in the place of one below its parent.
    fn replace(&mut self, number: usize, other: usize) {
        let parent = self.node(number).parent;
        match parent {
            NONE => self.root = other,
            _ => self.set_child(parent, self.side(number), other),
        }
        self.change(other, |node| node.parent = parent);
    }

    /// On which side of its parent a node is.
    fn side(&self, number: usize) -> Side {
        usize::from(self.child(self.node(number).parent, RIGHT) == number)
    }

    fn paint(&mut self, number: usize, is_red: bool) {
        self.change(number, |node| node.is_red = is_red);
    }

    /// Adds a PEB.
    pub fn insert(&mut self, key: Key) {
        let (mut parent, mut at, mut side) = (NONE, self.root, LEFT);
        while at != NONE {
            parent = at;
            side = usize::from(key > self.node(at).key);
            at = self.child(at, side);
        }
        let node = Node { key, children: [NONE; 2], parent, is_red: true };
        let number = self.unused.pop().unwrap_or(self.nodes.len());
        match self.nodes.get_mut(number) {
            Some(slot) => *slot = node,
            None => self.nodes.push(node),
        }
        match parent {
            NONE => self.root = number,
            _ => self.set_child(parent, side, number),
        }
        self.mend_insertion(number);
    }

    fn mend_insertion(&mut self, mut number: usize) {
        while self.node(self.node(number).parent).is_red {
            let parent = self.node(number).parent;
            let above = self.node(parent).parent;
            let side = self.side(parent);
            let uncle = self.child(above, 1 - side);
            if self.node(uncle).is_red {
                self.paint(parent, false);
                self.paint(uncle, false);
                self.paint(above, true);
                number = above;
                continue;
            }
            if self.side(number) != side {
                number = parent;
                self.rotate(number, side);
            }
            let parent = self.node(number).parent;
            self.paint(parent, false);
            self.paint(above, true);
            self.rotate(above, 1 - side);
        }
        let root = self.root;
        self.paint(root, false);
    }

    /// Removes a PEB; false if it is not there.
    pub fn remove(&mut self, key: Key) -> bool {
        let mut number = self.root;
        while number != NONE && self.node(number).key != key {
            number = self.child(number, usize::from(key > self.node(number).key));
        }
        if number == NONE {
            return false;
        }
        let [left, right] = self.node(number).children;
        let (mut was_red, child) = (self.node(number).is_red, if left == NONE { right } else { left });
        let mut lighter = child;
        if left == NONE || right == NONE {
            self.replace(number, child);
        } else {
            let next = self.end(right, LEFT);
            was_red = self.node(next).is_red;
            lighter = self.child(next, RIGHT);
            if self.node(next).parent == number {
                self.change(lighter, |node| node.parent = next);
            } else {
                self.replace(next, lighter);
                self.set_child(next, RIGHT, right);
                self.change(right, |node| node.parent = next);
            }
            self.replace(number, next);
            self.set_child(next, LEFT, left);
            self.change(left, |node| node.parent = next);
            let is_red = self.node(number).is_red;
            self.paint(next, is_red);
        }
        if !was_red {
            self.mend_removal(lighter);
        }
        self.change(NONE, |none| none.parent = NONE);
        self.unused.push(number);
        true
    }

    fn mend_removal(&mut self, mut number: usize) {
        while number != self.root && !self.node(number).is_red {
            let parent = self.node(number).parent;
            // The node may be the one that is none, which is a child of many.
            let side = usize::from(self.child(parent, LEFT) != number);
            let mut other = self.child(parent, 1 - side);
            if self.node(other).is_red {
                self.paint(other, false);
                self.paint(parent, true);
                self.rotate(parent, side);
                other = self.child(parent, 1 - side);
            }
            let [near, far] = [self.child(other, side), self.child(other, 1 - side)];
            if !self.node(near).is_red && !self.node(far).is_red {
                self.paint(other, true);
                number = parent;
                continue;
            }
            if !self.node(far).is_red {
                self.paint(near, false);
                self.paint(other, true);
                self.rotate(other, 1 - side);
                other = self.child(parent, 1 - side);
            }
            let is_red = self.node(parent).is_red;
            self.paint(other, is_red);
            self.paint(parent, false);
            let far = self.child(other, 1 - side);
            self.paint(far, false);
            self.rotate(parent, side);
            number = self.root;
        }
        self.paint(number, false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nandkit_units::random::Random;

    use super::*;

    /// Black nodes on each way down from a node; no red one has a red child, and keys are in order.
    fn height(tree: &WearTree, number: usize) -> u32 {
        if number == NONE {
            return 1;
        }
        let node = tree.node(number);
        let heights = node.children.map(|child| {
            assert!(child == NONE || tree.node(child).parent == number);
            assert!(!node.is_red || !tree.node(child).is_red);
            height(tree, child)
        });
        assert_eq!(heights[0], heights[1]);
        assert!(node.children[0] == NONE || tree.node(node.children[0]).key < node.key);
        assert!(node.children[1] == NONE || tree.node(node.children[1]).key > node.key);
        heights[0] + u32::from(!node.is_red)
    }

    #[test]
    fn it_holds_what_a_set_holds_and_stays_balanced() {
        let (mut tree, mut set, mut random) = (WearTree::new(), BTreeSet::new(), Random::new(1, "a tree"));
        for _ in 0..20_000 {
            let key = (random.below(30) as u32, Peb(random.below(60) as u32));
            if random.below(2) == 0 {
                assert_eq!(tree.remove(key), set.remove(&key));
            } else if set.insert(key) {
                tree.insert(key);
            }
            height(&tree, tree.root);
            assert_eq!((tree.len(), tree.first(), tree.last()), (set.len(), set.first().copied(), set.last().copied()));
            let limit = random.below(32) as u32;
            let below = set.range(..(limit, Peb(0))).next_back().or(set.first()).copied();
            assert_eq!(tree.last_below(limit), below);
        }
    }

    /// By hand: the root of 1 to 7 is 2 until the tree turns.
    #[test]
    fn the_root_follows_from_the_order_of_insertions() {
        let mut tree = WearTree::new();
        let roots: Vec<u32> = (1..=8)
            .map(|worn| {
                tree.insert((worn, Peb(worn)));
                tree.root().map_or(0, |(worn, _)| worn)
            })
            .collect();
        assert_eq!(roots, [1, 1, 2, 2, 2, 2, 2, 4]);
        assert!(tree.remove((4, Peb(4))));
        assert_eq!(tree.root(), Some((5, Peb(5))));
    }
}
