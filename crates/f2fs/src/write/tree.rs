//! Addresses of pages, as a file's tree holds them: looked up, made room for, changed.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::WritableVolume;
use crate::blocks::{Blocks, Nodes};
use crate::ids::{DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::NodePath;
use crate::layout::inode::{Extent, nids_offset};
use crate::layout::{Footer, NodeOffset, set_word, word};

/// Whether something was refused because there is no room, or no more is allowed to its owner.
pub(super) fn is_want_of_room(error: &FsError) -> bool {
    matches!(error.kind, ErrorKind::NoSpace | ErrorKind::QuotaExceeded)
}

/// Where the address of a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The node.
    pub nid: NodeId,
    /// Index in its addresses: for summaries.
    pub index: u16,
    /// Byte of the node's block.
    pub byte: usize,
    /// Addresses of pages that follow, in the same node, this one included.
    pub count: u16,
}

impl Slot {
    /// The address so many pages on, in the same node.
    pub const fn ahead(self, pages: u16) -> Self {
        Self {
            index: self.index + pages,
            byte: self.byte + pages as usize * 4,
            count: self.count.saturating_sub(pages),
            ..self
        }
    }
}

/// The way of a page through existing nodes.
enum Way {
    /// To its address.
    There(Slot),
    /// So many nodes are missing, from this level of the path on; the node or inode above the
    /// first.
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
        let detail = format!("{nid} does not stand in the tree of inode {} where its footer says", ino.0);
        Err(crate::Defect::new(crate::FindingKind::Tree, detail).of(ino).into_error())
    }

    /// Refuses what an inode calls its node of attributes and is another's. Errors: `Corrupt`,
    /// `Device`.
    pub(crate) fn expect_xattr_node(&self, ino: NodeId, nid: NodeId) -> Result<()> {
        self.expect_place(&self.node(nid)?, ino, nid, Some(NodeOffset::XATTR))
    }

    /// Where a page's address stands; `None` where a node on the way is missing. Errors:
    /// `FileTooBig`, `Corrupt`, `Device`.
    pub(crate) fn slot(&self, inode: &Inode, page: u64) -> Result<Option<Slot>> {
        let path = self.path(inode, page)?;
        match self.way(inode, &path)? {
            Way::There(slot) => Ok(Some(slot)),
            Way::Missing { .. } => Ok(None),
        }
    }

    /// Makes sure that pages have an address, reserved where they have none, so that what is
    /// written has room; returns for how many, from the first on, at least one. Errors: `NoSpace`,
    /// `QuotaExceeded` (not for one; nothing has changed then), `FileTooBig`, `Corrupt`, `Device`.
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

    /// The pages that one node holds. Says how many have an address now, and whether that is all.
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
        // What grew counts for its owners with this page.
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

    /// Makes the nodes of a path from a level on. They are charged, and a page with them, so that
    /// no node is made for nothing. Errors: `NoSpace`, before anything has changed.
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

    /// Several free nids at once. Errors: `NoSpace`, `Device`; none is taken then.
    fn take_nids(&mut self, count: usize) -> Result<Vec<NodeId>> {
        let mut nids = Vec::with_capacity(count);
        while nids.len() < count {
            let next = match self.take_nid() {
                // A search that went round finds what was taken and not entered.
                Ok(nid) if nids.contains(&nid) => Err(FsError::new(ErrorKind::NoSpace, "no number of a node is free")),
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

    /// Moves an inode's count of blocks.
    pub(crate) fn count_blocks(&mut self, ino: NodeId, change: i64) -> Result<()> {
        if change == 0 {
            return Ok(());
        }
        self.edit_head(ino, |head| head.blocks = head.blocks.get().saturating_add_signed(change).into())
    }

    /// A page has another address. The largest extent of the inode is dropped: none is right, and
    /// one that is not is worse (f2fs-writing.md, "Extent cache on the device").
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

    /// [`WritableVolume::with_inode`] for work that goes on although the volume has stopped.
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
