//! From a page of a file to the node that holds its address (f2fs.md, "Nodes"; node.c, `get_node_path`).

use nandkit_vfs::Result;

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::node::word_of;
use crate::layout::{Footer, Geometry, NodeOffset, inode};

/// The way to a page's address: through up to three nodes below the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    /// Nodes below the inode: 0 where the inode itself holds the address.
    pub depth: usize,
    /// At the inode: the address' index at depth 0, else the place among its five nids. Then in each node on the way: index of the next nid, at last of the address.
    pub indexes: [u16; 4],
    /// Offset of each node on the way, the inode's first.
    pub offsets: [NodeOffset; 4],
}

/// Numbers of a file's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Addresses in the inode.
    pub inode_addresses: u64,
    /// Addresses in a direct node; in compressed files whole clusters.
    pub direct_addresses: u64,
    /// Nids in an indirect node.
    pub nids: u64,
}

impl TreeShape {
    /// Of an inode with so many addresses and so many pages a cluster (1: not compressed).
    pub fn new(geometry: &Geometry, inode_addresses: u16, cluster: u16) -> Self {
        let nids = u64::from(geometry.addresses_per_node());
        Self {
            inode_addresses: inode_addresses.into(),
            direct_addresses: nids - nids % u64::from(cluster.max(1)),
            nids,
        }
    }

    /// How many pages a file can have.
    pub const fn pages(&self) -> u64 {
        self.inode_addresses + self.direct_addresses * (2 + 2 * self.nids + self.nids * self.nids)
    }

    /// The way to a page; `None` behind the last page that a file can have.
    pub fn path(&self, page: u64) -> Option<NodePath> {
        let mut path = NodePath { depth: 0, indexes: [0; 4], offsets: [NodeOffset::INODE; 4] };
        let (direct, nids) = (self.direct_addresses, self.nids);
        if page < self.inode_addresses {
            path.indexes[0] = page as u16;
            return Some(path);
        }
        let page = page - self.inode_addresses;
        // The number of the direct node among all, and what is left is its address.
        let (mut node, address) = (page / direct, (page % direct) as u16);
        // In 32 bits: 29 hold every offset.
        let offset = |number: u64| NodeOffset(number as u32);
        if node < 2 {
            (path.depth, path.indexes) = (1, [node as u16, address, 0, 0]);
            path.offsets[1] = offset(1 + node);
            return Some(path);
        }
        node -= 2;
        if node < 2 * nids {
            let (indirect, child) = (node / nids, node % nids);
            (path.depth, path.indexes) = (2, [2 + indirect as u16, child as u16, address, 0]);
            path.offsets[1] = offset(3 + indirect * (nids + 1));
            path.offsets[2] = offset(4 + indirect * (nids + 1) + child);
            return Some(path);
        }
        node -= 2 * nids;
        if node < nids * nids {
            let (indirect, child) = (node / nids, node % nids);
            (path.depth, path.indexes) = (3, [4, indirect as u16, child as u16, address]);
            path.offsets[1] = offset(5 + 2 * nids);
            path.offsets[2] = offset(6 + 2 * nids + indirect * (nids + 1));
            path.offsets[3] = offset(7 + 2 * nids + indirect * (nids + 1) + child);
            return Some(path);
        }
        None
    }

    /// Direct nodes below a node at `level` of a path of `depth`: 1 for a direct node itself.
    fn direct_nodes_below(&self, depth: usize, level: usize) -> u64 {
        (level..depth).fold(1, |nodes, _| nodes * self.nids)
    }
}

/// The addresses from a page on that one node holds, or how many pages have none because a node is missing.
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
    block: Block,
    first_word: usize,
    /// Whose block it is: for summaries.
    pub node: NodeId,
    /// Index of the first address in the node: for summaries.
    pub index: u16,
    /// How many, at least one.
    pub count: u16,
}

impl Addresses {
    /// The address of the `number`th page from the one that was asked for on; a hole behind the last.
    #[inline]
    pub fn get(&self, number: u64) -> DataAddress {
        let word = |number: u64| crate::layout::word(&self.block, self.first_word + number as usize * 4);
        DataAddress::of(if number < u64::from(self.count) { word(number).unwrap_or(0) } else { 0 })
    }
}

/// The leaf of a page. Errors: `Corrupt` (a node that is not where the tree says, or nobody's), `Device`. Cost: a look at up to three nodes.
pub fn leaf(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64) -> Result<Leaf> {
    let shape = inode.tree_shape(volume.geometry());
    let Some(path) = shape.path(page) else { return Ok(Leaf::Hole { pages: u64::MAX }) };
    if path.depth == 0 {
        let (index, start) = (path.indexes[0], inode.shape.addresses.start);
        let first_word = start + usize::from(index) * 4;
        let count = inode.shape.count - index;
        return Ok(Leaf::Addresses(Addresses {
            block: inode.block.clone(),
            first_word,
            node: inode.nid,
            index,
            count,
        }));
    }
    let nids = inode::nids_offset(volume.geometry().block_size());
    let mut nid = NodeId(crate::layout::word(&inode.block, nids + usize::from(path.indexes[0]) * 4).unwrap_or(0));
    for level in 1..=path.depth {
        let (Some(&index), Some(&offset)) = (path.indexes.get(level), path.offsets.get(level)) else { break };
        if nid == NodeId::NONE {
            return Ok(Leaf::Hole { pages: pages_left(&shape, &path, level, page) });
        }
        let block = volume.node(nid)?;
        check_place(&block, inode.nid, nid, offset)?;
        if level == path.depth {
            let count = (shape.direct_addresses - u64::from(index)) as u16;
            return Ok(Leaf::Addresses(Addresses {
                block,
                first_word: usize::from(index) * 4,
                node: nid,
                index,
                count,
            }));
        }
        nid = NodeId(word_of(&block, index).unwrap_or(0));
    }
    Ok(Leaf::Hole { pages: 1 })
}

/// Pages from `page` on to the end of the subtree that is missing at `level` of the path.
fn pages_left(shape: &TreeShape, path: &NodePath, level: usize, page: u64) -> u64 {
    let subtree = shape.direct_nodes_below(path.depth, level) * shape.direct_addresses;
    // Where the subtree of this kind begins: everything is counted from the first page of its depth on.
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

    /// The table of f2fs.md, "Nodes", "Offsets in the file".
    #[test]
    fn offsets_are_those_of_the_table() {
        let n = 1018_u64;
        for (page, depth, indexes, last_offset) in [
            (922, 0, [922, 0, 0, 0], 0),
            (923, 1, [0, 0, 0, 0], 1),
            (923 + n, 1, [1, 0, 0, 0], 2),
            (923 + 2 * n, 2, [2, 0, 0, 0], 4),
            (923 + 3 * n + 5, 2, [2, 1, 5, 0], 5),
            (923 + 2 * n + n * n, 2, [3, 0, 0, 0], 5 + n),
            (923 + 2 * n + 2 * n * n, 3, [4, 0, 0, 0], 7 + 2 * n),
            (923 + 2 * n + 3 * n * n, 3, [4, 1, 0, 0], 7 + 2 * n + n + 1),
        ] {
            let path = SHAPE.path(page).unwrap();
            assert_eq!((path.depth, path.indexes), (depth, indexes), "page {page}");
            assert_eq!(u64::from(path.offsets[depth].0), last_offset, "page {page}");
        }
        assert_eq!(SHAPE.path(SHAPE.pages() - 1).unwrap().indexes, [4, 1017, 1017, 1017]);
        assert_eq!(SHAPE.path(SHAPE.pages()), None);
    }

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
