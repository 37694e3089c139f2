//! The memory used for a mounted volume.

use crate::NodeAddress;
use crate::catalogue::{Block, NodeRef};
use crate::inode::{ALLOCATION, Inode, tree_bytes};
use crate::volume::Jffs2;
use crate::xattr::{Attribute, Reference};

impl<F> Jffs2<F> {
    /// Memory in bytes for the catalogue, inodes, names and attributes, with an upper bound for
    /// allocations. Loaded content is not counted. Cost: one pass.
    pub fn memory(&self) -> usize {
        let addresses = |nodes: &Vec<NodeAddress>| nodes.capacity() * size_of::<NodeAddress>() + ALLOCATION;
        let blocks: usize =
            self.catalogue.blocks.iter().map(|block| block.nodes.capacity() * size_of::<NodeRef>() + ALLOCATION).sum();
        let inodes: usize = self
            .inodes
            .values()
            .map(|inode: &Inode| addresses(&inode.nodes) + inode.entries.as_ref().map_or(0, |entries| entries.memory()))
            .sum();
        let attributes: usize = self.xattrs.attributes.values().map(|found: &Attribute| addresses(&found.nodes)).sum();
        let references: usize = self.xattrs.references.values().map(|found: &Reference| addresses(&found.nodes)).sum();
        let trees = tree_bytes(&self.inodes, true)
            + tree_bytes(&self.xattrs.attributes, false)
            + tree_bytes(&self.xattrs.references, false);
        // A block's position in its list is in a tree as well.
        let lists = self.catalogue.blocks.len() * (size_of::<Block>() + 2 * size_of::<(i64, u32)>());
        blocks + inodes + attributes + references + trees + lists
    }

    /// The number of nodes in the catalogue.
    pub fn node_count(&self) -> usize {
        self.catalogue.blocks.iter().map(|block| block.nodes.len()).sum()
    }
}
