//! The volume as the collector sees it (gc.c, `is_alive`, `move_data_block`, `gc_node_segment`).

use nandkit_block::{BlockDevice, Placement};
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, Result};

use super::WritableVolume;
use super::tree::Slot;
use crate::blocks::{Blocks, Nodes};
use crate::clean::collected::{CollectableVolume, Liveness};
use crate::clean::mover::{LiveBlock, Mover};
use crate::device::RemapsSeen;
use crate::ids::{BlockAddress, DataAddress, NodeId, SegmentIndex};
use crate::inode::Inode;
use crate::layout::inode::{cluster_pages, inline};
use crate::layout::{ExtraAttributes, Footer, Geometry, InodeHead, NodeOffset, TreeShape, inode_shape, word};
use crate::segments::{Segments, Space, SpaceOn, Summary};

/// The number of a direct node among all direct nodes of its file, by offset (node.h,
/// `f2fs_start_bidx_of_node`); `None` for other nodes.
pub(crate) fn direct_number(offset: NodeOffset, n: u32) -> Option<u64> {
    let at = offset.0;
    if offset == NodeOffset::XATTR {
        return None;
    }
    match at {
        0 | 3 => None,
        1 | 2 => Some(u64::from(at) - 1),
        _ if at < 4 + n => Some(u64::from(at) - 2),
        _ if at > 4 + n && at < 5 + 2 * n => Some(u64::from(at) - 3),
        _ if at > 5 + 2 * n => {
            let (group, place) = ((at - 6 - 2 * n) / (n + 1), (at - 6 - 2 * n) % (n + 1));
            (place > 0 && group < n)
                .then(|| 2 + 2 * u64::from(n) + u64::from(group) * u64::from(n) + u64::from(place) - 1)
        }
        _ => None,
    }
}

/// Treats inconsistent data as having no owner; a failing device remains an error.
fn known<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::Device => Err(error),
        Err(_) => Ok(None),
    }
}

/// The page of a file that a block holds, and where its address stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageOwner {
    pub inode: NodeId,
    pub page: u32,
    pub slot: Slot,
    /// The file is pinned: its blocks stay where they are.
    pub is_pinned: bool,
}

/// The page of a file for an index in one of its nodes, and the slot of its address.
/// `inode_block`: the inode's block.
fn page_of(
    geometry: &Geometry,
    (ino, inode_block): (NodeId, &[u8]),
    (nid, offset, index): (NodeId, NodeOffset, u16),
) -> Option<PageOwner> {
    // As `Inode::decode` does, but without copies of the head: this is done twice for each block
    // that a collector moves.
    let head = InodeHead::in_block(inode_block)?;
    let shape = inode_shape(geometry, geometry.features, inode_block).ok()?;
    let has_tree = match head.file_kind()? {
        FileKind::Regular | FileKind::Symlink => !head.has_inline(inline::DATA),
        FileKind::Directory => !head.has_inline(inline::DENTRY),
        _ => false,
    };
    if !has_tree {
        return None;
    }
    let is_pinned = head.has_inline(inline::PINNED);
    if nid == ino {
        let byte = shape.addresses.start + usize::from(index) * 4;
        let slot = Slot { nid, index, byte, count: 1 };
        return (index < shape.count).then_some(PageOwner { inode: ino, page: index.into(), slot, is_pinned });
    }
    let compression =
        ExtraAttributes::of_block(inode_block).filter(|extra| head.is_compressed(extra, geometry.features));
    let cluster = compression.and_then(|extra| cluster_pages(&extra).ok()).unwrap_or(1);
    let tree = TreeShape::new(geometry, shape.count, cluster);
    let number = direct_number(offset, u32::from(geometry.addresses_per_node()))?;
    let page = u32::try_from(tree.inode_addresses + number * tree.direct_addresses + u64::from(index)).ok()?;
    let slot = Slot { nid, index, byte: usize::from(index) * 4, count: 1 };
    (u64::from(index) < tree.direct_addresses).then_some(PageOwner { inode: ino, page, slot, is_pinned })
}

impl<D: BlockDevice> WritableVolume<D> {
    /// The page of a direct node's first address, by offset; `None` for other nodes.
    pub(crate) fn first_page_of(&self, inode: &Inode, offset: NodeOffset) -> Option<u64> {
        let shape = inode.tree_shape(self.geometry());
        let number = direct_number(offset, u32::from(self.geometry().addresses_per_node()))?;
        Some(shape.inode_addresses + number * shape.direct_addresses)
    }

    /// The file and page that a summary names, if the node points to this block.
    pub(crate) fn owner_of(&self, at: BlockAddress, owner: Summary) -> Result<Option<PageOwner>> {
        if self.geometry().nat_block(owner.nid).is_none() || self.entry(owner.nid)?.is_free() {
            return Ok(None);
        }
        let Some(block) = known(self.node(owner.nid))? else { return Ok(None) };
        let Some(footer) = Footer::of_block(&block) else { return Ok(None) };
        let ino = footer.ino();
        let other = if ino == owner.nid { None } else { known(self.node(ino))? };
        let inode_block = match &other {
            Some(inode_block) => inode_block,
            None if ino == owner.nid => &block,
            None => return Ok(None),
        };
        if Footer::of_block(inode_block).is_none_or(|footer| footer.ino() != ino) {
            return Ok(None);
        }
        let node = (owner.nid, footer.offset(), owner.offset);
        let found = page_of(self.geometry(), (ino, inode_block), node);
        Ok(found.filter(|found| word(&block, found.slot.byte) == Some(at.0)))
    }
}

impl<D: BlockDevice> CollectableVolume for WritableVolume<D> {
    fn segments(&mut self) -> &mut Segments {
        &mut self.writer.segments
    }

    fn with_space<R>(&mut self, work: impl FnOnce(&mut dyn Space) -> Result<R>) -> Result<R> {
        work(&mut SpaceOn { segments: &mut self.writer.segments, device: &self.device })
    }

    fn summaries(&mut self, segment: SegmentIndex) -> Result<Vec<Summary>> {
        let entries = self.writer.segments.summaries(&self.device, segment);
        let entries = self.or_stop(entries)?;
        Ok(entries.iter().copied().map(Summary::from).collect())
    }

    fn liveness(&mut self, at: BlockAddress, owner: Summary) -> Result<Liveness> {
        Ok(match self.owner_of(at, owner)? {
            None => Liveness::Dead,
            Some(found) if found.is_pinned => Liveness::Stays,
            Some(found) => Liveness::Live(found.inode, found.page),
        })
    }

    fn move_node(&mut self, at: BlockAddress, nid: NodeId) -> Result<bool> {
        if self.geometry().nat_block(nid).is_none() || self.entry(nid)?.address() != DataAddress::At(at) {
            return Ok(false);
        }
        self.edit_node(nid, |_| ())?;
        self.write_nodes(&[nid], Cause::Cleaning, &|_| 0)?;
        Ok(true)
    }

    fn moved(&mut self, block: &LiveBlock, to: BlockAddress) -> Result<()> {
        self.writer.written_blocks += 1;
        match self.owner_of(block.from, block.owner)? {
            Some(PageOwner { inode, slot, .. }) => {
                self.writer.since_checkpoint.copied(inode);
                if let Some(files) = &mut self.writer.moved_files {
                    files.insert(inode);
                }
                self.set_address(inode, &slot, DataAddress::At(to))
            }
            None => Ok(()),
        }
    }

    fn checkpoint_requests(&mut self) -> Vec<u32> {
        self.requests_of_checkpoint()
    }

    fn mover(&mut self) -> &mut dyn Mover {
        &mut self.device
    }

    fn now(&self) -> u64 {
        self.elapsed_seconds()
    }

    fn reads_any(&self) -> bool {
        self.writer.reads.as_ref().is_some_and(|reads| !reads.is_empty())
    }

    fn reads_of(&self, inode: NodeId) -> f64 {
        let Some(reads) = &self.writer.reads else { return 0.0 };
        match reads.of(inode) {
            0 => 0.0,
            bytes => self.inode_at(inode).map_or(0.0, |inode| bytes as f64 / inode.head.size.get().max(1) as f64),
        }
    }

    fn remaps_seen(&self) -> RemapsSeen {
        self.device.remaps_seen()
    }

    fn placement(&self, at: BlockAddress) -> Option<Placement> {
        self.device.placement(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::node::direct_offset;

    #[test]
    fn numbers_of_direct_nodes_go_both_ways() {
        for number in [0, 1, 2, 3, 1019, 1020, 1021, 2037, 2038, 2039, 3055, 3056, 100_000] {
            let offset = direct_offset(number, 1018).unwrap();
            assert_eq!(direct_number(offset, 1018), Some(number), "{offset:?}");
        }
        for offset in [0, 3, 1022, 2041, 2042, 3061, 0x1FFF_FFFF] {
            assert_eq!(direct_number(NodeOffset(offset), 1018), None, "{offset}");
        }
    }
}
