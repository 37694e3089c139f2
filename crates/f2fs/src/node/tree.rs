//! From a page of a file to the node that holds its address (f2fs.md, "Nodes"; node.c,
//! `get_node_path`).

use nandkit_vfs::{FsError, Result};

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::node::word_of;
use crate::layout::{Footer, NodeOffset, NodePath, TreeShape, inode};

/// The addresses from a page on that one node holds, or how many pages have none because a node is
/// missing.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// No node: so many pages from the one asked for on are a hole.
    Hole {
        /// How many, at least one.
        pages: u64,
    },
    /// In a node.
    Addresses(Addresses),
}

/// Addresses of pages that follow one another, in one node.
#[derive(Clone, Debug)]
pub struct Addresses {
    nid: NodeId,
    block: Block,
    first_word: usize,
    /// How many, at least one.
    pub count: u16,
}

impl Addresses {
    /// The node that holds them.
    pub const fn nid(&self) -> NodeId {
        self.nid
    }

    /// The address of the `number`th page from the one that was asked for on; a hole behind the
    /// last.
    #[inline]
    pub fn get(&self, number: u64) -> DataAddress {
        let word = |number: u64| crate::layout::word(&self.block, self.first_word + number as usize * 4);
        DataAddress::of(if number < u64::from(self.count) { word(number).unwrap_or(0) } else { 0 })
    }
}

/// The leaf of a page. Errors: `Corrupt` (a node that is not where the tree says, or nobody's),
/// `Device`. Cost: a look at up to three nodes.
pub fn leaf(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64) -> Result<Leaf> {
    leaf_or(volume, inode, page, &mut |_, error| Err(error))
}

/// The leaf of a page, where `lost` is told of a node that cannot be had: how many pages from
/// `page` on are lost with it, and why. The pages are a hole then, unless `lost` returns an error. Errors: those of `lost`. Cost: a look at up to three nodes.
pub fn leaf_or(
    volume: &(impl Blocks + Nodes),
    inode: &Inode,
    page: u64,
    lost: &mut dyn FnMut(u64, FsError) -> Result<()>,
) -> Result<Leaf> {
    let shape = inode.tree_shape(volume.geometry());
    let Some(path) = shape.path(page) else { return Ok(Leaf::Hole { pages: u64::MAX }) };
    if path.depth == 0 {
        let (index, start) = (path.indexes[0], inode.shape.addresses.start);
        let first_word = start + usize::from(index) * 4;
        let count = inode.shape.count - index;
        return Ok(Leaf::Addresses(Addresses { nid: inode.nid, block: inode.block.clone(), first_word, count }));
    }
    let nids = inode::nids_offset(volume.geometry().block_size());
    let mut nid = NodeId(crate::layout::word(&inode.block, nids + usize::from(path.indexes[0]) * 4).unwrap_or(0));
    for level in 1..=path.depth {
        let (Some(&index), Some(&offset)) = (path.indexes.get(level), path.offsets.get(level)) else { break };
        if nid == NodeId::NONE {
            return Ok(Leaf::Hole { pages: pages_left(&shape, &path, level, page) });
        }
        let node = volume.node(nid).and_then(|block| check_place(&block, inode.nid, nid, offset).map(|()| block));
        let block = match node {
            Ok(block) => block,
            Err(error) => {
                let pages = pages_left(&shape, &path, level, page);
                lost(pages, error)?;
                return Ok(Leaf::Hole { pages });
            }
        };
        if level == path.depth {
            let count = (shape.direct_addresses - u64::from(index)) as u16;
            return Ok(Leaf::Addresses(Addresses { nid, block, first_word: usize::from(index) * 4, count }));
        }
        nid = NodeId(word_of(&block, index).unwrap_or(0));
    }
    Ok(Leaf::Hole { pages: 1 })
}

/// Pages from `page` on to the end of the subtree that is missing at `level` of the path.
fn pages_left(shape: &TreeShape, path: &NodePath, level: usize, page: u64) -> u64 {
    let subtree = shape.direct_nodes_below(path.depth, level) * shape.direct_addresses;
    // Where the subtree of this kind begins: everything is counted from the first page of its depth
    // on.
    let start = match path.depth {
        1 => shape.inode_addresses,
        2 => shape.inode_addresses + 2 * shape.direct_addresses,
        _ => shape.inode_addresses + (2 + 2 * shape.nids) * shape.direct_addresses,
    };
    subtree - (page - start) % subtree
}

/// A node is the inode's, and stands where its footer says: so no tree has a loop.
fn check_place(block: &[u8], ino: NodeId, nid: NodeId, offset: NodeOffset) -> Result<()> {
    let footer = Footer::of_block(block);
    match footer {
        Some(footer) if footer.ino() == ino && footer.offset() == offset => Ok(()),
        _ => {
            let (owner, place) = footer.map_or((0, 0), |footer| (footer.ino.get(), footer.offset().0));
            let detail =
                format!("{nid} at place {} of its tree says that it is at place {place} of inode {owner}", offset.0);
            Err(Defect::new(FindingKind::Tree, detail).of(ino).into_error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TreeShape = TreeShape { inode_addresses: 923, direct_addresses: 1018, nids: 1018 };

    #[test]
    fn missing_subtrees_end_where_the_next_begins() {
        let n = 1018_u64;
        let left = |page: u64, level: usize| pages_left(&SHAPE, &SHAPE.path(page).unwrap(), level, page);
        assert_eq!(left(923 + 10, 1), n - 10);
        assert_eq!(left(923 + 2 * n + 10, 1), n * n - 10);
        assert_eq!(left(923 + 2 * n + 10, 2), n - 10);
        let double = 923 + 2 * n + 2 * n * n;
        assert_eq!(
            (left(double, 1), left(double + n + 3, 2), left(double + n + 3, 3)),
            (n * n * n, n * n - n - 3, n - 3)
        );
    }
}
