//! Differences between two trees.

use std::cmp::Ordering;
use std::fmt;

use nandkit_vfs::path::{CompareOptions, Difference, DifferenceKind};
use nandkit_vfs::source::{Children, SourceNode, SourceTree, link_counts, path, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, acl};

use crate::{MountLimits, MountedTree};

/// A difference between two trees at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeDifference {
    /// A difference that two file systems can have, too.
    One(Difference),
    /// The name has the same inode as an earlier name in only one of the trees, or as different
    /// earlier names.
    SameInode {
        /// Path of the entry.
        path: Vec<u8>,
        /// The earlier name in the first tree.
        first: Option<Vec<u8>>,
        /// The earlier name in the second tree.
        second: Option<Vec<u8>>,
    },
}

impl fmt::Display for TreeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(difference) => difference.fmt(f),
            Self::SameInode { path, first, second } => {
                let name = |earlier: &Option<Vec<u8>>| earlier.as_deref().map_or("none".to_owned(), crate::show);
                write!(f, "{}: same inode as {}, {}", crate::show(path), name(first), name(second))
            }
        }
    }
}

/// Compares everything: attributes, modification times to the nanosecond, links, extended
/// attributes.
pub fn all() -> CompareOptions {
    CompareOptions {
        mode: true,
        owner: true,
        links: true,
        modified_slack_ns: Some(0),
        xattrs: true,
        posix_acls: true,
        file_bytes_max: u64::MAX,
        differences_max: 100,
    }
}

/// The differences between a tree and a mounted file system, ignoring what the file system's format
/// cannot store. Parts of the file system that are unreadable, or form no tree, are differences
/// too.
pub fn compare_with(tree: &dyn SourceTree, fs: &dyn FileSystem) -> Vec<TreeDifference> {
    let root = Vec::new();
    let unreadable = |path: Vec<u8>, kind: ErrorKind, reason: String| {
        TreeDifference::One(Difference { path, kind: DifferenceKind::Unreadable(2, kind, reason) })
    };
    let volume = match fs.volume() {
        Ok(volume) => volume,
        Err(error) => return vec![unreadable(root, error.kind, error.detail)],
    };
    let mounted = match MountedTree::read(fs, fs.root(), &MountLimits::default()) {
        Ok(mounted) => mounted,
        Err(error) => return vec![unreadable(root, error.kind, error.detail)],
    };
    let features = volume.features;
    let options = CompareOptions {
        mode: features.permissions,
        owner: features.owners,
        links: features.hard_links,
        modified_slack_ns: Some(features.modified_step_ns.saturating_sub(1)),
        xattrs: features.xattrs,
        posix_acls: features.posix_acls,
        ..all()
    };
    let notes = mounted.refused().iter().chain(mounted.damaged());
    let mut found: Vec<TreeDifference> =
        notes.map(|note| unreadable(note.path.clone(), ErrorKind::Corrupt, note.reason.clone())).collect();
    found.extend(compare(tree, &mounted, &options));
    found.truncate(options.differences_max);
    found
}

/// The differences between two trees, sorted by path. Modification times count for all kinds of
/// nodes.
pub fn compare(a: &dyn SourceTree, b: &dyn SourceTree, options: &CompareOptions) -> Vec<TreeDifference> {
    let side = |tree| -> Side<'_> {
        let tree: &dyn SourceTree = tree;
        Side { tree, children: Children::of(tree.nodes()), links: link_counts(tree.nodes()) }
    };
    let mut comparison = Comparison { a: side(a), b: side(b), options, found: Vec::new() };
    comparison.run();
    comparison.found.truncate(options.differences_max);
    comparison.found
}

struct Side<'a> {
    tree: &'a dyn SourceTree,
    children: Children,
    links: Vec<u32>,
}

impl<'a> Side<'a> {
    fn node(&self, index: usize) -> Option<&'a SourceNode> {
        self.tree.nodes().get(index)
    }

    fn name(&self, index: usize) -> &'a [u8] {
        self.node(index).map_or(&[], |node| &node.name)
    }

    fn links(&self, index: usize) -> u32 {
        self.links.get(index).copied().unwrap_or(0)
    }

    /// The earlier name of the same inode, if any.
    fn earlier(&self, index: usize) -> Option<Vec<u8>> {
        let nodes = self.tree.nodes();
        nodes.get(index)?.hard_link_of.map(|first| path(nodes, first))
    }
}

struct Comparison<'a> {
    a: Side<'a>,
    b: Side<'a>,
    options: &'a CompareOptions,
    found: Vec<TreeDifference>,
}

impl Comparison<'_> {
    fn run(&mut self) {
        let mut next = vec![(0, 0)];
        while let Some((a, b)) = next.pop() {
            if self.found.len() >= self.options.differences_max {
                break;
            }
            self.pair(a, b);
            let mut pairs = Vec::new();
            let (left, right) = (self.a.children.get(a).to_vec(), self.b.children.get(b).to_vec());
            let (mut i, mut j) = (0, 0);
            loop {
                let order = match (left.get(i), right.get(j)) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some(a), Some(b)) => self.a.name(*a).cmp(self.b.name(*b)),
                };
                match (order, left.get(i), right.get(j)) {
                    (Ordering::Less, Some(a), _) => self.only(true, *a),
                    (Ordering::Greater, _, Some(b)) => self.only(false, *b),
                    (_, Some(a), Some(b)) => pairs.push((*a, *b)),
                    _ => {}
                }
                i += usize::from(order != Ordering::Greater);
                j += usize::from(order != Ordering::Less);
            }
            next.extend(pairs.into_iter().rev());
        }
        self.found.sort_by(|a, b| where_is(a).cmp(where_is(b)));
    }

    fn only(&mut self, first: bool, index: usize) {
        let side = if first { &self.a } else { &self.b };
        let kind = if first { DifferenceKind::OnlyInFirst } else { DifferenceKind::OnlyInSecond };
        let path = path(side.tree.nodes(), index);
        self.found.push(TreeDifference::One(Difference { path, kind }));
    }

    fn pair(&mut self, a: usize, b: usize) {
        let (Some(x), Some(y)) = (self.a.node(a), self.b.node(b)) else { return };
        let options = self.options;
        let mut kinds = Vec::new();
        let mut differ = |condition: bool, kind: DifferenceKind| {
            if condition {
                kinds.push(kind);
            }
        };
        if x.kind != y.kind {
            differ(true, DifferenceKind::Kind(x.kind, y.kind));
        } else {
            differ(x.target != y.target, DifferenceKind::Target(x.target.clone(), y.target.clone()));
            differ(x.device != y.device, DifferenceKind::Device(x.device, y.device));
            differ(x.size != y.size, DifferenceKind::Size(x.size, y.size));
            differ(options.mode && x.mode != y.mode, DifferenceKind::Mode(x.mode, y.mode));
            let owners = ((x.uid, x.gid), (y.uid, y.gid));
            differ(options.owner && owners.0 != owners.1, DifferenceKind::Owner(owners.0, owners.1));
            let links = (self.a.links(a), self.b.links(b));
            differ(options.links && links.0 != links.1, DifferenceKind::Links(links.0, links.1));
            let apart = options.modified_slack_ns.is_some_and(|slack| x.modified.0.abs_diff(y.modified.0) > slack);
            differ(apart, DifferenceKind::Modified(x.modified.0, y.modified.0));
            kinds.extend(xattr_differences(x, y, options));
            if x.kind == FileKind::Regular && x.size == y.size && x.hard_link_of.is_none() {
                kinds.extend(self.content(a, b, x.size));
            }
        }
        let path = path(self.a.tree.nodes(), a);
        let (first, second) = (self.a.earlier(a), self.b.earlier(b));
        if options.links && first != second {
            self.found.push(TreeDifference::SameInode { path: path.clone(), first, second });
        }
        self.found.extend(kinds.into_iter().map(|kind| TreeDifference::One(Difference { path: path.clone(), kind })));
    }

    /// The first differing byte, or the side that cannot be read.
    fn content(&self, a: usize, b: usize, size: u64) -> Option<DifferenceKind> {
        let mut buffers = (vec![0; 1 << 17], vec![0; 1 << 17]);
        let mut offset = 0;
        while offset < size.min(self.options.file_bytes_max) {
            let read = |side: &Side<'_>, number: u8, node: usize, into: &mut [u8]| {
                let node = same_inode(side.tree.nodes(), node);
                side.tree.read(node, offset, into).map_err(|e| DifferenceKind::Unreadable(number, e.kind, e.detail))
            };
            let x = match read(&self.a, 1, a, &mut buffers.0) {
                Ok(count) => buffers.0.get(..count).unwrap_or_default(),
                Err(kind) => return Some(kind),
            };
            let y = match read(&self.b, 2, b, &mut buffers.1) {
                Ok(count) => buffers.1.get(..count).unwrap_or_default(),
                Err(kind) => return Some(kind),
            };
            if let Some((at, (x, y))) = x.iter().zip(y).enumerate().find(|(_, (x, y))| x != y) {
                return Some(DifferenceKind::Content { offset: offset + at as u64, bytes: (*x, *y) });
            }
            let common = x.len().min(y.len()) as u64;
            if x.len() != y.len() && offset + common < size || common == 0 {
                let side = if x.len() < y.len() { 1 } else { 2 };
                let detail = format!("the content ends at {}, the size is {size}", offset + common);
                return Some(DifferenceKind::Unreadable(side, ErrorKind::Corrupt, detail));
            }
            offset += common;
        }
        None
    }
}

fn where_is(difference: &TreeDifference) -> &[u8] {
    match difference {
        TreeDifference::One(difference) => &difference.path,
        TreeDifference::SameInode { path, .. } => path,
    }
}

fn xattr_differences(x: &SourceNode, y: &SourceNode, options: &CompareOptions) -> Vec<DifferenceKind> {
    let value = |node: &SourceNode, name: &[u8]| {
        node.xattrs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let counts = |name: &&[u8]| match *name == acl::ACCESS || *name == acl::DEFAULT {
        true => options.posix_acls,
        false => options.xattrs,
    };
    let mut names: Vec<&[u8]> = x.xattrs.iter().chain(&y.xattrs).map(|(name, _)| name.as_slice()).collect();
    names.sort_unstable();
    names.dedup();
    let pairs = names.into_iter().filter(counts).map(|name| (name, value(x, name), value(y, name)));
    pairs.filter(|(_, x, y)| x != y).map(|(name, x, y)| DifferenceKind::Xattr(name.to_vec(), x, y)).collect()
}
