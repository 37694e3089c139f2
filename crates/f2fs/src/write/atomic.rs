//! Atomic writes as in Linux since 6.0 (f2fs-writing.md, "Atomic writes"): a second inode, nameless
//! and an orphan, receives the blocks, and a commit moves their addresses into the file's map.
//!
//! The file's nodes then go to the device with a single mark, in the last of them, which is written
//! durably after everything else: roll-forward recovers all of them or none.

use nandkit_block::BlockDevice;
use nandkit_units::{Cause, Payload};
use nandkit_vfs::{ErrorKind, FsError, Result};
use zerocopy::IntoBytes;

use super::WritableVolume;
use super::adopt::Run;
use super::back::Why;
use super::runs::Runs;
use super::tree::Slot;
use crate::blocks::{Blocks, Nodes};
use crate::counters::Reason;
use crate::device::Submission;
use crate::encode::put;
use crate::ids::{BlockAddress, DataAddress, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{Extent, WORDS_OFFSET, inline};
use crate::layout::node::mark;
use crate::layout::{ExtraAttributes, InodeHead, set_word, word};
use crate::names::store::set_modified;
use crate::runs::run_at;
use crate::segments::{Charge, Space, SpaceOn, Summary};

#[cold]
fn wrong(detail: String) -> FsError {
    FsError::new(ErrorKind::InvalidArgument, detail)
}

impl<D: BlockDevice> WritableVolume<D> {
    /// The file that a draft belongs to; `None` if the inode is no draft.
    pub(crate) fn drafted(&self, draft: NodeId) -> Option<NodeId> {
        self.writer.drafts.get(&draft).copied()
    }

    /// Refuses to change a draft, or a file that has one. Errors: `NotSupported`,
    /// `InvalidArgument`.
    pub(crate) fn expect_no_draft(&self, ino: NodeId) -> Result<()> {
        if self.writer.drafts.contains_key(&ino) {
            let detail = format!("inode {} is a draft: it can only be written, committed or dropped", ino.0);
            return Err(FsError::new(ErrorKind::NotSupported, detail));
        }
        self.expect_no_draft_of(ino)
    }

    /// Refuses to change the content of a file that has a draft. Errors: `InvalidArgument`.
    pub(crate) fn expect_no_draft_of(&self, ino: NodeId) -> Result<()> {
        match self.writer.drafts.values().any(|file| *file == ino) {
            true => Err(wrong(format!("inode {} has a draft, which must be committed or dropped first", ino.0))),
            false => Ok(()),
        }
    }

    /// Implements [`nandkit_vfs::AtomicWrites::begin_atomic`].
    pub(crate) fn begin_draft(&mut self, ino: NodeId) -> Result<NodeId> {
        self.balance()?;
        if self.writer.drafts.contains_key(&ino) {
            return Err(wrong(format!("inode {} is a draft itself", ino.0)));
        }
        self.expect_no_draft_of(ino)?;
        let file = self.inode_at(ino)?;
        self.expect_writable(&file)?;
        self.drop_unwritten(&file)?;
        self.convert_inline(ino)?;
        // The draft reads pages from the file, including bytes past its end.
        self.clear_behind(ino, self.inode_at(ino)?.head.size.get())?;
        self.write_back(&[ino], Why::BACKGROUND)?;
        self.settle_times(ino)?;
        let file = self.inode_at(ino)?;
        let head = InodeHead {
            inline: file.head.inline & (inline::XATTR | inline::EXTRA),
            links: 0.into(),
            blocks: 1.into(),
            xattr_nid: 0.into(),
            extent: Extent::default(),
            advise: 0,
            name_length: 0.into(),
            ..file.head
        };
        let (size, extra) = (self.geometry().block_size(), file.extra);
        let draft = self.make_inode_block(&mut |_| {
            let mut block = vec![0; size];
            put(&mut block, 0, head.as_bytes());
            if let Some(extra) = &extra {
                let length = usize::from(extra.bytes.get()).min(size_of::<ExtraAttributes>());
                put(&mut block, WORDS_OFFSET, extra.as_bytes().get(..length).unwrap_or_default());
            }
            Ok(block)
        })?;
        if let Err(error) = self.add_orphan(draft) {
            self.give_up_inode(draft)?;
            return Err(error);
        }
        self.writer.drafts.insert(draft, ino);
        Ok(draft)
    }

    /// The file of a draft. Errors: `InvalidArgument` (the inode is no draft).
    fn expect_draft(&self, draft: NodeId) -> Result<NodeId> {
        self.drafted(draft).ok_or_else(|| wrong(format!("inode {} is not a draft", draft.0)))
    }

    /// Implements [`nandkit_vfs::AtomicWrites::abort_atomic`].
    pub(crate) fn abort_draft(&mut self, draft: NodeId) -> Result<()> {
        self.expect_draft(draft)?;
        self.balance()?;
        self.give_up_inode(draft)
    }

    /// Implements [`nandkit_vfs::AtomicWrites::commit_atomic`].
    pub(crate) fn commit_draft(&mut self, draft: NodeId) -> Result<()> {
        let file = self.expect_draft(draft)?;
        self.expect_running()?;
        self.balance()?;
        self.write_back(&[draft], Why::BACKGROUND)?;
        self.balance()?;
        let runs = self.runs_of_draft(draft)?;
        let inode = self.inode_at(file)?;
        let mut needed = 0;
        for run in &runs {
            needed += self.blocks_needed(&inode, run.page, run.page + run.pages)?;
        }
        let free = self.writer.segments.space.free_blocks();
        if needed > free {
            return Err(FsError::new(ErrorKind::NoSpace, format!("{needed} blocks are needed and {free} are free")));
        }
        let reserved = self.reserve_for(file, &runs)?;
        if self.writer.segments.free_map().sections() < 2 {
            // Without the room, the file's nodes could not be written once the draft is gone.
            self.unreserve(file, &reserved)?;
            return Err(FsError::new(ErrorKind::NoSpace, "too few sections are free for the nodes of the file"));
        }
        // From here on a failure stops the volume, and the device keeps the old file.
        let done = self.take_draft(draft, file, &runs).and_then(|()| self.make_durable(file));
        // This includes a lack of room for its nodes: the draft is gone, and the device keeps the
        // old file.
        done.inspect_err(|error| self.stop(error))
    }

    /// The runs of pages that the draft itself holds.
    fn runs_of_draft(&self, draft: NodeId) -> Result<Vec<Run>> {
        let inode = self.inode_at(draft)?;
        let pages = inode.head.size.get().div_ceil(self.geometry().block_size() as u64);
        let (mut page, mut runs) = (0, Vec::new());
        while page < pages {
            let run = run_at(self, &inode, page, pages - page)?;
            let count = run.pages.clamp(1, pages - page);
            if run.at.is_some() {
                runs.push(Run { page, pages: count, from: run.at });
            }
            page += count;
        }
        Ok(runs)
    }

    /// Moves each block's address into the file's map and updates its summary; the file's old
    /// blocks become free with the next checkpoint.
    fn take_draft(&mut self, draft: NodeId, file: NodeId, runs: &[Run]) -> Result<()> {
        let (source, target) = (self.inode_at(draft)?, self.inode_at(file)?);
        let (mut from_leaf, mut to_leaf) = (None, None);
        for run in runs {
            for number in 0..run.pages {
                let Some(at) = run.from.map(|from| BlockAddress(from.0.saturating_add(number as u32))) else {
                    continue;
                };
                let (from, _) = self.leaf_of(&source, run.page + number, &mut from_leaf)?;
                let to = self.leaf_of(&target, run.page + number, &mut to_leaf)?;
                self.move_block(file, at, from, to)?;
            }
            let narrow = |page: u64| u32::try_from(page).unwrap_or(u32::MAX);
            self.writer.pages().punch(file, narrow(run.page)..narrow(run.page + run.pages));
        }
        let moved: u64 = runs.iter().map(|run| run.pages).sum();
        self.writer.segments.space.refund(Charge { nodes: 0, blocks: moved as u32 });
        self.count_blocks(draft, -(moved as i64))?;
        // Times of a write before the draft would overwrite the new ones.
        let _ = self.writer.lazy_times.take(file);
        let (now, size) = (crate::names::store::InodeStore::now(self), source.head.size.get());
        self.edit_head(file, |head| {
            head.size = head.size.get().max(size).into();
            set_modified(head, now);
        })?;
        self.give_up_inode(draft)
    }

    fn move_block(&mut self, file: NodeId, at: BlockAddress, from: Slot, (to, version): (Slot, u8)) -> Result<()> {
        let now = self.elapsed_seconds();
        self.edit_node(from.nid, |block| set_word(block, from.byte, DataAddress::Hole.field()))?;
        self.writer.segments.free(at, now);
        let owner = Summary { nid: to.nid, version, offset: to.index };
        SpaceOn { segments: &mut self.writer.segments, device: &self.device }.adopt(at, owner, now)?;
        let old = DataAddress::of(word(&self.node(to.nid)?, to.byte).unwrap_or(0));
        self.set_address(file, &to, DataAddress::At(at))?;
        if let DataAddress::At(old) = old {
            self.writer.segments.free(old, now);
        }
        Ok(())
    }

    /// Makes the file durable so that roll-forward recovers all of it or nothing.
    fn make_durable(&mut self, file: NodeId) -> Result<()> {
        let inode = self.inode_at(file)?;
        if self.needs_checkpoint(&inode) {
            return self.checkpoint(Reason::Sync);
        }
        self.device.drain();
        let mut others = self.direct_nodes_waiting(file);
        others.retain(|&nid| nid != file);
        self.write_nodes(&others, Cause::Metadata, &|_| 0)?;
        self.edit_node(file, |_| ())?;
        let dentry = if self.nat.needs_dentry_mark(file) { mark::DENTRY } else { 0 };
        let mut runs = Runs::new();
        self.place_node(file, mark::FSYNC | dentry, &mut runs)?;
        for batch in runs.finish() {
            for ((_, page), at) in batch.items.iter().zip(batch.start.0..) {
                let Payload::Bytes(bytes) = page.payload() else { continue };
                self.writer.written_blocks += 1;
                let written = self.device.commit(Submission::of(Cause::Metadata, batch.log), BlockAddress(at), bytes);
                self.or_stop(written)?;
            }
        }
        Ok(())
    }

    /// Reads a draft: its own pages, and the file's pages where it has none.
    pub(crate) fn read_draft(&self, draft: &Inode, file: NodeId, offset: u64, into: &mut [u8]) -> Result<()> {
        let file = self.inode_at(file)?;
        let size = self.geometry().block_size() as u64;
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let length = rest.len().min((size - at % size) as usize);
            let (now, later) = rest.split_at_mut(length);
            let own = self.has_page(draft, at / size)?;
            self.read_plain(if own { draft } else { &file }, at, now)?;
            (at, rest) = (at + length as u64, later);
        }
        Ok(())
    }

    /// Drops the draft of a file that is removed, if it has one.
    pub(crate) fn drop_draft_of(&mut self, file: NodeId) -> Result<()> {
        let draft = self.writer.drafts.iter().find(|(_, of)| **of == file).map(|(draft, _)| *draft);
        draft.map_or(Ok(()), |draft| self.give_up_inode(draft))
    }
}
