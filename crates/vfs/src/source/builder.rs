//! Building trees from paths in any order.

use std::collections::BTreeMap;

use super::SourceNode;
use crate::{ErrorKind, FileKind, FsError, Result};

/// The components of a path. Empty ones and `.` are skipped, so `./a//b` and `/a/b` are equal.
/// Errors: `InvalidName` for `..` and for NUL.
pub fn components(path: &[u8]) -> Result<Vec<&[u8]>> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
    match names.iter().find(|name| **name == b".." || name.contains(&0)) {
        None => Ok(names),
        Some(name) => {
            let (name, path) = (String::from_utf8_lossy(name), String::from_utf8_lossy(path));
            Err(FsError::new(ErrorKind::InvalidName, format!("path {path:?} holds the name {name:?}")))
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    parent: usize,
    children: BTreeMap<Vec<u8>, usize>,
    inode: usize,
}

/// Builds a tree from paths in any order; `C` locates an inode's content for a reader.
#[derive(Clone, Debug)]
pub struct TreeBuilder<C> {
    entries: Vec<Entry>,
    inodes: Vec<(SourceNode, Option<C>)>,
    missing: SourceNode,
}

/// The result of [`TreeBuilder::finish`].
#[derive(Clone, Debug)]
pub struct BuiltTree<C> {
    /// The nodes, in the order that [`SourceTree`](super::SourceTree) promises.
    pub nodes: Vec<SourceNode>,
    /// The content's location for each node; `None` for hard links and for nodes without content.
    pub contents: Vec<Option<C>>,
}

const ROOT: usize = 0;

impl<C> TreeBuilder<C> {
    /// Starts a tree that holds only its root. Missing parent directories of a path are made like
    /// `missing`, which must be a directory.
    pub fn new(root: SourceNode, missing: SourceNode) -> Self {
        let root = SourceNode { kind: FileKind::Directory, ..root };
        let entry = Entry { parent: ROOT, children: BTreeMap::new(), inode: ROOT };
        let missing = SourceNode { kind: FileKind::Directory, ..missing };
        Self { entries: vec![entry], inodes: vec![(root, None)], missing }
    }

    /// Puts a node at a path; the node's own name, parent and `hard_link_of` are ignored. Replaces
    /// what was there before, except that a directory replaced by a directory keeps its entries.
    ///
    /// Errors: `InvalidName`; `NotADirectory` if the path leads through something else, or if the
    /// root would become something else; `NotEmpty` if something else would replace a non-empty
    /// directory, which would silently lose its entries (GNU tar does not extract such an archive
    /// either).
    pub fn put(&mut self, path: &[u8], node: SourceNode, content: Option<C>) -> Result<()> {
        let names = components(path)?;
        let Some((name, above)) = names.split_last() else {
            if node.kind != FileKind::Directory {
                return Err(FsError::new(ErrorKind::NotADirectory, format!("the root cannot be a {}", node.kind)));
            }
            self.set_inode(ROOT, node, content);
            return Ok(());
        };
        let directory = self.make_directories(above)?;
        if node.kind == FileKind::Directory
            && let Some(inode) = self.child(directory, name).and_then(|child| self.inode_of(child))
            && self.is_directory(inode)
        {
            self.set_inode(inode, node, content);
            return Ok(());
        }
        self.holds_nothing(path, directory, name, node.kind)?;
        let inode = self.inodes.len();
        self.inodes.push((node, content));
        self.attach(directory, name, inode);
        Ok(())
    }

    /// Adds a name at `path` for the node at `existing`. Errors: `NotFound`, `IsADirectory`, and
    /// those of [`TreeBuilder::put`].
    pub fn link(&mut self, path: &[u8], existing: &[u8]) -> Result<()> {
        let show = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let Some(inode) = self.find(existing)?.and_then(|entry| self.inode_of(entry)) else {
            let detail = format!("{:?} is a hard link to {:?}, which does not exist", show(path), show(existing));
            return Err(FsError::new(ErrorKind::NotFound, detail));
        };
        if self.is_directory(inode) {
            let detail = format!("{:?} is a hard link to {:?}, a directory", show(path), show(existing));
            return Err(FsError::new(ErrorKind::IsADirectory, detail));
        }
        let names = components(path)?;
        let Some((name, above)) = names.split_last() else {
            return Err(FsError::new(ErrorKind::NotADirectory, "the root cannot be a hard link"));
        };
        let directory = self.make_directories(above)?;
        let kind = self.inodes.get(inode).map_or(FileKind::Regular, |(node, _)| node.kind);
        self.holds_nothing(path, directory, name, kind)?;
        self.attach(directory, name, inode);
        Ok(())
    }

    /// The node at a path. Errors: `InvalidName`.
    pub fn get_mut(&mut self, path: &[u8]) -> Result<Option<&mut SourceNode>> {
        let inode = self.find(path)?.and_then(|entry| self.inode_of(entry));
        Ok(inode.and_then(|inode| self.inodes.get_mut(inode)).map(|(node, _)| node))
    }

    /// Finishes the tree. Cost: linear in the nodes.
    pub fn finish(self) -> BuiltTree<C> {
        let Self { mut entries, mut inodes, .. } = self;
        let mut built = BuiltTree { nodes: Vec::with_capacity(entries.len()), contents: Vec::new() };
        let mut first: Vec<Option<usize>> = vec![None; inodes.len()];
        let mut next = vec![(ROOT, ROOT, Vec::new())];
        while let Some((entry, parent, name)) = next.pop() {
            let index = built.nodes.len();
            let Some(found) = entries.get_mut(entry) else { continue };
            let children = std::mem::take(&mut found.children);
            let Some(((node, content), first)) = inodes.get_mut(found.inode).zip(first.get_mut(found.inode)) else {
                continue;
            };
            node.xattrs.sort();
            built.nodes.push(SourceNode { parent, name, hard_link_of: *first, ..node.clone() });
            built.contents.push(content.take());
            first.get_or_insert(index);
            next.extend(children.into_iter().rev().map(|(name, child)| (child, index, name)));
        }
        built
    }

    /// Refuses to replace a non-empty directory by something else.
    fn holds_nothing(&self, path: &[u8], directory: usize, name: &[u8], kind: FileKind) -> Result<()> {
        let held = self.child(directory, name).and_then(|child| self.entries.get(child));
        if held.is_none_or(|entry| entry.children.is_empty()) {
            return Ok(());
        }
        let path = String::from_utf8_lossy(path);
        let detail = format!("a {kind} cannot replace {path:?}, a directory that is not empty");
        Err(FsError::new(ErrorKind::NotEmpty, detail))
    }

    fn child(&self, directory: usize, name: &[u8]) -> Option<usize> {
        self.entries.get(directory)?.children.get(name).copied()
    }

    fn inode_of(&self, entry: usize) -> Option<usize> {
        self.entries.get(entry).map(|entry| entry.inode)
    }

    fn is_directory(&self, inode: usize) -> bool {
        self.inodes.get(inode).is_some_and(|(node, _)| node.kind == FileKind::Directory)
    }

    fn set_inode(&mut self, inode: usize, node: SourceNode, content: Option<C>) {
        if let Some(place) = self.inodes.get_mut(inode) {
            *place = (node, content);
        }
    }

    fn find(&self, path: &[u8]) -> Result<Option<usize>> {
        Ok(components(path)?.into_iter().try_fold(ROOT, |directory, name| self.child(directory, name)))
    }

    /// Puts a new entry in place of any entry with that name.
    fn attach(&mut self, directory: usize, name: &[u8], inode: usize) -> usize {
        let entry = self.entries.len();
        self.entries.push(Entry { parent: directory, children: BTreeMap::new(), inode });
        if let Some(holder) = self.entries.get_mut(directory) {
            holder.children.insert(name.to_vec(), entry);
        }
        entry
    }

    fn make_directories(&mut self, names: &[&[u8]]) -> Result<usize> {
        let mut at = ROOT;
        for name in names {
            at = match self.child(at, name) {
                Some(child) if self.inode_of(child).is_some_and(|inode| self.is_directory(inode)) => child,
                Some(child) => {
                    let path = self.path_of(child, name);
                    let detail = format!("{:?} is no directory, and holds nothing", String::from_utf8_lossy(&path));
                    return Err(FsError::new(ErrorKind::NotADirectory, detail));
                }
                None => {
                    let inode = self.inodes.len();
                    self.inodes.push((self.missing.clone(), None));
                    self.attach(at, name, inode)
                }
            };
        }
        Ok(at)
    }

    /// The path of an entry, for messages.
    fn path_of(&self, entry: usize, name: &[u8]) -> Vec<u8> {
        let mut names = vec![name];
        let mut at = self.entries.get(entry).map_or(ROOT, |entry| entry.parent);
        while at != ROOT {
            let Some(parent) = self.entries.get(at).map(|entry| entry.parent) else { break };
            let held =
                self.entries.get(parent).and_then(|holder| holder.children.iter().find(|(_, child)| **child == at));
            names.extend(held.map(|(name, _)| name.as_slice()));
            at = parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}
