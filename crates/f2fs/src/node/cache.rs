//! Nodes in memory: changed ones until they are written, clean ones while there is room.

use std::collections::BTreeSet;
use std::sync::Arc;

use nandkit_cache::{NumberMap, SharedCache};

use crate::ids::{Block, NodeId};
use crate::layout::node::mark;
use crate::layout::{Footer, Geometry, NodeOffset};

/// What a node holds, by its position in its file's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Nids.
    Indirect,
    /// Addresses of a directory, its inode or its attributes.
    Directory,
    /// Addresses, inode or attributes of any other file.
    Other,
}

/// Whether a node at this offset holds nids instead of addresses: it is neither inode nor attribute
/// node nor direct node (node.h, `IS_DNODE`).
pub fn is_indirect(geometry: &Geometry, offset: NodeOffset) -> bool {
    let n = u32::from(geometry.addresses_per_node());
    let at = offset.0;
    if offset == NodeOffset::XATTR || at == 3 || at == 4 + n || at == 5 + 2 * n {
        return offset != NodeOffset::XATTR;
    }
    at >= 6 + 2 * n && (at - (6 + 2 * n)).is_multiple_of(n + 1)
}

/// Nodes by nid.
#[derive(Debug)]
pub struct NodeCache {
    dirty: NumberMap<NodeId, Block>,
    /// Dirty nodes by owner.
    owned: BTreeSet<(NodeId, NodeId)>,
    clean: SharedCache<NodeId>,
}

impl NodeCache {
    /// A cache for about `clean` clean nodes.
    pub fn new(clean: usize) -> Self {
        Self { dirty: NumberMap::default(), owned: BTreeSet::new(), clean: SharedCache::new(clean) }
    }

    /// A node, if it is in memory.
    pub fn get(&self, nid: NodeId) -> Option<Block> {
        self.dirty.get(&nid).cloned().or_else(|| self.clean.get(nid))
    }

    /// Caches a node as read from the device.
    pub fn keep(&self, nid: NodeId, block: Block) {
        self.clean.put(nid, block);
    }

    /// Whether a node waits to be written.
    pub fn is_dirty(&self, nid: NodeId) -> bool {
        self.dirty.contains_key(&nid)
    }

    /// The number of waiting nodes.
    pub fn waiting(&self) -> usize {
        self.dirty.len()
    }

    /// Stores new content of a node, which then waits to be written. Its footer gives its owner and
    /// its position in the tree.
    pub fn soil(&mut self, nid: NodeId, block: Block) {
        self.clean.take(nid);
        let owner = Footer::of_block(&block).map_or(nid, |footer| footer.ino());
        self.dirty.insert(nid, block);
        self.owned.insert((owner, nid));
    }

    /// The bytes of a waiting node, for changing.
    pub fn edit(&mut self, nid: NodeId) -> Option<&mut [u8]> {
        self.dirty.get_mut(&nid).map(Arc::make_mut)
    }

    /// The content of a waiting node.
    pub fn waiting_block(&self, nid: NodeId) -> Option<&Block> {
        self.dirty.get(&nid)
    }

    /// Notes that a waiting node was handed to the device with the content of `block`.
    pub fn written(&mut self, nid: NodeId, block: Block) {
        self.forget(nid);
        self.clean.put(nid, block);
    }

    /// Forgets a node that was freed.
    pub fn forget(&mut self, nid: NodeId) {
        self.clean.take(nid);
        if let Some(block) = self.dirty.remove(&nid) {
            let owner = Footer::of_block(&block).map_or(nid, |footer| footer.ino());
            self.owned.remove(&(owner, nid));
        }
    }

    /// Waiting nodes in Linux's order of writing: indirect ones, directories', then others; each
    /// group by nid (node.c, `f2fs_sync_node_pages`).
    pub fn order(&self, geometry: &Geometry) -> Vec<NodeId> {
        let class = |block: &Block| match Footer::of_block(block) {
            Some(footer) if is_indirect(geometry, footer.offset()) => Class::Indirect,
            Some(footer) if footer.has(mark::COLD) => Class::Other,
            _ => Class::Directory,
        };
        let mut all: Vec<(Class, NodeId)> = self.dirty.iter().map(|(&nid, block)| (class(block), nid)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, nid)| nid).collect()
    }

    /// A file's waiting nodes, ascending.
    pub fn of_owner(&self, ino: NodeId) -> Vec<NodeId> {
        let range = (ino, NodeId(0))..=(ino, NodeId(u32::MAX));
        self.owned.range(range).map(|&(_, nid)| nid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::node::{FooterFields, put_footer};
    use crate::ids::BlockAddress;

    fn node(nid: u32, ino: u32, offset: u32, directory: bool) -> Block {
        let mut block = vec![0; 4096];
        let fields = FooterFields {
            nid: NodeId(nid),
            ino: NodeId(ino),
            offset: NodeOffset(offset),
            marks: FooterFields::cold(directory),
            checkpoint: 0,
            next: BlockAddress(0),
        };
        put_footer(&mut block, &fields);
        block.into()
    }

    #[test]
    fn nodes_are_written_in_the_order_of_linux() {
        let geometry = Geometry::for_tests(4096);
        let mut cache = NodeCache::new(10);
        // Indirect: 3, 1022, 2041, and below the double indirect one every 1019th from 2042 on.
        for (nid, ino, offset, directory) in
            [(20, 20, 0, false), (9, 20, 3, false), (12, 12, 0, true), (10, 12, 2042, true), (30, 12, 2043, true)]
        {
            cache.soil(NodeId(nid), node(nid, ino, offset, directory));
        }
        assert_eq!(cache.order(&geometry), [9, 10, 12, 30, 20].map(NodeId));
        assert_eq!(cache.of_owner(NodeId(12)), [10, 12, 30].map(NodeId));
        cache.written(NodeId(12), node(12, 12, 0, true));
        assert_eq!((cache.of_owner(NodeId(12)).len(), cache.waiting(), cache.is_dirty(NodeId(12))), (2, 4, false));
        assert!(cache.get(NodeId(12)).is_some());
        cache.forget(NodeId(12));
        assert!(cache.get(NodeId(12)).is_none());
        let indirect = |at| is_indirect(&geometry, NodeOffset(at));
        assert!([3, 1022, 2041, 2042, 3061].map(indirect).into_iter().all(|is| is));
        assert!(![0, 1, 2, 4, 1021, 1023, 2040, 2043, 0x1FFF_FFFF].map(indirect).into_iter().any(|is| is));
    }
}
