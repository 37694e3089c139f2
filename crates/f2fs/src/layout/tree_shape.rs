//! The node tree of a file: which nodes lead to a page (f2fs.md, "Nodes"; node.c, `get_node_path`).

use super::{Geometry, NodeOffset};

/// The path to a page's address, through up to three nodes below the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    /// Nodes below the inode; 0 if the inode holds the address.
    pub depth: usize,
    /// In the inode: the index of the address at depth 0, else the index among its five nids. Then
    /// per node on the path: the index of the next nid, finally of the address.
    pub indexes: [u16; 4],
    /// Offset of each node on the path, starting with the inode's.
    pub offsets: [NodeOffset; 4],
}

/// The dimensions of a file's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Addresses in the inode.
    pub inode_addresses: u64,
    /// Addresses per direct node; in compressed files whole clusters.
    pub direct_addresses: u64,
    /// Nids per indirect node.
    pub nids: u64,
}

impl TreeShape {
    /// The tree of an inode with this many addresses and pages per cluster (1: not compressed).
    pub fn new(geometry: &Geometry, inode_addresses: u16, cluster: u16) -> Self {
        let nids = u64::from(geometry.addresses_per_node());
        Self {
            inode_addresses: inode_addresses.into(),
            direct_addresses: nids - nids % u64::from(cluster.max(1)),
            nids,
        }
    }

    /// The most pages of a file.
    pub const fn pages(&self) -> u64 {
        self.inode_addresses + self.direct_addresses * (2 + 2 * self.nids + self.nids * self.nids)
    }

    /// The path to a page; `None` past the last page that a file can have.
    pub fn path(&self, page: u64) -> Option<NodePath> {
        let mut path = NodePath { depth: 0, indexes: [0; 4], offsets: [NodeOffset::INODE; 4] };
        let (direct, nids) = (self.direct_addresses, self.nids);
        if page < self.inode_addresses {
            path.indexes[0] = page as u16;
            return Some(path);
        }
        let page = page - self.inode_addresses;
        // The number of the direct node among all; the remainder is its address.
        let (mut node, address) = (page / direct, (page % direct) as u16);
        // 29 bits hold every offset, so 32 are enough.
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

    /// Direct nodes below a node at `level` of a path of `depth`; 1 for a direct node itself.
    pub(crate) fn direct_nodes_below(&self, depth: usize, level: usize) -> u64 {
        (level..depth).fold(1, |nodes, _| nodes * self.nids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TreeShape = TreeShape { inode_addresses: 923, direct_addresses: 1018, nids: 1018 };

    /// The table in f2fs.md, "Nodes", "Offsets in the file".
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
}
