//! The model of a volume's state.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a page; files are written in pages.
pub(super) const PAGE: usize = 4096;

/// The root's number in the model.
pub(super) const ROOT: usize = 0;

/// Largest number of extended attributes of a file.
pub(super) const XATTRS: u64 = 2;

/// A file or directory, whatever its names. Its number is its owner on the volume, so that each one
/// found can be identified.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub(super) directory: bool,
    pub(super) mode: u16,
    /// Extended attributes: the number of the value by the number of the name.
    pub(super) xattrs: BTreeMap<u64, u32>,
    /// The version of each page's content; 0 reads as zeroes.
    pub(super) pages: Vec<u32>,
}

impl Node {
    pub(super) const fn new(directory: bool) -> Self {
        Self { directory, mode: if directory { 0o755 } else { 0o644 }, xattrs: BTreeMap::new(), pages: Vec::new() }
    }
}

/// A name: the directory's number and the name in it.
pub type Name = (usize, String);

/// The state of a volume: names, with their files and directories.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) names: BTreeMap<Name, usize>,
    pub(super) nodes: BTreeMap<usize, Node>,
    /// Numbers and versions up to these were given; what was there may be there still, and is told
    /// by them.
    pub(super) given: (usize, u32),
}

impl State {
    /// The state of a volume without files.
    pub fn empty() -> Self {
        Self { names: BTreeMap::new(), nodes: BTreeMap::from([(ROOT, Node::new(true))]), given: (ROOT, 0) }
    }

    pub(super) fn holds_names(&self, directory: usize) -> bool {
        self.names.keys().any(|(parent, _)| *parent == directory)
    }

    /// Whether the second directory lies in the tree below the first.
    pub(super) fn leads_to(&self, from: usize, to: usize) -> bool {
        let mut below = self.names.iter().filter(|((parent, _), _)| *parent == from);
        from == to || below.any(|(_, node)| self.nodes[node].directory && self.leads_to(*node, to))
    }

    pub(super) fn put(&mut self, name: &Name, node: usize) {
        self.names.insert(name.clone(), node);
        self.forget_nameless();
    }

    pub(super) fn take(&mut self, name: &Name) {
        self.names.remove(name);
        self.forget_nameless();
    }

    fn forget_nameless(&mut self) {
        let named: BTreeSet<usize> = self.names.values().copied().chain([ROOT]).collect();
        self.nodes.retain(|number, _| named.contains(number));
    }

    pub(super) fn change(&self, node: usize, change: impl FnOnce(&mut Node)) -> Self {
        let mut after = self.clone();
        change(after.nodes.get_mut(&node).unwrap());
        after
    }
}

/// The content of a page of this version: the version, repeated.
pub(super) fn page(version: u32) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 4)
}

/// An extended attribute's value, of a length of its own. There are few of them, so that inodes
/// share them.
pub(super) fn value_of(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + 9 * number as usize)
}

pub(super) fn xattr_name(number: u64) -> String {
    format!("user.attribute-{number}")
}
