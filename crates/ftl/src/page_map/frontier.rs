//! Open superblocks: where the next page goes.

use nandkit_cleaning::allocation::FreePool;
use nandkit_flash::Flash;
use nandkit_units::{Cause, Context, Nanos, PageAddress};

use super::PageMapFtl;
use crate::failure::{Failure, Outcome};

/// An open superblock, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    pub superblock: u32,
    /// The next page; the superblock's end where none is open.
    pub next: u32,
}

impl Frontier {
    /// None is open.
    pub const CLOSED: Self = Self { superblock: u32::MAX, next: u32::MAX };
}

impl<F: Flash> PageMapFtl<F> {
    /// Erases every superblock: what was on the chip is gone.
    pub(super) fn erase_all(&mut self, context: &Context) -> Outcome<()> {
        let context = Context { device_cause: Some(Cause::Format), ..*context };
        let mut free = FreePool::new(self.options.allocation, self.superblocks.count() as usize);
        while let Some(superblock) = self.free.pop() {
            if self.erase(&context, superblock)? {
                free.push(superblock, self.erases.get(superblock as usize).copied().unwrap_or(0));
            }
        }
        self.free = free;
        self.counters = Default::default();
        Ok(())
    }

    /// Erases a superblock; blocks that fail are replaced. Whether it is there afterwards: without blocks to replace them it is no more.
    fn erase(&mut self, context: &Context, superblock: u32) -> Outcome<bool> {
        let mut lane = 0;
        while let Some(&block) = self.superblocks.members(superblock).get(lane) {
            match self.flash.erase(context, block) {
                Ok(done) => {
                    self.last_change = self.last_change.max(done.completed);
                    self.counters.erases += 1;
                    lane += 1;
                }
                Err(error) => {
                    self.note_failure(error)?;
                    if !self.repair(context, superblock, block)? {
                        return Ok(false);
                    }
                }
            }
        }
        let at = superblock as usize;
        if let (Some(used), Some(erases)) = (self.used.get_mut(at), self.erases.get_mut(at)) {
            (*used, *erases) = (false, erases.saturating_add(1));
        }
        Ok(true)
    }

    /// Opens the next free superblock. It is erased now and not when it became free: an erase that fails, or is cut, costs nothing that anyone needs, and its dies
    /// were free for others until then. Not before its last valid page was moved away for good.
    #[inline(never)]
    pub(super) fn open(&mut self, context: &Context, region: u8) -> Outcome<Frontier> {
        loop {
            let superblock = self.free.pop().ok_or(Failure::Full)?;
            let at = superblock as usize;
            if self.used.get(at).copied().unwrap_or(true) {
                let issued = context.issued.max(self.emptied.get(at).copied().unwrap_or(Nanos::ZERO));
                let context = Context { issued, device_cause: Some(Cause::Cleaning), ..*context };
                if !self.erase(&context, superblock)? {
                    continue;
                }
            }
            if let Some(used) = self.used.get_mut(at) {
                *used = true;
            }
            self.streams.note_opened(superblock, region, context.issued);
            self.ages.note_opened(superblock, context.issued);
            return Ok(Frontier { superblock, next: 0 });
        }
    }

    /// Where the next page of a frontier lies, with its slot; the frontier has room.
    #[inline(always)]
    pub(super) fn place(&self, frontier: &Frontier) -> (u32, PageAddress) {
        (
            self.superblocks.slot(frontier.superblock, frontier.next),
            self.superblocks.at(frontier.superblock, frontier.next),
        )
    }

    /// Notes that so many pages went to a frontier; a full superblock may be cleaned from now on.
    #[inline(always)]
    pub(super) fn advance(&mut self, mut frontier: Frontier, pages: u32) -> Frontier {
        frontier.next += pages;
        if frontier.next >= self.superblocks.pages() {
            self.close(frontier.superblock);
            frontier = Frontier::CLOSED;
        }
        frontier
    }

    /// A superblock takes no more pages: it may be cleaned.
    pub(super) fn close(&mut self, superblock: u32) {
        self.index.enter(superblock);
        self.ages.note_written(superblock, self.last_change);
    }

    /// The open superblock of a region.
    #[inline(always)]
    pub(super) fn frontier(&self, region: u8) -> Frontier {
        self.streams.frontiers.get(usize::from(region)).copied().unwrap_or(Frontier::CLOSED)
    }

    #[inline(always)]
    pub(super) fn set_frontier(&mut self, region: u8, frontier: Frontier) {
        if let Some(into) = self.streams.frontiers.get_mut(usize::from(region)) {
            *into = frontier;
        }
    }

    /// Whether a frontier has no room.
    #[inline(always)]
    pub(super) const fn is_closed(frontier: &Frontier) -> bool {
        frontier.superblock == u32::MAX
    }
}
