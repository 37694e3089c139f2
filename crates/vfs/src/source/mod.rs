//! Trees of files to build an image from: the input of `mkfs`, from any source.
//!
//! [`SourceTree`] lists all nodes as plain data and reads the content of regular files on demand.
//! The same tree always has the same nodes in the same order, so a writer that processes them in
//! order produces the same image each time. [`TreeBuilder`] builds such a tree from paths in any
//! order; [`MemoryTree`] has its content in memory.

mod builder;
mod memory;
mod pieces;

pub use builder::{BuiltTree, TreeBuilder, components};
pub use memory::MemoryTree;
pub use pieces::{Batch, Piece, batches, read_piece};

use std::ops::Range;

use crate::{ErrorKind, FileKind, FsError, Result, Timestamp};

/// One name in a tree, and its inode.
///
/// A hard link is a node of its own that refers to an earlier node and repeats its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceNode {
    /// Index of the directory that holds the name; 0 for the root itself.
    pub parent: usize,
    /// The name, without `/` and NUL, not `.` or `..`; empty for the root.
    pub name: Vec<u8>,
    /// The inode's type.
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky: the low 12 bits of a mode.
    pub mode: u16,
    /// Numeric id of the owner.
    pub uid: u32,
    /// Numeric id of the group.
    pub gid: u32,
    /// Device number (major << 32 | minor) of a device inode, else 0.
    pub device: u64,
    /// Size in bytes of a regular file or of a symbolic link's target, else 0.
    pub size: u64,
    /// Time of the last change of content.
    pub modified: Timestamp,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of content or attributes.
    pub changed: Timestamp,
    /// The target of a symbolic link, else empty.
    pub target: Vec<u8>,
    /// The earlier node with the same inode; never itself a hard link.
    pub hard_link_of: Option<usize>,
    /// Extended attributes, names with their prefix (`user.`, `security.`, ...), sorted by name,
    /// each name once.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SourceNode {
    /// A node of root with all times at 1970 and no name.
    pub fn new(kind: FileKind, mode: u16) -> Self {
        Self {
            parent: 0,
            name: Vec::new(),
            kind,
            mode,
            uid: 0,
            gid: 0,
            device: 0,
            size: 0,
            modified: Timestamp(0),
            accessed: Timestamp(0),
            changed: Timestamp(0),
            target: Vec::new(),
            hard_link_of: None,
            xattrs: Vec::new(),
        }
    }

    /// A symbolic link to `target`, mode 0777.
    pub fn symlink(target: &[u8]) -> Self {
        Self { size: target.len() as u64, target: target.to_vec(), ..Self::new(FileKind::Symlink, 0o777) }
    }

    /// A block or character device.
    pub fn device(kind: FileKind, mode: u16, major: u32, minor: u32) -> Self {
        Self { device: u64::from(major) << 32 | u64::from(minor), ..Self::new(kind, mode) }
    }

    /// This node with all three times set to `time`.
    pub fn at(self, time: Timestamp) -> Self {
        Self { modified: time, accessed: time, changed: time, ..self }
    }

    /// This node with this owner and group.
    pub fn owned_by(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }
}

/// A tree of files to build an image from.
///
/// **Promises of the implementer**, which [`check`] verifies:
///
/// * Node 0 is the root, a directory.
/// * Every other node comes after its parent, which is a directory.
/// * The children of a directory are sorted by the bytes of their names; each name occurs once.
/// * Nodes are in depth-first order, so a directory's subtree directly follows it.
/// * A hard link refers to an earlier node that is neither a directory nor a hard link.
pub trait SourceTree: Sync {
    /// All nodes.
    fn nodes(&self) -> &[SourceNode];

    /// Reads the content of a regular file, or of a hard link to one, from `offset` on; returns the
    /// number of bytes read, fewer than asked only at the end of the file. May be called from
    /// several threads. Errors: `InvalidArgument` if the node is no regular file, `NotFound` if
    /// there is no such node, `Device` if the content cannot be read, `Corrupt` if it no longer
    /// matches the node.
    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> Result<usize>;

    /// The next range of a regular file, or of a hard link to one, that may hold bytes other than
    /// zero, as defined by [`crate::FileSystem::data_after`]. Default: the rest of the file.
    /// Errors: those of `read`. Cost: no content is read.
    fn data_after(&self, node: usize, offset: u64) -> Result<Option<Range<u64>>> {
        let size = self.nodes().get(node).map_or(0, |found| found.size);
        Ok((offset < size).then_some(offset..size))
    }
}

/// The part of `within` to read next, given the answer of [`SourceTree::data_after`] or
/// [`crate::FileSystem::data_after`] for its start. If only a hole follows, the result is empty, at
/// the end of `within`. If the answer is an error, the result is all of `within`: the read will
/// report the cause better.
pub fn to_read(answer: Result<Option<Range<u64>>>, within: Range<u64>) -> Range<u64> {
    match answer {
        Ok(Some(data)) if data.start >= within.start && data.start < data.end => {
            data.start.min(within.end)..data.end.min(within.end)
        }
        Ok(None) => within.end..within.end,
        _ => within,
    }
}

/// The path of a node without a leading `/`; empty for the root. Cost: the node's depth.
pub fn path(nodes: &[SourceNode], node: usize) -> Vec<u8> {
    let mut names = Vec::new();
    let mut at = node;
    while at != 0 {
        let Some(found) = nodes.get(at).filter(|found| found.parent < at) else { break };
        names.push(found.name.as_slice());
        at = found.parent;
    }
    names.reverse();
    names.join(&b'/')
}

/// The node that holds the content and attributes of a node's inode: the earlier node for a hard
/// link, else the node itself.
pub fn same_inode(nodes: &[SourceNode], node: usize) -> usize {
    nodes.get(node).and_then(|found| found.hard_link_of).unwrap_or(node)
}

/// The link count of each node's inode, as POSIX counts: for a directory 2 plus its subdirectories,
/// else the number of names.
pub fn link_counts(nodes: &[SourceNode]) -> Vec<u32> {
    let mut counts: Vec<u32> = nodes.iter().map(|node| if node.kind == FileKind::Directory { 2 } else { 0 }).collect();
    for (index, node) in nodes.iter().enumerate() {
        let counted = match node.kind {
            FileKind::Directory if index == 0 => continue,
            FileKind::Directory => node.parent,
            _ => same_inode(nodes, index),
        };
        if let Some(count) = counts.get_mut(counted) {
            *count = count.saturating_add(1);
        }
    }
    (0..nodes.len()).map(|index| counts.get(same_inode(nodes, index)).copied().unwrap_or(1)).collect()
}

/// The children of each directory.
#[derive(Clone, Debug, Default)]
pub struct Children {
    starts: Vec<usize>,
    children: Vec<usize>,
}

impl Children {
    /// Groups the nodes by parent. Cost: linear in the nodes.
    pub fn of(nodes: &[SourceNode]) -> Self {
        let mut starts = vec![0_usize; nodes.len() + 1];
        for node in nodes.iter().skip(1) {
            if let Some(count) = starts.get_mut(node.parent + 1) {
                *count += 1;
            }
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut next = starts.clone();
        let mut children = vec![0; total];
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let Some(place) = next.get_mut(node.parent) else { continue };
            if let Some(child) = children.get_mut(*place) {
                *child = index;
            }
            *place += 1;
        }
        Self { starts, children }
    }

    /// The children of a node, sorted by name; empty if the node is no directory.
    pub fn get(&self, node: usize) -> &[usize] {
        let range = |starts: &[usize]| -> Option<Range<usize>> { Some(*starts.get(node)?..*starts.get(node + 1)?) };
        range(&self.starts).and_then(|range| self.children.get(range)).unwrap_or(&[])
    }
}

/// Checks that nodes keep the promises of [`SourceTree`]; the error names the node and the broken
/// promise.
pub fn check(nodes: &[SourceNode]) -> Result<()> {
    let wrong = |index: usize, what: &str| {
        let path = String::from_utf8_lossy(&path(nodes, index)).into_owned();
        Err(FsError::new(ErrorKind::InvalidArgument, format!("node {index} (/{path}) {what}")))
    };
    let Some(root) = nodes.first() else { return wrong(0, "is missing: a tree has a root") };
    if root.kind != FileKind::Directory || !root.name.is_empty() || root.parent != 0 || root.hard_link_of.is_some() {
        return wrong(0, "is not a directory without a name");
    }
    // The directories above the last node, each with the name of its last child.
    let mut above: Vec<(usize, &[u8])> = vec![(0, &[])];
    for (index, node) in nodes.iter().enumerate().skip(1) {
        while above.len() > 1 && above.last().is_some_and(|(directory, _)| *directory != node.parent) {
            above.pop();
        }
        match above.last_mut() {
            Some((directory, last)) if *directory == node.parent => {
                if *last >= node.name.as_slice() {
                    return wrong(index, "does not sort after the previous name of its directory");
                }
                *last = &node.name;
            }
            _ => return wrong(index, "does not follow its parent in depth-first order"),
        }
        if components(&node.name).is_ok_and(|names| names != [node.name.as_slice()]) || components(&node.name).is_err()
        {
            return wrong(index, "has a name that no directory can hold");
        }
        if let Some(first) = node.hard_link_of {
            let shared = nodes.get(first).filter(|_| first < index);
            let same = shared.is_some_and(|shared| shared.kind == node.kind && shared.hard_link_of.is_none());
            if !same || node.kind == FileKind::Directory {
                return wrong(index, "is a hard link to something other than an earlier inode of its kind");
            }
        }
        if node.xattrs.is_sorted_by(|(a, _), (b, _)| a < b) && node.mode <= 0o7777 {
            if node.kind == FileKind::Directory {
                above.push((index, &[]));
            }
        } else {
            return wrong(index, "has extended attributes out of order, or a mode of more than 12 bits");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
