//! The directories and files that the clients have made, by their names, so that the result of each
//! operation is known.

use std::collections::BTreeMap;

use crate::operation::FileSlot;

/// A file or directory. After its removal another one may take its place, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    place: u32,
    generation: u32,
}

impl Node {
    pub const ROOT: Self = Self { place: 0, generation: 0 };

    pub const fn slot(self) -> FileSlot {
        FileSlot(self.place)
    }
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    size: u64,
    /// The entries of a directory; `None` for a file.
    children: Option<BTreeMap<String, Node>>,
}

/// The tree of directories and files.
#[derive(Debug)]
pub(super) struct Names {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Bytes of all files, and the most that there were.
    bytes: u64,
    pub most_bytes: u64,
}

/// How far a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathLookup {
    There(Node),
    /// Only the last part of the path is missing; this is the directory above it.
    In(Node),
    /// More parts are missing; this is the deepest directory that exists.
    Beneath(Node),
}

impl Names {
    pub fn new() -> Self {
        let root = Entry { children: Some(BTreeMap::new()), ..Entry::default() };
        Self { entries: vec![root], free: Vec::new(), bytes: 0, most_bytes: 0 }
    }

    fn entry(&self, node: Node) -> Option<&Entry> {
        self.entries.get(node.place as usize).filter(|entry| entry.generation == node.generation)
    }

    /// Whether the file or directory still exists.
    pub fn is_there(&self, node: Node) -> bool {
        self.entry(node).is_some()
    }

    pub fn is_directory(&self, node: Node) -> bool {
        self.entry(node).is_some_and(|entry| entry.children.is_some())
    }

    pub fn is_empty(&self, node: Node) -> bool {
        self.entry(node).and_then(|entry| entry.children.as_ref()).is_none_or(BTreeMap::is_empty)
    }

    pub fn size(&self, node: Node) -> u64 {
        self.entry(node).map_or(0, |entry| entry.size)
    }

    pub fn set_size(&mut self, node: Node, size: u64) {
        if let Some(entry) =
            self.entries.get_mut(node.place as usize).filter(|entry| entry.generation == node.generation)
        {
            self.bytes = self.bytes.saturating_sub(entry.size).saturating_add(size);
            self.most_bytes = self.most_bytes.max(self.bytes);
            entry.size = size;
        }
    }

    pub fn find(&self, path: &[String]) -> PathLookup {
        let mut at = Node::ROOT;
        for (number, part) in path.iter().enumerate() {
            let Some(children) = self.entry(at).and_then(|entry| entry.children.as_ref()) else {
                return PathLookup::Beneath(at);
            };
            match children.get(part) {
                Some(child) => at = *child,
                None if number + 1 == path.len() => return PathLookup::In(at),
                None => return PathLookup::Beneath(at),
            }
        }
        PathLookup::There(at)
    }

    fn children(&mut self, directory: Node) -> Option<&mut BTreeMap<String, Node>> {
        self.entries.get_mut(directory.place as usize).and_then(|entry| entry.children.as_mut())
    }

    /// A new file or directory under a name that is free.
    pub fn make(&mut self, directory: Node, name: &str, is_directory: bool) -> Node {
        let children = is_directory.then(BTreeMap::new);
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.entries.push(Entry::default());
                self.entries.len() as u32 - 1
            }
        };
        let mut node = Node { place, generation: 0 };
        if let Some(entry) = self.entries.get_mut(place as usize) {
            entry.children = children;
            node.generation = entry.generation;
        }
        if let Some(children) = self.children(directory) {
            children.insert(name.to_string(), node);
        }
        node
    }

    /// Takes a name away. What it named must be a file or an empty directory.
    pub fn remove(&mut self, directory: Node, name: &str) {
        let Some(node) = self.children(directory).and_then(|children| children.remove(name)) else { return };
        self.set_size(node, 0);
        if let Some(entry) = self.entries.get_mut(node.place as usize) {
            entry.children = None;
            entry.generation = entry.generation.wrapping_add(1);
            self.free.push(node.place);
        }
    }

    /// Gives another name, which is free.
    pub fn rename(&mut self, from: (Node, &str), to: (Node, &str)) {
        let Some(node) = self.children(from.0).and_then(|children| children.remove(from.1)) else { return };
        if let Some(children) = self.children(to.0) {
            children.insert(to.1.to_string(), node);
        }
    }

    /// Everything beneath a directory with where it stands, the deepest first, itself not.
    pub fn beneath(&self, directory: Node) -> Vec<(Node, String, Node)> {
        let (mut found, mut at) = (Vec::new(), 0);
        let mut directories = vec![directory];
        while let Some(parent) = directories.get(at).copied() {
            at += 1;
            for (name, node) in self.entry(parent).and_then(|entry| entry.children.as_ref()).into_iter().flatten() {
                found.push((parent, name.clone(), *node));
                if self.is_directory(*node) {
                    directories.push(*node);
                }
            }
        }
        found.reverse();
        found
    }
}
