//! Making, changing, writing and freeing nodes.

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::WritableVolume;
use super::runs::{Batch, Runs};
use crate::blocks::{Blocks, Nodes};
use crate::encode::node::{FooterFields, put_footer};
use crate::encode::put;
use crate::ids::{Block, BlockAddress, DataAddress, NodeId};
use crate::layout::checkpoint::flag;
use crate::layout::inode::{WORDS_OFFSET, computed_checksum};
use crate::layout::node::mark;
use crate::layout::{ExtraAttributes, Footer, NodeOffset};
use crate::node::cache::is_indirect;
use crate::pages::Page;
use crate::quota::Share;
use crate::segments::classes::NodeFacts;
use crate::segments::{Charge, Summary};

/// The offset of an inode's checksum (f2fs.md, "Inode").
const CHECKSUM_OFFSET: usize = WORDS_OFFSET + std::mem::offset_of!(ExtraAttributes, checksum);

impl<D: BlockDevice> WritableVolume<D> {
    /// Changes a node, which then waits for the next write of nodes. Accounts changes of an inode's
    /// usage to its owners. Errors: `Corrupt`, `Device`.
    pub(crate) fn edit_node<R>(&mut self, nid: NodeId, change: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        if !self.nodes.is_dirty(nid) {
            let block = self.node(nid)?;
            self.nodes.soil(nid, block);
        }
        let (counts, features) = (self.writer.quotas.counts(nid), self.device.geometry().features);
        let share = |block: &[u8]| {
            let is_inode = || Footer::of_block(block).is_some_and(|footer| footer.ino() == nid);
            if counts && is_inode() { Share::of_block(block, features) } else { None }
        };
        match self.nodes.edit(nid) {
            Some(bytes) => {
                let before = share(bytes);
                let result = change(bytes);
                self.writer.quotas.account(before, share(bytes));
                Ok(result)
            }
            None => Err(FsError::new(ErrorKind::Corrupt, format!("{nid} cannot be changed"))),
        }
    }

    /// Makes an empty node whose block is already accounted. `cold`: the node belongs to no
    /// directory. The caller gets the nid from [`WritableVolume::take_nid`]. Errors: `Corrupt`,
    /// `Device`; then nothing has changed.
    pub(crate) fn put_node(&mut self, nid: NodeId, ino: NodeId, offset: NodeOffset, cold: bool) -> Result<()> {
        let mut block = vec![0; self.geometry().block_size()];
        let marks = if cold { mark::COLD } else { 0 };
        put_footer(&mut block, &FooterFields { nid, ino, offset, marks, checkpoint: 0, next: BlockAddress(0) });
        let old = self.entry(nid)?;
        self.nat.set(nid, &old, ino, DataAddress::Reserved, false);
        self.nodes.soil(nid, block.into());
        Ok(())
    }

    /// Takes a free nid, which must be entered by [`WritableVolume::put_node`] or given back before
    /// the next call. Errors: `NoSpace`, `Device`.
    pub(crate) fn take_nid(&mut self) -> Result<NodeId> {
        self.writer.nids.take(&self.nat, &self.meta, &self.device)
    }

    /// Frees a node's block and count; its nid becomes free with the next checkpoint. The caller
    /// adjusts the inode's block count. Errors: `Corrupt`, `Device`; then nothing has changed.
    pub(crate) fn drop_node(&mut self, nid: NodeId) -> Result<()> {
        let old = self.entry(nid)?;
        let now = self.elapsed_seconds();
        if old.ino() == nid && self.writer.quotas.counts(nid) {
            let share = Share::of_block(&self.node(nid)?, self.geometry().features);
            self.writer.quotas.account(share, None);
        }
        if let DataAddress::At(at) = old.address() {
            self.writer.segments.free(at, now);
        }
        self.nat.set(nid, &old, old.ino(), DataAddress::Hole, false);
        self.nodes.forget(nid);
        self.writer.segments.space.refund(Charge { nodes: 1, blocks: 0 });
        Ok(())
    }

    /// The key for node footers: the version of the last completed checkpoint, with its checksum
    /// once a checkpoint has declared that use.
    pub(crate) fn footer_key(&self) -> u64 {
        let head = &self.state.head;
        let crc = if head.has(flag::CRC_RECOVERY) { u64::from(self.writer.checksum) << 32 } else { 0 };
        head.version.get() | crc
    }

    /// Writes waiting nodes in this order, each with the fsync marks that `marks` returns; skips
    /// nodes that do not wait. Errors: `NoSpace` (unwritten nodes still wait); `Device`, which
    /// stops the volume.
    pub(crate) fn write_nodes(&mut self, nids: &[NodeId], cause: Cause, marks: &dyn Fn(NodeId) -> u32) -> Result<()> {
        let mut runs = Runs::new();
        let mut done = Ok(());
        for &nid in nids {
            match self.place_node(nid, marks(nid), &mut runs) {
                Ok(None) => {}
                Ok(Some(batch)) => done = self.write_node_batch(cause, batch),
                Err(error) => done = Err(error),
            }
            if done.is_err() {
                break;
            }
        }
        for batch in runs.finish() {
            let written = self.write_node_batch(cause, batch);
            done = done.and(written);
        }
        done
    }

    /// Gives a waiting node its address and footer, and adds its block to `runs`.
    pub(super) fn place_node(&mut self, nid: NodeId, marks: u32, runs: &mut Runs<()>) -> Result<Option<Batch<()>>> {
        let Some(block) = self.nodes.waiting_block(nid) else { return Ok(None) };
        let Some(footer) = Footer::of_block(block) else { return Ok(None) };
        let mut bytes = block.to_vec();
        let old = self.nat.entry(&self.meta, &self.device, nid)?;
        let indirect = is_indirect(self.geometry(), footer.offset());
        let cold_bit = footer.has(mark::COLD);
        let log = self.writer.options.logs.of_node(NodeFacts { indirect, cold_bit });
        let now = self.elapsed_seconds();
        let placed = self.writer.segments.allocate(&self.device, log, Summary::of_node(nid), now)?;
        let marks = marks | if cold_bit { mark::COLD } else { 0 };
        let (ino, offset) = (footer.ino(), footer.offset());
        let checkpoint = self.footer_key();
        put_footer(&mut bytes, &FooterFields { nid, ino, offset, marks, checkpoint, next: placed.next });
        self.seal(nid == ino, &mut bytes);
        if let DataAddress::At(at) = old.address() {
            self.writer.segments.free(at, now);
        }
        self.nat.set(nid, &old, ino, DataAddress::At(placed.at), marks & mark::FSYNC != 0);
        let block = Block::from(bytes);
        self.nodes.written(nid, block.clone());
        Ok(runs.push(log, placed.at, (), Page::Bytes(block)))
    }

    /// Sets an inode's checksum, if it has one; it covers the footer.
    fn seal(&self, is_inode: bool, bytes: &mut [u8]) {
        let features = self.geometry().features;
        let has_one = || ExtraAttributes::of_block(bytes).and_then(|extra| extra.checksum(features)).is_some();
        if is_inode && has_one() {
            let checksum = computed_checksum(self.checksum_seed, bytes).unwrap_or(0);
            put(bytes, CHECKSUM_OFFSET, &checksum.to_le_bytes());
        }
    }

    fn write_node_batch(&mut self, cause: Cause, batch: Batch<()>) -> Result<()> {
        let written = self.write_batch(cause, &batch);
        self.or_stop(written)
    }

    /// Writes all waiting nodes.
    pub(crate) fn write_all_nodes(&mut self, cause: Cause) -> Result<()> {
        let order = self.nodes.order(self.device.geometry());
        self.write_nodes(&order, cause, &|_| 0)
    }
}
