//! Page addresses in a file's node tree: lookup, reservation, change.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::WritableVolume;
use crate::blocks::{Blocks, Nodes};
use crate::ids::{DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::NodePath;
use crate::layout::inode::{Extent, nids_offset};
use crate::layout::{Footer, NodeOffset, set_word, word};

/// Whether an operation was refused for lack of space or by a quota.
pub(super) fn is_want_of_room(error: &FsError) -> bool {
    matches!(error.kind, ErrorKind::NoSpace | ErrorKind::QuotaExceeded)
}

/// The location of a page's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The node.
    pub nid: NodeId,
    /// Index among the node's addresses, as in summaries.
    pub index: u16,
    /// Byte offset in the node's block.
    pub byte: usize,
    /// The number of addresses from this one to the end of the node.
    pub count: u16,
}

impl Slot {
    /// The slot `pages` pages further on, in the same node.
    pub const fn ahead(self, pages: u16) -> Self {
        Self {
            index: self.index + pages,
            byte: self.byte + pages as usize * 4,
            count: self.count.saturating_sub(pages),
            ..self
        }
    }
}

/// The path of a page through existing nodes.
enum Way {
    /// The path leads to the page's address.
    There(Slot),
    /// The path lacks all nodes from `level` on; `above` is the node or inode above the first
    /// missing one.
    Missing { level: usize, above: NodeId },
}

impl<D: BlockDevice> WritableVolume<D> {
    fn path(&self, inode: &Inode, page: u64) -> Result<NodePath> {
        let shape = inode.tree_shape(self.geometry());
        shape.path(page).ok_or_else(|| {
            let detail = format!("page {page} of inode {}; a file has at most {} pages", inode.nid.0, shape.pages());
            FsError::new(ErrorKind::FileTooBig, detail)
        })
    }

    fn way(&self, inode: &Inode, path: &NodePath) -> Result<Way> {
        let index = |level: usize| path.indexes.get(level).copied().unwrap_or(0);
        if path.depth == 0 {
            let byte = inode.shape.addresses.start + usize::from(index(0)) * 4;
            let count = inode.shape.count.saturating_sub(index(0));
            return Ok(Way::There(Slot { nid: inode.nid, index: index(0), byte, count }));
        }
        let start = nids_offset(self.geometry().block_size());
        let (mut above, mut byte) = (inode.nid, start + usize::from(index(0)) * 4);
        let mut block = inode.block.clone();
        for level in 1..=path.depth {
            let nid = NodeId(word(&block, byte).unwrap_or(0));
            if nid == NodeId::NONE {
                return Ok(Way::Missing { level, above });
            }
            block = self.node(nid)?;
            self.expect_place(&block, inode.nid, nid, path.offsets.get(level).copied())?;
            (above, byte) = (nid, usize::from(index(level)) * 4);
        }
        let last = index(path.depth);
        let direct = inode.tree_shape(self.geometry()).direct_addresses as u16;
        Ok(Way::There(Slot { nid: above, index: last, byte, count: direct.saturating_sub(last) }))
    }

    pub(crate) fn expect_place(
        &self,
        block: &[u8],
        ino: NodeId,
        nid: NodeId,
        offset: Option<NodeOffset>,
    ) -> Result<()> {
        let footer = Footer::of_block(block);
        if footer.is_some_and(|footer| footer.ino() == ino && Some(footer.offset()) == offset) {
            return Ok(());
        }
        let detail = format!("{nid} is not where its footer says in the tree of inode {}", ino.0);
        Err(crate::Defect::new(crate::FindingKind::Tree, detail).of(ino).into_error())
    }

    /// Refuses an attribute node that belongs to another inode. Errors: `Corrupt`, `Device`.
    pub(crate) fn expect_xattr_node(&self, ino: NodeId, nid: NodeId) -> Result<()> {
        self.expect_place(&self.node(nid)?, ino, nid, Some(NodeOffset::XATTR))
    }

    /// The slot of a page's address; `None` if a node on the path is missing. Errors: `FileTooBig`,
    /// `Corrupt`, `Device`.
    pub(crate) fn slot(&self, inode: &Inode, page: u64) -> Result<Option<Slot>> {
        let path = self.path(inode, page)?;
        match self.way(inode, &path)? {
            Way::There(slot) => Ok(Some(slot)),
            Way::Missing { .. } => Ok(None),
        }
    }

    /// Makes sure that pages have an address, reserving missing ones, so that a write has room.
    /// Returns for how many pages from the first on, at least one. Errors: `NoSpace`,
    /// `QuotaExceeded` (not even one page; nothing has changed), `FileTooBig`, `Corrupt`, `Device`.
    pub(crate) fn reserve(&mut self, ino: NodeId, first: u64, count: u64) -> Result<u64> {
        let mut done = 0;
        while done < count {
            match self.reserve_in_leaf(ino, first + done, count - done) {
                Ok((pages, whole)) => {
                    done += pages;
                    if !whole {
                        break;
                    }
                }
                Err(error) if done > 0 && is_want_of_room(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reserves addresses within one node. Returns how many pages have one now, and whether that is
    /// all of them.
    fn reserve_in_leaf(&mut self, ino: NodeId, page: u64, most: u64) -> Result<(u64, bool)> {
        let inode = self.inode_at(ino)?;
        let path = self.path(&inode, page)?;
        let (slot, nodes, mut charged) = match self.way(&inode, &path)? {
            Way::There(slot) => (slot, 0, 0),
            Way::Missing { level, above } => {
                let slot = self.grow(&inode, &path, level, above)?;
                (slot, (path.depth + 1 - level) as u32, 1)
            }
        };
        let wanted = most.min(u64::from(slot.count));
        let block = self.node(slot.nid)?;
        let is_hole = |number: u64| DataAddress::of(word(&block, slot.byte + number as usize * 4).unwrap_or(0));
        if charged == 0 && (0..wanted).all(|number| is_hole(number) != DataAddress::Hole) {
            return Ok((wanted, true));
        }
        let holes: Vec<u64> = (0..wanted).filter(|&number| is_hole(number) == DataAddress::Hole).collect();
        // The new nodes are charged to the owners together with this page.
        let pending = u64::from(nodes) + charged;
        self.count_blocks(ino, pending as i64)?;
        if holes.len() as u64 > charged {
            let wanted = holes.len() as u64 - charged;
            let part = self.admit_blocks(ino, wanted, true);
            match part.and_then(|part| self.writer.segments.space.charge_part(part as u32)) {
                Ok(part) => charged += u64::from(part.blocks),
                Err(error) if holes.first() == Some(&0) && charged == 0 => return Err(error),
                Err(_) => {}
            }
        }
        let granted = holes.get(..charged as usize).unwrap_or(&holes);
        let pages = holes.get(granted.len()).copied().unwrap_or(wanted);
        drop(block);
        if !granted.is_empty() {
            self.edit_node(slot.nid, |block| {
                for &number in granted {
                    set_word(block, slot.byte + number as usize * 4, DataAddress::Reserved.field());
                }
            })?;
        }
        self.count_blocks(ino, i64::from(nodes) + granted.len() as i64 - pending as i64)?;
        Ok((pages, pages == wanted))
    }

    /// Makes the nodes of a path from a level on. It charges them and one page, so that no node is
    /// made in vain. Errors: `NoSpace`, before any change.
    fn grow(&mut self, inode: &Inode, path: &NodePath, level: usize, above: NodeId) -> Result<Slot> {
        let cold = inode.kind != nandkit_vfs::FileKind::Directory;
        let start = nids_offset(self.geometry().block_size());
        let missing = path.depth + 1 - level;
        self.admit_blocks(inode.nid, missing as u64 + 1, false)?;
        let nids = self.take_nids(missing)?;
        if let Err(error) = self.writer.segments.space.charge(nids.len() as u32, 1) {
            nids.into_iter().for_each(|nid| self.writer.nids.give_back(nid));
            return Err(error);
        }
        let mut above = above;
        for (level, nid) in (level..=path.depth).zip(nids) {
            let offset = path.offsets.get(level).copied().unwrap_or(NodeOffset::INODE);
            self.put_node(nid, inode.nid, offset, cold)?;
            let index = usize::from(path.indexes.get(level - 1).copied().unwrap_or(0));
            let byte = if above == inode.nid { start + index * 4 } else { index * 4 };
            self.edit_node(above, |block| set_word(block, byte, nid.0))?;
            above = nid;
        }
        match self.way(&self.inode_at(inode.nid)?, path)? {
            Way::There(slot) => Ok(slot),
            Way::Missing { .. } => {
                Err(FsError::new(ErrorKind::Corrupt, format!("the tree of inode {} does not grow", inode.nid.0)))
            }
        }
    }

    /// Takes several free nids. Errors: `NoSpace`, `Device`; then none stays taken.
    fn take_nids(&mut self, count: usize) -> Result<Vec<NodeId>> {
        let mut nids = Vec::with_capacity(count);
        while nids.len() < count {
            let next = match self.take_nid() {
                // A search that wrapped around finds nids that were taken but not entered.
                Ok(nid) if nids.contains(&nid) => Err(FsError::new(ErrorKind::NoSpace, "no node number is free")),
                next => next,
            };
            match next {
                Ok(nid) => nids.push(nid),
                Err(error) => {
                    nids.into_iter().for_each(|nid| self.writer.nids.give_back(nid));
                    return Err(error);
                }
            }
        }
        Ok(nids)
    }

    /// Changes an inode's block count by `change`.
    pub(crate) fn count_blocks(&mut self, ino: NodeId, change: i64) -> Result<()> {
        if change == 0 {
            return Ok(());
        }
        self.edit_head(ino, |head| head.blocks = head.blocks.get().saturating_add_signed(change).into())
    }

    /// Sets the address of a page. Drops the inode's largest extent: having none is correct, having
    /// a wrong one is not (f2fs-writing.md, "Extent cache on the device").
    pub(crate) fn set_address(&mut self, ino: NodeId, slot: &Slot, address: DataAddress) -> Result<()> {
        let byte = slot.byte;
        self.edit_node(slot.nid, |block| set_word(block, byte, address.field()))?;
        self.drop_extent(ino)
    }

    pub(crate) fn drop_extent(&mut self, ino: NodeId) -> Result<()> {
        let block = self.node(ino)?;
        let has_one = crate::layout::InodeHead::in_block(&block).is_some_and(|head| head.extent.length.get() != 0);
        drop(block);
        if has_one { self.edit_head(ino, |head| head.extent = Extent::default()) } else { Ok(()) }
    }

    /// Like [`WritableVolume::with_inode`], but works on a stopped volume too.
    pub(crate) fn edit_head<R>(
        &mut self,
        ino: NodeId,
        change: impl FnOnce(&mut crate::layout::InodeHead) -> R,
    ) -> Result<R> {
        use zerocopy::FromBytes;
        let done = self.edit_node(ino, |block| {
            crate::layout::InodeHead::mut_from_prefix(block).ok().map(|(head, _)| change(head))
        })?;
        done.ok_or_else(|| FsError::new(ErrorKind::Corrupt, format!("{ino} is no inode")))
    }
}
