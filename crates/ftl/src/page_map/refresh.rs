//! Refresh: moving data before reads of their block, or time, damage them beyond what the chip
//! corrects. See `docs/design/08-mapping-cache.md`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Context, Nanos, PageAddress};

use super::PageMapFtl;
use super::frontier::Frontier;
use crate::failure::{Failure, LayerResult};

/// Read counts of blocks, and ages of superblocks.
#[derive(Debug)]
pub(crate) struct Refresh {
    /// Reads of a block after which its superblock is moved; 0: never.
    most_reads: u32,
    /// The age at which a superblock is moved; 0: never.
    most_age: Nanos,
    /// Reads of each block since its erase. Empty if not needed. Device reads update it, and change
    /// nothing else.
    reads: Vec<AtomicU32>,
    /// Superblocks with a block that was read too often.
    read_out: Mutex<Vec<u32>>,
    /// When each superblock was last opened.
    opened: Vec<Nanos>,
    /// The superblocks in the order in which they were opened; an entry with an outdated time is
    /// stale.
    by_age: VecDeque<(Nanos, u32)>,
}

/// Counters of refreshed superblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefreshCounters {
    pub by_reads: u64,
    pub by_age: u64,
}

/// What happened to the next due superblock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refreshed {
    Moved,
    /// The superblock holds nothing any more.
    Empty,
    /// None is due, or there is no room.
    Stopped,
}

impl Refresh {
    /// `None` if refresh is off.
    pub fn new(most_reads: u32, most_age: Nanos, blocks: u32, superblocks: u32) -> Option<Self> {
        if most_reads == 0 && most_age == Nanos::ZERO {
            return None;
        }
        let counted = if most_reads == 0 { 0 } else { blocks as usize };
        Some(Self {
            most_reads,
            most_age,
            reads: std::iter::repeat_with(|| AtomicU32::new(0)).take(counted).collect(),
            read_out: Mutex::default(),
            opened: vec![Nanos::ZERO; superblocks as usize],
            by_age: VecDeque::new(),
        })
    }

    /// Counts a read of a block. The read that reaches the limit queues the superblock.
    fn note_read(&self, block: BlockIndex, superblock: u32) {
        let Some(reads) = self.reads.get(block.index()) else { return };
        let before = reads.fetch_add(1, Ordering::Relaxed);
        if before == self.most_reads {
            self.read_out.lock().unwrap_or_else(PoisonError::into_inner).push(superblock);
        }
    }

    fn note_erased(&mut self, block: BlockIndex) {
        if let Some(reads) = self.reads.get_mut(block.index()) {
            *reads.get_mut() = 0;
        }
    }

    /// Records when a superblock was opened.
    fn note_opened(&mut self, superblock: u32, now: Nanos) {
        let Some(opened) = self.opened.get_mut(superblock as usize).filter(|_| self.most_age > Nanos::ZERO) else {
            return;
        };
        *opened = now;
        self.by_age.push_back((now, superblock));
        if self.by_age.len() > 2 * self.opened.len() + 16 {
            let Self { opened, by_age, .. } = self;
            by_age.retain(|(at, superblock)| opened.get(*superblock as usize) == Some(at));
        }
    }

    /// Takes the next due superblock, and whether reads made it due; each is returned once.
    fn take_due(&mut self, now: Nanos) -> Option<(u32, bool)> {
        if let Some(superblock) = self.read_out.get_mut().unwrap_or_else(PoisonError::into_inner).pop() {
            return Some((superblock, true));
        }
        while let Some(&(opened, superblock)) = self.by_age.front() {
            let is_true = self.opened.get(superblock as usize) == Some(&opened);
            if is_true && now.since(opened) <= self.most_age {
                return None;
            }
            self.by_age.pop_front();
            if is_true {
                return Some((superblock, false));
            }
        }
        None
    }

    /// When the oldest superblock becomes due by age.
    pub fn next_by_age(&mut self) -> Option<Nanos> {
        while let Some(&(opened, superblock)) = self.by_age.front() {
            if self.opened.get(superblock as usize) == Some(&opened) {
                return Some(opened + self.most_age + Nanos(1));
            }
            self.by_age.pop_front();
        }
        None
    }

    /// Makes a superblock that could not be refreshed due again.
    fn put_back(&mut self, superblock: u32, by_reads: bool) {
        if by_reads {
            self.read_out.get_mut().unwrap_or_else(PoisonError::into_inner).push(superblock);
        } else if let Some(opened) = self.opened.get(superblock as usize) {
            self.by_age.push_front((*opened, superblock));
        }
    }
}

impl<F> PageMapFtl<F> {
    /// The numbers of superblocks refreshed because of reads, and because of age.
    pub const fn refreshed_superblocks(&self) -> (u64, u64) {
        (self.refreshed.by_reads, self.refreshed.by_age)
    }

    /// Counts a read of a slot's page.
    #[inline]
    pub(super) fn note_read(&self, at: PageAddress, slot: u32) {
        if let Some(refresh) = &self.refresh {
            refresh.note_read(at.block, self.superblocks.superblock(slot));
        }
    }

    /// Records that the blocks of a superblock were erased.
    pub(super) fn note_erased(&mut self, superblock: u32) {
        let Some(refresh) = &mut self.refresh else { return };
        self.superblocks.members(superblock).iter().for_each(|block| refresh.note_erased(*block));
    }

    /// Records that a superblock was opened, which starts its age.
    pub(super) fn note_first_written(&mut self, superblock: u32, now: Nanos) {
        if let Some(refresh) = &mut self.refresh {
            refresh.note_opened(superblock, now);
        }
    }

    /// After a start the age of data is unknown, so ages and read counts start now.
    pub(super) fn adopt_ages(&mut self, now: Nanos) {
        let Some(refresh) = &mut self.refresh else { return };
        let closed = (0..self.superblocks.count()).filter(|superblock| self.index.is_candidate(*superblock));
        closed.for_each(|superblock| refresh.note_opened(superblock, now));
    }
}

impl<F: Flash> PageMapFtl<F> {
    /// Moves one due superblock, or all of them if the host waits for everything.
    pub(super) fn refresh_due(&mut self, context: &Context, all: bool) -> LayerResult<()> {
        for _ in 0..if all { self.superblocks.count() } else { 1 } {
            if self.refresh_next(context)? == Refreshed::Stopped {
                break;
            }
            self.checkpoint_if_due(context)?;
        }
        Ok(())
    }

    /// Moves the next due superblock; returns whether there was one.
    pub(super) fn refresh_one(&mut self, context: &Context) -> LayerResult<bool> {
        loop {
            match self.refresh_next(context)? {
                Refreshed::Moved => return Ok(true),
                Refreshed::Empty => {}
                Refreshed::Stopped => return Ok(false),
            }
        }
    }

    fn refresh_next(&mut self, context: &Context) -> LayerResult<Refreshed> {
        let Some((superblock, by_reads)) = self.refresh.as_mut().and_then(|refresh| refresh.take_due(context.issued))
        else {
            return Ok(Refreshed::Stopped);
        };
        match self.refresh_superblock(context, superblock) {
            Ok(false) => return Ok(Refreshed::Empty),
            Ok(true) if by_reads => self.refreshed.by_reads += 1,
            Ok(true) => self.refreshed.by_age += 1,
            // The superblock must wait until the host frees something.
            Err(Failure::Full) => {
                if let Some(refresh) = &mut self.refresh {
                    refresh.put_back(superblock, by_reads);
                }
                return Ok(Refreshed::Stopped);
            }
            Err(failure) => return Err(failure),
        }
        Ok(Refreshed::Moved)
    }

    /// Moves the content of a superblock, closing it if it is open. Returns whether there was
    /// anything to move.
    fn refresh_superblock(&mut self, context: &Context, superblock: u32) -> LayerResult<bool> {
        self.make_room(context)?;
        let open = self.streams.frontiers.iter_mut().find(|frontier| frontier.superblock == superblock);
        if let Some(frontier) = open {
            *frontier = Frontier::CLOSED;
            self.close_superblock(superblock);
        }
        // It may have been cleaned and freed meanwhile.
        if !self.index.is_candidate(superblock) {
            return Ok(false);
        }
        self.clean_superblock_for(context, superblock, Cause::WearLevelling)?;
        Ok(true)
    }
}
