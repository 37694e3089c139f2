//! Changing the owners, permissions, times and nodes of a tree.

use std::ops::Range;

use nandkit_vfs::source::{SourceNode, SourceTree, TreeBuilder, components, path, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Timestamp};

use crate::{AndroidFiles, DeviceTable, Result, TreeError};

/// Changes to all nodes of a tree; the default changes nothing. Applied in this order: exclude,
/// squash, owner, time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustments {
    /// Paths to leave out, with everything below them.
    pub exclude: Vec<Vec<u8>>,
    /// Sets owner and group of everything to 0 (`--squash-uids` of mkfs.jffs2).
    pub squash_owners: bool,
    /// Removes write permission for group and others, set-user-id and set-group-id, except on
    /// symbolic links (`--squash-perms` of mkfs.jffs2).
    pub squash_permissions: bool,
    /// Sets owner and group of everything.
    pub owner: Option<(u32, u32)>,
    /// Sets owner and group of the root directory only.
    pub root_owner: Option<(u32, u32)>,
    /// Sets all three times of everything.
    pub time: Option<Timestamp>,
    /// Reduces later times to this one, as `SOURCE_DATE_EPOCH` requires (reproducible-builds.org,
    /// "SOURCE_DATE_EPOCH specification").
    pub time_max: Option<Timestamp>,
    /// Drops all extended attributes.
    pub no_xattrs: bool,
}

impl Adjustments {
    fn excludes(&self, path: &[u8]) -> bool {
        self.exclude.iter().any(|excluded| match components(excluded) {
            Ok(names) => !names.is_empty() && names.join(&b'/') == path,
            Err(_) => false,
        })
    }

    fn apply(&self, node: &mut SourceNode, root: bool) {
        if self.squash_owners {
            (node.uid, node.gid) = (0, 0);
        }
        if self.squash_permissions && node.kind != FileKind::Symlink {
            node.mode &= !0o6022;
        }
        if let Some(owner) = self.owner.or(if root { self.root_owner } else { None }) {
            (node.uid, node.gid) = owner;
        }
        if let Some(owner) = self.root_owner.filter(|_| root) {
            (node.uid, node.gid) = owner;
        }
        for time in [&mut node.modified, &mut node.accessed, &mut node.changed] {
            *time = self.time.unwrap_or(*time);
            *time = self.time_max.map_or(*time, |max| max.min(*time));
        }
        if self.no_xattrs {
            node.xattrs.clear();
        }
    }
}

/// A tree changed by [`Adjustments`] and a [`DeviceTable`]. Contents are those of the inner tree.
#[derive(Clone, Debug)]
pub struct AdjustedTree<T> {
    inner: T,
    nodes: Vec<SourceNode>,
    /// For each node the node of `inner` with its content; `None` for new nodes and hard links.
    contents: Vec<Option<usize>>,
}

impl<T: SourceTree> AdjustedTree<T> {
    /// Applies the adjustments first, so that the device table overrides them, as in mkfs.jffs2.
    /// Errors: those of the table's lines.
    pub fn new(inner: T, adjustments: &Adjustments, table: Option<&DeviceTable>) -> Result<Self> {
        let nodes = inner.nodes();
        let mut missing = SourceNode::new(FileKind::Directory, 0o755);
        adjustments.apply(&mut missing, false);
        let mut builder = TreeBuilder::new(SourceNode::new(FileKind::Directory, 0o755), missing);
        let mut kept = vec![false; nodes.len()];
        // If the first name of an inode is left out, its next kept name takes that role: the first
        // kept name of each inode.
        let mut first: Vec<Option<Vec<u8>>> = vec![None; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            let path = path(nodes, index);
            let parent = index == 0 || kept.get(node.parent).copied().unwrap_or(false);
            if !parent || adjustments.excludes(&path) {
                continue;
            }
            if let Some(kept) = kept.get_mut(index) {
                *kept = true;
            }
            let inode = same_inode(nodes, index);
            let Some(first) = first.get_mut(inode) else { continue };
            let put = match first {
                Some(first) => builder.link(&path, first),
                None => {
                    let mut node = SourceNode { hard_link_of: None, ..node.clone() };
                    adjustments.apply(&mut node, index == 0);
                    let put = builder.put(&path, node, Some(inode));
                    *first = Some(path.clone());
                    put
                }
            };
            put.map_err(|error| TreeError::node(&path, error))?;
        }
        if let Some(table) = table {
            table.apply(&mut builder, adjustments)?;
        }
        let built = builder.finish();
        Ok(Self { inner, nodes: built.nodes, contents: built.contents })
    }

    /// Applies Android's files to all nodes; they override everything else. Errors: `Target` with
    /// the first path that a file does not cover.
    pub fn apply_android(&mut self, files: &AndroidFiles) -> Result<()> {
        files.apply(&mut self.nodes)
    }

    /// The inner tree.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

impl Adjustments {
    /// Gives a new node of a device table the times of the tree's nodes.
    pub(crate) fn timed(&self, node: SourceNode) -> SourceNode {
        node.at(self.time.unwrap_or_default().min(self.time_max.unwrap_or(Timestamp(i64::MAX))))
    }
}

impl<T: SourceTree> SourceTree for AdjustedTree<T> {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        let Some(content) = self.contents.get(same_inode(&self.nodes, node)) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        match content {
            Some(inner) => self.inner.read(*inner, offset, into),
            None => Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} has no content"))),
        }
    }

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        match self.contents.get(same_inode(&self.nodes, node)).copied().flatten() {
            Some(inner) => self.inner.data_after(inner, offset),
            None => Ok(None),
        }
    }
}
