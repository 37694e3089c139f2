//! Finds the node that holds a page's address (f2fs.md, "Nodes"; node.c, `get_node_path`).

use nandkit_vfs::{FsError, Result};

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::node::word_of;
use crate::layout::{Footer, NodeOffset, NodePath, TreeShape, inode};

/// The addresses that one node holds from a page on, or the number of pages without any because a
/// node is missing.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// A node is missing: the requested page and those after it are a hole.
    Hole {
        /// The number of pages, at least one.
        pages: u64,
    },
    /// The addresses in a node.
    Addresses(Addresses),
}

/// Addresses of consecutive pages in one node.
#[derive(Clone, Debug)]
pub struct Addresses {
    nid: NodeId,
    words: Words,
    /// The number of addresses, at least one.
    pub count: u16,
}

#[derive(Clone, Debug)]
enum Words {
    /// The words of a node from a byte of its block on.
    Of(Block, usize),
    /// Consecutive blocks of a device that the file is an alias of.
    From(u32),
}

impl Addresses {
    /// The node that holds the addresses.
    pub const fn nid(&self) -> NodeId {
        self.nid
    }

    /// The address of the `number`th page after the requested one; a hole past the last.
    #[inline]
    pub fn get(&self, number: u64) -> DataAddress {
        if number >= u64::from(self.count) {
            return DataAddress::Hole;
        }
        match &self.words {
            Words::Of(block, first) => {
                DataAddress::of(crate::layout::word(block, first + number as usize * 4).unwrap_or(0))
            }
            Words::From(first) => DataAddress::At(BlockAddress(first.saturating_add(number as u32))),
        }
    }
}

/// The leaf of a page. Errors: `Corrupt` (a free nid, or a node whose footer does not match the
/// tree), `Device`. Cost: reads up to three nodes.
pub fn leaf(volume: &(impl Blocks + Nodes), inode: &Inode, page: u64) -> Result<Leaf> {
    leaf_or(volume, inode, page, &mut |_, error| Err(error))
}

/// Like [`leaf`], but reports a node that cannot be read to `lost`: how many pages from `page` on
/// are lost with it, and why. These pages are a hole, unless `lost` returns an error. Errors: those
/// of `lost`. Cost: reads up to three nodes.
pub fn leaf_or(
    volume: &(impl Blocks + Nodes),
    inode: &Inode,
    page: u64,
    lost: &mut dyn FnMut(u64, FsError) -> Result<()>,
) -> Result<Leaf> {
    if inode.is_device_alias() {
        return Ok(leaf_of_alias(inode, page));
    }
    let shape = inode.tree_shape(volume.geometry());
    let Some(path) = shape.path(page) else { return Ok(Leaf::Hole { pages: u64::MAX }) };
    if path.depth == 0 {
        let (index, start) = (path.indexes[0], inode.shape.addresses.start);
        let first_word = start + usize::from(index) * 4;
        let words = Words::Of(inode.block.clone(), first_word);
        return Ok(Leaf::Addresses(Addresses { nid: inode.nid, words, count: inode.shape.count - index }));
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
            let words = Words::Of(block, usize::from(index) * 4);
            return Ok(Leaf::Addresses(Addresses { nid, words, count }));
        }
        nid = NodeId(word_of(&block, index).unwrap_or(0));
    }
    Ok(Leaf::Hole { pages: 1 })
}

/// The blocks of a device alias from a page on, as many as a leaf can count.
fn leaf_of_alias(inode: &Inode, page: u64) -> Leaf {
    let extent = inode.head.extent;
    let (first, length) = (u64::from(extent.page.get()), u64::from(extent.length.get()));
    let left = page.checked_sub(first).and_then(|within| length.checked_sub(within)).unwrap_or(0);
    if left == 0 {
        return Leaf::Hole { pages: first.checked_sub(page).filter(|pages| *pages > 0).unwrap_or(u64::MAX) };
    }
    let at = u64::from(extent.address.get()) + (page - first);
    let words = Words::From(u32::try_from(at).unwrap_or(u32::MAX));
    Leaf::Addresses(Addresses { nid: inode.nid, words, count: u16::try_from(left).unwrap_or(u16::MAX) })
}

/// The number of pages from `page` to the end of the subtree that is missing at `level` of the
/// path.
fn pages_left(shape: &TreeShape, path: &NodePath, level: usize, page: u64) -> u64 {
    let subtree = shape.direct_nodes_below(path.depth, level) * shape.direct_addresses;
    // The first page of the subtree's kind: all else is counted from there.
    let start = match path.depth {
        1 => shape.inode_addresses,
        2 => shape.inode_addresses + 2 * shape.direct_addresses,
        _ => shape.inode_addresses + (2 + 2 * shape.nids) * shape.direct_addresses,
    };
    subtree - (page - start) % subtree
}

/// Checks that a node belongs to the inode and that its footer confirms its position, so that no
/// tree has a loop.
fn check_place(block: &[u8], ino: NodeId, nid: NodeId, offset: NodeOffset) -> Result<()> {
    let footer = Footer::of_block(block);
    match footer {
        Some(footer) if footer.ino() == ino && footer.offset() == offset => Ok(()),
        _ => {
            let (owner, place) = footer.map_or((0, 0), |footer| (footer.ino.get(), footer.offset().0));
            let detail =
                format!("{nid} at position {} of its tree claims to be at position {place} of inode {owner}", offset.0);
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
