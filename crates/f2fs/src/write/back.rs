//! Write-back: allocates addresses for dirty pages and writes them (data.c,
//! `f2fs_write_cache_pages`, `f2fs_do_write_data_page`).
//!
//! A page's address changes only after the device accepted its request: a failed one leaves the
//! file as it was and the page dirty.

use nandkit_block::BlockDevice;
use nandkit_units::Cause;
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result};

use super::runs::{Batch, Runs};
use super::tree::Slot;
use super::{WritableVolume, ipu};
use crate::blocks::{Blocks, Nodes};
use crate::ids::{BlockAddress, DataAddress, Log, NodeId};
use crate::inode::Inode;
use crate::layout::inode::{advise, inline};
use crate::layout::word;
use crate::pages::Page;
use crate::segments::Summary;
use crate::segments::classes::DataFacts;

/// The circumstances of a write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    /// The cause reported to the device.
    pub cause: Cause,
    /// Set in an fsync; `Some(true)` if only data is synced.
    pub fsync: Option<bool>,
    /// Whether nothing is overwritten in place, except pages of pinned files.
    pub elsewhere: bool,
    /// Whether room may be made between two inodes when it is short; false inside an operation that
    /// must be atomic and while room is being made.
    pub makes_room: bool,
    /// Whether the write-back may review segments whose gaps come next and make room when free
    /// sections run out. Either may end in a checkpoint, so it is false inside an operation that
    /// must be atomic.
    pub prepares_gaps: bool,
}

impl Why {
    pub const BACKGROUND: Self =
        Self { cause: Cause::UserData, fsync: None, elsewhere: false, makes_room: false, prepares_gaps: false };

    /// These circumstances with the cause that fits directory pages, or other pages.
    fn of(self, directories: bool) -> Self {
        match self.cause {
            Cause::UserData if directories => Self { cause: Cause::Metadata, ..self },
            _ => self,
        }
    }
}

/// A page that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnItsWay {
    ino: NodeId,
    page: u32,
    slot: Slot,
    old: DataAddress,
    /// The new address; `None` if the page is overwritten in place.
    new: Option<BlockAddress>,
}

/// Facts that hold for all pages of one inode's write-back.
struct Source {
    inode: Inode,
    hot: bool,
    dirty: usize,
}

/// Pages cloned at once: a write-back may stop after any of them and resume, so it must not clone
/// all dirty pages each time.
const PAGES_AT_ONCE: usize = 128;

impl<D: BlockDevice> WritableVolume<D> {
    /// Writes back all dirty pages of these inodes. Errors: `NoSpace`, `Corrupt`, `Device`; a
    /// device error does not stop the other writes, but stops the volume if it hits directory
    /// pages. Unwritten pages stay dirty.
    pub(crate) fn write_back(&mut self, inodes: &[NodeId], why: Why) -> Result<()> {
        let mut runs = Runs::new();
        let mut done = Ok(());
        // Whether the open batches hold directory pages.
        let mut of_directories = false;
        for &ino in inodes {
            let step = self.write_back_one(ino, why, &mut runs, &mut of_directories);
            if let Some(moved) = &mut self.writer.moved_files {
                moved.remove(&ino);
            }
            done = done.and(step);
            if done.as_ref().is_err_and(|error| !self.goes_on_behind(error)) {
                break;
            }
        }
        done = self.settle_all(why, &mut runs, of_directories, done);
        self.writer.published.show(self.device.now(), &self.writer.counters, &self.writer.segments);
        done
    }

    fn write_back_one(
        &mut self,
        ino: NodeId,
        why: Why,
        runs: &mut Runs<OnItsWay>,
        of_directories: &mut bool,
    ) -> Result<()> {
        let is_directory = self.inode_at(ino)?.kind == FileKind::Directory;
        let mut done = Ok(());
        if is_directory != *of_directories {
            done = self.settle_all(why, runs, *of_directories, done);
            *of_directories = is_directory;
        }
        let mut next = Some(0);
        while let Some(from) = next
            && done.is_ok()
        {
            let queued = self.inode_at(ino).and_then(|inode| self.queue_pages(inode, from, why.of(is_directory), runs));
            next = *queued.as_ref().unwrap_or(&None);
            let queued = queued.map(drop);
            done = done.and(if is_directory { self.or_stop(queued) } else { queued });
            if next.is_some() {
                done = self.settle_all(why, runs, is_directory, done);
                done = done.and_then(|()| self.prepare_gaps());
            }
            // Treated runs and the logs may have used up free sections.
            if next.is_some() && done.is_ok() && self.is_short() {
                done = self.collect_in_foreground();
            }
        }
        if done.is_ok() && why.makes_room && self.may_be_short() {
            done = self.settle_all(why, runs, is_directory, done);
            if done.is_ok() && self.is_short() {
                done = self.collect_in_foreground();
            }
        }
        done
    }

    /// Whether to write the rest after an error: a device may refuse one block and accept the
    /// others.
    pub(super) fn goes_on_behind(&self, error: &FsError) -> bool {
        error.kind == ErrorKind::Device && self.writer.stopped.is_none()
    }

    /// Hands the open batches to the device; drops them after an error that ends the write-back.
    fn settle_all(
        &mut self,
        why: Why,
        runs: &mut Runs<OnItsWay>,
        of_directories: bool,
        mut done: Result<()>,
    ) -> Result<()> {
        for batch in runs.finish() {
            if done.as_ref().is_err_and(|error| !self.goes_on_behind(error)) {
                self.give_up(batch);
                continue;
            }
            let settled = self.settle(why.of(of_directories).cause, batch);
            done = done.and(if of_directories { self.or_stop(settled) } else { settled });
        }
        done
    }

    /// Writes back everything that the device accepts. Returns the error of what it refused, for
    /// whoever reports it. Errors: those that end the write-back.
    pub(super) fn write_back_what_goes(&mut self) -> Result<Option<FsError>> {
        match self.write_back_all() {
            Err(error) if self.goes_on_behind(&error) => Ok(Some(error)),
            done => done.map(|()| None),
        }
    }

    /// Writes back all dirty pages, inodes in the order in which they became dirty. Quota files
    /// wait for the checkpoint, which changes them again. Errors: as
    /// [`WritableVolume::write_back`].
    pub(crate) fn write_back_all(&mut self) -> Result<()> {
        let mut inodes: Vec<NodeId> = self.writer.pages().dirty_inodes().collect();
        inodes.retain(|&ino| !self.writer.quotas.is_file(ino));
        self.write_back(&inodes, Why { makes_room: true, prepares_gaps: true, ..Why::BACKGROUND })
    }

    /// Writes back all directory pages. Errors stop the volume.
    pub(crate) fn write_back_directories(&mut self, cause: Cause) -> Result<()> {
        let inodes: Vec<NodeId> = self.writer.pages().dirty_inodes().collect();
        let mut directories = Vec::new();
        for ino in inodes {
            if self.inode_at(ino)?.kind == FileKind::Directory {
                directories.push(ino);
            }
        }
        let written = self.write_back(&directories, Why { cause, ..Why::BACKGROUND });
        self.or_stop(written)
    }

    /// Writes one dirty page of a file to a new address; in place only for a pinned file. Errors:
    /// `NoSpace`, `Device` (the page stays dirty and is noted in [`WritableVolume::uncleared`]);
    /// errors that stop the volume.
    pub(super) fn write_back_page(&mut self, ino: NodeId, page: u32) -> Result<()> {
        let written = self.try_write_back_page(ino, page);
        match &written {
            Ok(()) => self.writer.uncleared.remove(&ino),
            Err(_) => self.writer.uncleared.insert(ino),
        };
        written
    }

    fn try_write_back_page(&mut self, ino: NodeId, number: u32) -> Result<()> {
        let inode = self.inode_at(ino)?;
        let dirty =
            self.writer.pages().peek(ino, number).filter(|(_, is_dirty)| *is_dirty).map(|(page, _)| page.clone());
        let (Some(page), Some(slot)) = (dirty, self.slot(&inode, number.into())?) else { return Ok(()) };
        let (why, version) = (Why { elsewhere: true, ..Why::BACKGROUND }, self.entry(slot.nid)?.version);
        let source = Source { inode, hot: self.writer.pages().is_hot(ino), dirty: 1 };
        self.writer.since_checkpoint.copied(ino);
        let mut runs = Runs::new();
        let full = self.queue_page(&source, why, (number, page), slot, version, &mut runs)?;
        full.into_iter().chain(runs.finish()).try_for_each(|batch| self.settle(why.cause, batch))
    }

    /// Allocates addresses for the dirty pages of an inode, starting at page `from`. Returns the
    /// page to continue with if segments must be reviewed or room made first.
    fn queue_pages(&mut self, inode: Inode, from: u32, why: Why, runs: &mut Runs<OnItsWay>) -> Result<Option<u32>> {
        let ino = inode.nid;
        let (hot, dirty) = (self.writer.pages().is_hot(ino), self.writer.pages().dirty_of(ino));
        let source = Source { inode, hot, dirty };
        let mut leaf: Option<(u64, Slot, u8)> = None;
        let mut next = Some(from);
        while let Some(from) = next {
            let pages = self.writer.pages();
            let some: Vec<(u32, Page)> =
                pages.dirty_pages(ino, from).take(PAGES_AT_ONCE).map(|(number, page)| (number, page.clone())).collect();
            next = some.last().and_then(|(number, _)| number.checked_add(1));
            for (number, page) in some {
                let at = u64::from(number);
                let known = leaf.filter(|(first, slot, _)| at >= *first && at - first < u64::from(slot.count));
                let (first, slot, version) = match known {
                    Some(known) => known,
                    None => {
                        let Some(slot) = self.slot(&source.inode, at)? else { continue };
                        (at, slot, self.entry(slot.nid)?.version)
                    }
                };
                leaf = Some((first, slot, version));
                let slot = slot.ahead((at - first) as u16);
                if let Some(batch) = self.queue_page(&source, why, (number, page), slot, version, runs)? {
                    self.settle(why.cause, batch)?;
                }
                if why.prepares_gaps && (self.gaps_are_due() || self.room_is_due()) {
                    return Ok(number.checked_add(1));
                }
            }
        }
        Ok(None)
    }

    fn queue_page(
        &mut self,
        source: &Source,
        why: Why,
        (number, page): (u32, Page),
        slot: Slot,
        version: u8,
        runs: &mut Runs<OnItsWay>,
    ) -> Result<Option<Batch<OnItsWay>>> {
        let ino = source.inode.nid;
        let old = DataAddress::of(word(&self.node(slot.nid)?, slot.byte).unwrap_or(0));
        if let DataAddress::At(at) = old
            && let Some(log) = self.in_place(source, why, at)
        {
            return Ok(runs.push(log, at, OnItsWay { ino, page: number, slot, old, new: None }, page));
        }
        let head = &source.inode.head;
        let log = self.writer.options.logs.of_data(DataFacts {
            directory: source.inode.kind == FileKind::Directory,
            cold: head.has_advise(advise::COLD) || source.inode.is_compressed(),
            hot: head.has_advise(advise::HOT) || source.hot || self.writer.drafts.contains_key(&ino),
            ..DataFacts::default()
        });
        let owner = Summary { nid: slot.nid, version, offset: slot.index };
        let now = self.elapsed_seconds();
        let placed = self.writer.segments.allocate(&self.device, log, owner, now)?;
        let item = OnItsWay { ino, page: number, slot, old, new: Some(placed.at) };
        Ok(runs.push(log, placed.at, item, page))
    }

    /// The log of the block's segment if the page is overwritten in place, else `None` (data.c,
    /// `f2fs_should_update_outplace`, `f2fs_should_update_inplace`).
    fn in_place(&self, source: &Source, why: Why, at: BlockAddress) -> Option<Log> {
        let (segment, block) = self.geometry().main(at)?;
        let kind = self.writer.segments.sit().kind(segment);
        let head = &source.inode.head;
        // A checkpoint's quota files must stay intact until the next one is complete.
        let stays = source.inode.kind != FileKind::Regular || self.writer.quotas.is_file(source.inode.nid);
        if self.writer.failed_places.contains(&at) {
            return None;
        }
        if kind.is_node() || !self.writer.segments.sit().is_valid(segment, block) || stays {
            return None;
        }
        if head.has_inline(inline::PINNED) {
            return Some(kind);
        }
        if self.writer.options.lfs || why.elsewhere {
            return None;
        }
        let policy = self.ipu_policy();
        let space = &self.writer.segments.space;
        let used = || space.valid_blocks * 100 / space.user_blocks.max(1) > self.writer.options.min_ipu_util;
        let has = |bit: u32| policy & bit != 0;
        let few = || source.dirty <= self.writer.options.min_fsync_blocks;
        let wanted = self.writer.options.cold_in_place && head.has_advise(advise::COLD)
            || has(ipu::FORCE)
            || has(ipu::SSR) && self.writer.segments.needs_ssr()
            || has(ipu::UTILIZATION) && used()
            || has(ipu::SSR_UTILIZATION) && self.writer.segments.needs_ssr() && used()
            || has(ipu::FSYNC) && why.fsync.is_some_and(|data| data || few())
            || has(ipu::ASYNC) && why.fsync.is_none();
        wanted.then_some(kind)
    }

    /// The in-place policy in force: by default the one that Linux chooses by volume size (super.c,
    /// `f2fs_tuning_parameters`).
    pub fn ipu_policy(&self) -> u32 {
        let small = self.geometry().main_segments <= 8192;
        let default = if small { ipu::FORCE | ipu::HONOR_OUT_OF_PLACE } else { ipu::FSYNC };
        self.writer.options.ipu_policy.unwrap_or(default)
    }

    /// Hands a batch to the device and then sets the pages' addresses. Errors: `Device`; then pages
    /// stay dirty and files unchanged.
    fn settle(&mut self, cause: Cause, batch: Batch<OnItsWay>) -> Result<()> {
        let written = self.write_batch(cause, &batch);
        if let Err(error) = written {
            let overwritten = batch.items.iter().filter_map(|(item, _)| match (item.new, item.old) {
                (None, DataAddress::At(at)) => Some(at),
                _ => None,
            });
            self.writer.failed_places.extend(overwritten);
            self.give_up(batch);
            return Err(error);
        }
        let now = self.elapsed_seconds();
        for (item, _) in &batch.items {
            match (item.new, item.old) {
                (Some(new), old) => {
                    self.set_address(item.ino, &item.slot, DataAddress::At(new))?;
                    if let DataAddress::At(old) = old {
                        self.writer.segments.free(old, now);
                    }
                }
                (None, DataAddress::At(at)) => self.writer.segments.count_in_place(at),
                (None, _) => {}
            }
            self.writer.pages().written(item.ino, item.page);
        }
        Ok(())
    }

    /// Frees the blocks allocated for a batch.
    fn give_up(&mut self, batch: Batch<OnItsWay>) {
        let now = self.elapsed_seconds();
        for (item, _) in batch.items {
            if let Some(new) = item.new {
                self.writer.segments.free(new, now);
            }
        }
    }
}
