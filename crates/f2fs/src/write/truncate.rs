//! Truncation, hole punching, allocation ahead, and freeing of inodes.

use nandkit_block::BlockDevice;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::WritableVolume;
use super::data::inline_room;
use crate::blocks::{Blocks, Nodes};
use crate::encode::node::{direct_offset, double_indirect_offset, double_offset, indirect_offset};
use crate::ids::{DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{advise, inline, nids_offset};
use crate::layout::{NodeOffset, set_word, word};
use crate::pages::Page;
use crate::segments::Charge;

/// A subtree of a file's nodes.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    ino: NodeId,
    nid: NodeId,
    /// Levels of nodes; 1 is a direct node.
    depth: u32,
    /// The number of its first direct node among all of the file.
    first: u64,
    offset: NodeOffset,
    /// Whether freed NEW_ADDR and COMPRESS_ADDR addresses are subtracted from the counts.
    counts_reserved: bool,
}

impl<D: BlockDevice> WritableVolume<D> {
    /// Sets a file's size. The cut-off part is gone at once, and its blocks become free with the
    /// next checkpoint; an added part reads as zeroes. The caller sets times. Errors: `FileTooBig`,
    /// `NoSpace` (content leaves the inode), `NotSupported`, `IsADirectory`, `InvalidArgument`,
    /// `ReadOnly`, `Corrupt`, `Device`. Cost: the nodes of the cut-off part.
    pub fn truncate(&mut self, ino: NodeId, size: u64) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        self.expect_writable(&inode)?;
        self.expect_size(&inode, size)?;
        let old = inode.head.size.get();
        if inode.inline_data().is_some() {
            if size <= inline_room(&inode.shape) {
                return self.truncate_inline(&inode, size);
            }
            self.convert_inline(ino)?;
        }
        if size < old {
            let block = self.geometry().block_size() as u64;
            if !size.is_multiple_of(block) {
                self.zero_part(ino, size / block, (size % block) as usize..block as usize)?;
                // Even if it was zero already, that may hold only in memory. If the write fails, it
                // is retried later.
                let written = self.write_back_page(ino, u32::try_from(size / block).unwrap_or(u32::MAX));
                written.or_else(|error| match error.kind {
                    ErrorKind::NoSpace | ErrorKind::Device if self.writer.stopped.is_none() => Ok(()),
                    _ => Err(error),
                })?;
            }
        } else if size > old {
            self.clear_behind(ino, old)?;
        }
        // With an unchanged size too: blocks reserved past the end are freed.
        let frees = size <= old || inode.head.has_advise(advise::TRUNCATE);
        if frees {
            let first = size.min(old).div_ceil(self.geometry().block_size() as u64);
            self.writer.pages().truncate(ino, u32::try_from(first).unwrap_or(u32::MAX));
            self.free_pages_from(ino, first)?;
        }
        self.edit_head(ino, |head| {
            head.size = size.into();
            // Roll-forward would lengthen the file to blocks left past its end.
            head.advise &= if frees { !(advise::KEEP_SIZE | advise::TRUNCATE) } else { 0xFF };
        })
    }

    /// Zeroes the rest of the last page of a file of this size, before the file grows; Linux and
    /// power cuts may have left bytes there. Writes the page to another block at once (in place for
    /// a pinned file), since a checkpoint leaves out data that is only in memory. Called within an
    /// operation, after [`WritableVolume::balance`]. Errors: `Corrupt`, `Device`; the file need not
    /// grow then.
    pub(super) fn clear_behind(&mut self, ino: NodeId, size: u64) -> Result<()> {
        let block = self.geometry().block_size() as u64;
        let page = size / block;
        if size.is_multiple_of(block) {
            return Ok(());
        }
        let changed = self.zero_part(ino, page, (size % block) as usize..block as usize)?;
        if !changed && !self.writer.uncleared.contains(&ino) {
            return Ok(());
        }
        match self.write_back_page(ino, page as u32) {
            Err(error) if error.kind == ErrorKind::NoSpace => Ok(()),
            done => done,
        }
    }

    /// Drops blocks past the end that Linux reserved for a write cut short by a power failure:
    /// their content is not the file's (f2fs.h, `file_need_truncate`). Called before any other
    /// change.
    pub(super) fn drop_unwritten(&mut self, inode: &Inode) -> Result<()> {
        if inode.head.has_advise(advise::TRUNCATE) && inode.inline_data().is_none() {
            self.balance()?;
            let first = inode.head.size.get().div_ceil(self.geometry().block_size() as u64);
            self.writer.pages().truncate(inode.nid, u32::try_from(first).unwrap_or(u32::MAX));
            self.free_pages_from(inode.nid, first)?;
            self.edit_head(inode.nid, |head| head.advise &= !advise::TRUNCATE)?;
        }
        Ok(())
    }

    fn truncate_inline(&mut self, inode: &Inode, size: u64) -> Result<()> {
        let start = inode.shape.inline.start.saturating_add(size as usize);
        let end = inode.shape.inline.end;
        self.edit_node(inode.nid, |block| {
            if let Some(area) = block.get_mut(start..end) {
                area.fill(0);
            }
        })?;
        self.edit_head(inode.nid, |head| {
            head.size = size.into();
            if size == 0 {
                head.inline &= !inline::DATA_EXISTS;
            }
        })
    }

    /// Zeroes a part of a page, unless the page is a hole. Returns whether anything changed.
    fn zero_part(&mut self, ino: NodeId, page: u64, range: std::ops::Range<usize>) -> Result<bool> {
        let inode = self.inode_at(ino)?;
        if !self.has_page(&inode, page)? {
            return Ok(false);
        }
        let mut bytes = self.page_bytes(ino, page)?;
        if let Some(part) = bytes.get_mut(range) {
            if nandkit_units::is_zeroed(part) {
                return Ok(false);
            }
            part.fill(0);
        }
        self.writer.pages().change(ino, page as u32, Page::Bytes(bytes.into()), false);
        Ok(true)
    }

    /// Makes a range read as zeroes and frees its whole pages; the size is unchanged. Errors: as
    /// [`WritableVolume::truncate`].
    pub fn punch(&mut self, ino: NodeId, offset: u64, length: u64) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        self.expect_writable(&inode)?;
        let block = self.geometry().block_size() as u64;
        let most = self.file_size_max(&inode);
        let (start, end) = (offset.min(most), offset.saturating_add(length).min(most));
        if inode.inline_data().is_some() {
            let area = inode.shape.inline.clone();
            let clamp = |at: u64| area.start + at.min(area.len() as u64) as usize;
            return self.edit_node(ino, |bytes| {
                if let Some(part) = bytes.get_mut(clamp(start)..clamp(end)) {
                    part.fill(0);
                }
            });
        }
        let (first, behind) = (start.div_ceil(block), end / block);
        if start / block == end / block {
            return self.zero_part(ino, start / block, (start % block) as usize..(end % block) as usize).map(drop);
        }
        if !start.is_multiple_of(block) {
            self.zero_part(ino, start / block, (start % block) as usize..block as usize)?;
        }
        if !end.is_multiple_of(block) {
            self.zero_part(ino, behind, 0..(end % block) as usize)?;
        }
        self.free_pages(ino, first, behind)
    }

    /// Frees the pages from `first` to before `behind` and keeps their nodes.
    pub(crate) fn free_pages(&mut self, ino: NodeId, first: u64, behind: u64) -> Result<()> {
        let narrow = |page: u64| u32::try_from(page).unwrap_or(u32::MAX);
        self.writer.pages().punch(ino, narrow(first)..narrow(behind));
        let mut page = first;
        while page < behind {
            let inode = self.inode_at(ino)?;
            match crate::node::tree::leaf(self, &inode, page)? {
                crate::node::tree::Leaf::Hole { pages } => page = page.saturating_add(pages),
                crate::node::tree::Leaf::Addresses(found) => {
                    let count = (behind - page).min(u64::from(found.count));
                    drop(found);
                    if let Some(slot) = self.slot(&inode, page)? {
                        self.free_words(ino, slot.nid, slot.byte, count as usize, true, true)?;
                    }
                    page += count.max(1);
                }
            }
        }
        Ok(())
    }

    /// Reserves space so that writes to a range cannot run out of it; the file grows to the range's
    /// end unless `keep_size`. Errors: `NoSpace`, before any change; as
    /// [`WritableVolume::truncate`].
    pub fn allocate_range(&mut self, ino: NodeId, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.balance()?;
        let inode = self.inode_at(ino)?;
        self.expect_writable(&inode)?;
        let end = offset.saturating_add(length);
        self.expect_size(&inode, end)?;
        self.drop_unwritten(&inode)?;
        if length == 0 {
            return Err(FsError::new(ErrorKind::InvalidArgument, "an empty range"));
        }
        let block = self.geometry().block_size() as u64;
        let (first, behind) = (offset / block, end.div_ceil(block));
        let needed = self.blocks_needed(&inode, first, behind)?;
        let free = self.writer.segments.space.free_blocks();
        if needed > free {
            return Err(FsError::new(ErrorKind::NoSpace, format!("{needed} blocks are needed and {free} are free")));
        }
        self.admit_blocks(ino, needed, false)?;
        self.convert_inline(ino)?;
        if !keep_size && end > inode.head.size.get() {
            self.clear_behind(ino, inode.head.size.get())?;
        }
        let had = self.reserve(ino, first, behind - first)?;
        let grown = if had == behind - first { end } else { (first + had) * block };
        let size = inode.head.size.get();
        self.edit_head(ino, |head| {
            if grown > size && keep_size {
                head.advise |= advise::KEEP_SIZE;
            } else if grown > size {
                head.size = grown.into();
            }
        })?;
        if had < behind - first {
            return Err(FsError::new(ErrorKind::NoSpace, format!("{had} of {} pages were had", behind - first)));
        }
        Ok(())
    }

    /// An upper bound of the blocks that a range needs for pages without an address and for their
    /// nodes.
    pub(super) fn blocks_needed(&self, inode: &Inode, first: u64, behind: u64) -> Result<u64> {
        if inode.inline_data().is_some() {
            let leaves = (behind - first).div_ceil(u64::from(self.geometry().addresses_per_node())) + 1;
            return Ok(behind - first + 1 + if behind > u64::from(inode.shape.count) { leaves + 2 } else { 0 });
        }
        // Pages in the inode and its two direct nodes need no indirect node.
        let n = u64::from(self.geometry().addresses_per_node());
        let shape = inode.tree_shape(self.geometry());
        let without_above = shape.inode_addresses + 2 * shape.direct_addresses;
        let (mut page, mut needed) = (first, 0);
        while page < behind {
            match crate::node::tree::leaf(self, inode, page)? {
                crate::node::tree::Leaf::Hole { pages } => {
                    let pages = pages.min(behind - page);
                    let (start, end) = (page.saturating_sub(shape.inode_addresses), page + pages);
                    let leaves = end.saturating_sub(shape.inode_addresses).div_ceil(shape.direct_addresses.max(1))
                        - start / shape.direct_addresses.max(1);
                    let above = if end > without_above { 3 + leaves / n } else { 0 };
                    needed += pages + leaves + above;
                    page += pages;
                }
                crate::node::tree::Leaf::Addresses(found) => {
                    let count = u64::from(found.count).min(behind - page);
                    needed += (0..count).filter(|&number| found.get(number) == DataAddress::Hole).count() as u64;
                    page += count;
                }
            }
        }
        Ok(needed)
    }

    /// Frees an inode without a name: content, attributes and, with the next checkpoint, its
    /// number. Errors: `ReadOnly`, `Corrupt`, `Device`. Cost: the nodes of its tree.
    pub fn free_inode(&mut self, ino: NodeId) -> Result<()> {
        self.balance()?;
        self.give_up_inode(ino)
    }

    /// Like [`WritableVolume::free_inode`], within an operation.
    pub(crate) fn give_up_inode(&mut self, ino: NodeId) -> Result<()> {
        self.drop_draft_of(ino)?;
        let inode = self.inode_at(ino)?;
        self.writer.pages().truncate(ino, 0);
        let has_tree = match inode.kind {
            FileKind::Regular | FileKind::Symlink => !inode.head.has_inline(inline::DATA),
            FileKind::Directory => !inode.head.has_inline(inline::DENTRY),
            _ => false,
        };
        if has_tree {
            self.free_pages_from(ino, 0)?;
        }
        if let Some(nid) = NodeId(inode.head.xattr_nid.get()).some() {
            self.expect_xattr_node(ino, nid)?;
            self.drop_node(nid)?;
        }
        self.drop_node(ino)?;
        self.writer.segments.space.valid_inodes = self.writer.segments.space.valid_inodes.saturating_sub(1);
        self.writer.orphans.remove(&ino);
        self.writer.lazy_times.take(ino);
        self.writer.since_checkpoint.forget(ino);
        self.writer.uncleared.remove(&ino);
        self.writer.drafts.remove(&ino);
        Ok(())
    }

    /// Frees all pages from `from` on, and the nodes that hold no others.
    pub(crate) fn free_pages_from(&mut self, ino: NodeId, from: u64) -> Result<()> {
        let inode = self.inode_at(ino)?;
        let (shape, n) = (inode.tree_shape(self.geometry()), u64::from(self.geometry().addresses_per_node()));
        let counts_reserved = !inode.head.has_inline(inline::COMPRESS_RELEASED);
        let words = inode.shape.addresses.len() as u64 / 4;
        if from < words {
            let byte = inode.shape.addresses.start + from as usize * 4;
            self.free_words(ino, ino, byte, (words - from) as usize, counts_reserved, true)?;
        }
        let nids = nids_offset(self.geometry().block_size());
        let mut start = shape.inode_addresses;
        for (slot, depth) in [1, 1, 2, 2, 3].into_iter().enumerate() {
            let byte = nids + slot * 4;
            let nodes = n.pow(depth - 1);
            let span = shape.direct_addresses * nodes;
            let (first, offset) = match slot {
                0 | 1 => (slot as u64, NodeOffset(1 + slot as u32)),
                2 | 3 => (2 + (slot as u64 - 2) * n, indirect_offset(slot as u64 - 2, n)),
                _ => (2 + 2 * n, double_offset(n)),
            };
            let nid = NodeId(word(&inode.block, byte).unwrap_or(0));
            if nid != NodeId::NONE && from < start + span {
                let subtree = Subtree { ino, nid, depth, first, offset, counts_reserved };
                if self.free_subtree(subtree, from.saturating_sub(start))? {
                    self.edit_node(ino, |block| set_word(block, byte, 0))?;
                }
            }
            start += span;
        }
        Ok(())
    }

    /// Frees the pages of a subtree from `from` on; returns whether the whole subtree is gone. It
    /// goes down at most three levels: each node must confirm its place in the tree.
    fn free_subtree(&mut self, subtree: Subtree, from: u64) -> Result<bool> {
        let Subtree { ino, nid, depth, first, offset, counts_reserved } = subtree;
        let block = self.node(nid)?;
        self.expect_place(&block, ino, nid, Some(offset))?;
        let (n, inode) = (u64::from(self.geometry().addresses_per_node()), self.inode_at(ino)?);
        let direct = inode.tree_shape(self.geometry()).direct_addresses;
        if depth == 1 {
            self.free_words(ino, nid, from as usize * 4, n.saturating_sub(from) as usize, counts_reserved, from > 0)?;
        } else {
            let below = n.pow(depth - 2);
            let span = direct * below;
            for index in from / span..n {
                let child = NodeId(word(&block, index as usize * 4).unwrap_or(0));
                if child == NodeId::NONE {
                    continue;
                }
                let at = first + index * below;
                let offset = match depth {
                    2 => direct_offset(at, n).unwrap_or(NodeOffset::XATTR),
                    _ => double_indirect_offset(index, n),
                };
                let subtree = Subtree { nid: child, depth: depth - 1, first: at, offset, ..subtree };
                let from = if index == from / span { from % span } else { 0 };
                if self.free_subtree(subtree, from)? {
                    self.edit_node(nid, |block| set_word(block, index as usize * 4, 0))?;
                }
            }
        }
        if from > 0 {
            return Ok(false);
        }
        if matches!(self.entry(nid)?.address(), DataAddress::At(_)) {
            self.writer.since_checkpoint.pruned(ino);
        }
        self.drop_node(nid)?;
        self.count_blocks(ino, -1)?;
        Ok(true)
    }

    /// Frees the addresses of a node from a byte on. `clear`: the node stays, so they become holes.
    fn free_words(
        &mut self,
        ino: NodeId,
        nid: NodeId,
        byte: usize,
        count: usize,
        counts_reserved: bool,
        clear: bool,
    ) -> Result<()> {
        let block = self.node(nid)?;
        let now = self.elapsed_seconds();
        let (mut gone, mut any) = (0_u32, false);
        for index in 0..count {
            let address = DataAddress::of(word(&block, byte + index * 4).unwrap_or(0));
            any |= address != DataAddress::Hole;
            match address {
                DataAddress::Hole => {}
                DataAddress::Reserved | DataAddress::Compressed => gone += u32::from(counts_reserved),
                DataAddress::At(at) => {
                    self.writer.segments.free(at, now);
                    gone += 1;
                }
            }
        }
        drop(block);
        if !any {
            return Ok(());
        }
        if clear {
            self.edit_node(nid, |block| {
                if let Some(words) = block.get_mut(byte..byte + count * 4) {
                    words.fill(0);
                }
            })?;
        }
        self.drop_extent(ino)?;
        self.writer.segments.space.refund(Charge { nodes: 0, blocks: gone });
        self.count_blocks(ino, -i64::from(gone))
    }
}
