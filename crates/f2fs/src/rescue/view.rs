//! A view of one inode of a scanned volume and its own nodes.

use std::ops::{ControlFlow, Range};

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::scan::{NodeRecord, Scan};
use crate::blocks::{Blocks, Nodes};
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::dentry::{Entry, Slot};
use crate::layout::{DentryArea, Footer, Geometry, NatEntry};
use crate::node::cache::NodeCache;
use crate::node::tree::{Addresses, Leaf, leaf_or};
use crate::read;

/// Nodes cached while a file is read: those on the path to a page, and some spare.
const NODES_KEPT: usize = 16;

/// The nodes of one inode, wherever they were found.
#[derive(Debug)]
pub(super) struct View<'a, D> {
    scan: &'a Scan<D>,
    ino: NodeId,
    kept: NodeCache,
}

impl<'a, D: BlockDevice> View<'a, D> {
    pub fn new(scan: &'a Scan<D>, ino: NodeId) -> Self {
        Self { scan, ino, kept: NodeCache::new(NODES_KEPT) }
    }

    /// Decodes the inode. Errors: `NotFound`, `Corrupt`, `Device`.
    pub fn inode(&self) -> Result<Inode> {
        let block = self.node(self.ino)?;
        crate::node::checked::decode_inode(self.geometry(), self.ino, block)
    }

    pub fn record(&self, nid: NodeId) -> Option<&NodeRecord> {
        self.scan.nodes.get(&(nid, self.ino))
    }

    /// Whether another inode used a nid later.
    pub fn was_taken(&self, nid: NodeId) -> bool {
        self.scan.owners.get(&nid).is_some_and(|(_, owner)| *owner != self.ino)
    }

    /// The pages of a file, from its size, limited to what its nodes can address.
    pub fn pages(&self, inode: &Inode) -> u64 {
        let pages = inode.head.size.get().div_ceil(self.geometry().block_size() as u64);
        pages.min(inode.tree_shape(self.geometry()).pages())
    }

    /// The size of a file in bytes, limited to what its nodes can address.
    pub fn size(&self, inode: &Inode) -> u64 {
        let most = inode.tree_shape(self.geometry()).pages().saturating_mul(self.geometry().block_size() as u64);
        inode.head.size.get().min(most)
    }

    /// Passes each leaf of a file with its first page to `sink`: addresses and how many of them
    /// count, or how many pages are lost with an unreadable node. Skips holes.
    pub fn each_leaf(
        &self,
        inode: &Inode,
        mut sink: impl FnMut(u64, std::result::Result<(&Addresses, u64), u64>) -> ControlFlow<()>,
    ) {
        let (pages, mut page) = (self.pages(inode), 0_u64);
        while page < pages {
            let mut lost = 0;
            let mut told = |count: u64, _| {
                lost = count.min(pages - page);
                Ok(())
            };
            let leaf = leaf_or(self, inode, page, &mut told);
            let (step, flow) = match &leaf {
                Ok(Leaf::Addresses(addresses)) => {
                    let count = u64::from(addresses.count).min(pages - page);
                    (count.max(1), sink(page, Ok((addresses, count))))
                }
                Ok(Leaf::Hole { pages }) if lost > 0 => (*pages, sink(page, Err(lost))),
                Ok(Leaf::Hole { pages }) => (*pages, ControlFlow::Continue(())),
                Err(_) => break,
            };
            if flow.is_break() {
                break;
            }
            page = page.saturating_add(step);
        }
    }

    /// Passes the addresses of each leaf with its first page to `sink`. Returns how many pages are
    /// lost with unreadable nodes.
    pub fn each_addresses(&self, inode: &Inode, mut sink: impl FnMut(u64, &Addresses, u64) -> ControlFlow<()>) -> u64 {
        let mut lost = 0_u64;
        self.each_leaf(inode, |page, leaf| match leaf {
            Ok((addresses, count)) => sink(page, addresses, count),
            Err(pages) => {
                lost = lost.saturating_add(pages);
                ControlFlow::Continue(())
            }
        });
        lost
    }

    /// The next range of a file that holds data; lost nodes are holes.
    pub fn data_after(&self, inode: &Inode, offset: u64) -> Result<Option<Range<u64>>> {
        if offset >= self.size(inode) {
            return Ok(None);
        }
        read::data_after_by(self, inode, offset, &|page| leaf_or(self, inode, page, &mut |_, _| Ok(())))
    }

    /// Passes each entry of a directory to `sink`. Returns how many of its pages are lost.
    pub fn each_entry(&self, inode: &Inode, sink: &mut dyn FnMut(&Entry<'_>)) -> u64 {
        let mut each_in = |area: &[u8]| {
            let entries = DentryArea::new(area).slots_from(0).filter_map(|slot| match slot {
                Slot::Entry(entry) => Some(entry),
                Slot::BadName(..) => None,
            });
            entries.for_each(|entry| sink(&entry));
        };
        if let Some(area) = inode.inline_entries() {
            each_in(area);
            return 0;
        }
        let mut unread = 0;
        let lost = self.each_addresses(inode, |_, addresses, count| {
            for number in 0..count {
                let DataAddress::At(at) = addresses.get(number) else { continue };
                match self.block(at) {
                    Ok(block) => each_in(&block),
                    Err(_) => unread += 1,
                }
            }
            ControlFlow::Continue(())
        });
        lost + unread
    }

    fn block(&self, at: BlockAddress) -> Result<Vec<u8>> {
        let mut block = vec![0; self.geometry().block_size()];
        if self.geometry().main(at).is_none() {
            return Err(FsError::new(ErrorKind::Corrupt, format!("{at} is outside the main area")));
        }
        self.read(Cause::Metadata, at, &mut block)?;
        Ok(block)
    }
}

impl<D: BlockDevice> Blocks for View<'_, D> {
    fn geometry(&self) -> &Geometry {
        self.scan.blocks.geometry()
    }

    fn read(&self, cause: Cause, at: BlockAddress, into: &mut [u8]) -> Result<()> {
        self.scan.blocks.read(cause, at, into)
    }

    fn reaches(&self, at: BlockAddress) -> bool {
        self.scan.blocks.reaches(at)
    }
}

impl<D: BlockDevice> Nodes for View<'_, D> {
    fn entry(&self, nid: NodeId) -> Result<NatEntry> {
        Ok(self.record(nid).map_or_else(NatEntry::default, |record| NatEntry::new(0, self.ino, record.at)))
    }

    fn node(&self, nid: NodeId) -> Result<Block> {
        if let Some(block) = self.kept.get(nid) {
            return Ok(block);
        }
        let missing = || FsError::new(ErrorKind::Corrupt, format!("no block of {nid} of inode {} is left", self.ino.0));
        let block = self.block(self.record(nid).ok_or_else(missing)?.at)?;
        let is_it = Footer::of_block(&block).is_some_and(|footer| footer.nid() == nid && footer.ino() == self.ino);
        if !is_it {
            return Err(missing());
        }
        let block = Block::from(block);
        self.kept.keep(nid, block.clone());
        Ok(block)
    }
}
