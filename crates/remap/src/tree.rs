//! A source tree whose files are read through the temporary file.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_vfs::source::{SourceNode, SourceTree, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

use crate::{Counters, Limits, Remapped, remap_create};

/// A tree of a file system whose content is read through [`Remapped`]; reading in tree order takes
/// the fewest requests. To get a consistent version of each file, call [`RemappedTree::begin`]
/// before reading it.
pub struct RemappedTree<'a> {
    nodes: Vec<SourceNode>,
    /// The index in the list of files, for each node with content.
    files: HashMap<usize, usize>,
    inner: Mutex<Inner<'a>>,
}

struct Inner<'a> {
    fs: &'a mut dyn FileSystem,
    remapped: Remapped,
}

impl fmt::Debug for RemappedTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemappedTree")
            .field("nodes", &self.nodes.len())
            .field("remapped", &self.lock().remapped)
            .finish()
    }
}

impl<'a> RemappedTree<'a> {
    /// A tree of these nodes; `inodes` has the inode of each node. Errors: those of
    /// [`remap_create`].
    pub fn new(
        fs: &'a mut dyn FileSystem,
        nodes: Vec<SourceNode>,
        inodes: &[InodeNumber],
        limits: Limits,
    ) -> Result<Self> {
        let (mut files, mut list) = (HashMap::new(), Vec::new());
        for (index, (node, inode)) in nodes.iter().zip(inodes).enumerate() {
            if node.kind == FileKind::Regular && node.hard_link_of.is_none() {
                files.insert(index, list.len());
                list.push(*inode);
            }
        }
        let remapped = remap_create(fs, &list, limits)?;
        Ok(Self { nodes, files, inner: Mutex::new(Inner { fs, remapped }) })
    }

    /// Begins to read a node's content; returns the node in the version that will be read, or
    /// `None` if it has no content of its own. Errors: those of [`Remapped::begin`].
    pub fn begin(&self, node: usize) -> Result<Option<SourceNode>> {
        let (Some(file), Some(known)) = (self.files.get(&node), self.nodes.get(node)) else { return Ok(None) };
        let Inner { fs, remapped } = &mut *self.lock();
        let now = remapped.begin(*fs, *file)?;
        if now.kind != FileKind::Regular {
            return Err(FsError::new(
                ErrorKind::NotFound,
                format!("inode {} is not a regular file any more", now.inode.0),
            ));
        }
        let (mode, size) = (now.mode & 0o7777, now.size);
        let (modified, accessed, changed) = (now.modified, now.accessed, now.changed);
        let (uid, gid) = (now.uid, now.gid);
        Ok(Some(SourceNode { mode, uid, gid, size, modified, accessed, changed, ..known.clone() }))
    }

    /// Drops the temporary file. Errors: those of [`Remapped::remap_delete`].
    pub fn delete(self) -> Result<Counters> {
        let Inner { fs, remapped } = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        remapped.remap_delete(fs)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<'a>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the file of a node. Error: the node has no content.
    fn with<T>(&self, node: usize, work: impl FnOnce(&mut Inner<'a>, usize) -> Result<T>) -> Result<T> {
        let Some(file) = self.files.get(&same_inode(&self.nodes, node)) else {
            let kind = if node < self.nodes.len() { ErrorKind::InvalidArgument } else { ErrorKind::NotFound };
            return Err(FsError::new(kind, format!("node {node} is not a regular file")));
        };
        work(&mut self.lock(), *file)
    }
}

impl SourceTree for RemappedTree<'_> {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.with(node, |inner, file| inner.remapped.remap_read(inner.fs, file, offset, into))
    }

    fn data_after(&self, node: usize, offset: u64) -> Result<Option<Range<u64>>> {
        self.with(node, |inner, file| inner.remapped.data_after(inner.fs, file, offset))
    }
}
