//! A source tree with its content in memory.

use super::{SourceNode, SourceTree, TreeBuilder, same_inode};
use crate::{ErrorKind, FileKind, FsError, Result};

/// A source tree with its content in memory, for tests and for small generated trees.
#[derive(Clone, Debug)]
pub struct MemoryTree {
    nodes: Vec<SourceNode>,
    contents: Vec<Option<Vec<u8>>>,
}

impl MemoryTree {
    /// Builds the tree from nodes with paths and content, in any order. Missing directories are
    /// made with mode 0755, owned by root. A regular file's size becomes that of its content.
    /// Errors: those of [`TreeBuilder::put`].
    pub fn new(items: impl IntoIterator<Item = (Vec<u8>, SourceNode, Vec<u8>)>) -> Result<Self> {
        let mut builder = Self::builder();
        for (path, mut node, content) in items {
            if node.kind == FileKind::Regular {
                node.size = content.len() as u64;
            }
            builder.put(&path, node, Some(content))?;
        }
        Ok(Self::from_builder(builder))
    }

    /// A builder with an empty root of mode 0755, owned by root.
    pub fn builder() -> TreeBuilder<Vec<u8>> {
        let directory = SourceNode::new(FileKind::Directory, 0o755);
        TreeBuilder::new(directory.clone(), directory)
    }

    /// The tree of a builder. Sizes of regular files become those of their contents.
    pub fn from_builder(builder: TreeBuilder<Vec<u8>>) -> Self {
        let built = builder.finish();
        let mut tree = Self { nodes: built.nodes, contents: built.contents };
        for index in 0..tree.nodes.len() {
            let first = same_inode(&tree.nodes, index);
            let size = tree.contents.get(first).and_then(Option::as_ref).map_or(0, Vec::len) as u64;
            if let Some(node) = tree.nodes.get_mut(index).filter(|node| node.kind == FileKind::Regular) {
                node.size = size;
            }
        }
        tree
    }
}

impl SourceTree for MemoryTree {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> Result<usize> {
        let Some(found) = self.nodes.get(node) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        if found.kind != FileKind::Regular {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is a {}", found.kind)));
        }
        let content = self.contents.get(same_inode(&self.nodes, node)).and_then(Option::as_deref).unwrap_or(&[]);
        let rest = usize::try_from(offset).ok().and_then(|offset| content.get(offset..)).unwrap_or(&[]);
        let count = rest.len().min(into.len());
        if let Some((to, from)) = into.get_mut(..count).zip(rest.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }
}
