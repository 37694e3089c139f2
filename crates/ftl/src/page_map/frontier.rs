//! Frontiers: open superblocks, and the position of the next page in each.

use nandkit_cleaning::allocation::FreePool;
use nandkit_flash::Flash;
use nandkit_units::{Cause, Context, Nanos, PageAddress};

use super::PageMapFtl;
use super::journal::layout::{Change, Line};
use crate::failure::{Failure, LayerResult};

/// An open superblock, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    pub superblock: u32,
    /// The next page; the superblock's end if none is open.
    pub next: u32,
    /// The time at which all its blocks are erased. No page is programmed earlier, so that a
    /// superblock never holds pages of two lives.
    pub ready: Nanos,
}

impl Frontier {
    /// No open superblock.
    pub const CLOSED: Self = Self { superblock: u32::MAX, next: u32::MAX, ready: Nanos::ZERO };
}

/// Whether a journal line assigns a block to a superblock.
const fn is_member(line: &Line) -> bool {
    matches!(line.change, Change::Member { .. })
}

impl<F: Flash> PageMapFtl<F> {
    /// Makes a new device, and discards the chip's content. The journal goes first, so that an
    /// interrupted format leaves no device.
    pub(super) fn make(&mut self, context: &Context) -> LayerResult<()> {
        let context = Context { device_cause: Some(Cause::Format), ..*context };
        self.erase_journal(&context)?;
        self.erase_all(&context)?;
        self.released.fill(self.last_change);
        self.move_journal(&context)?;
        self.counters = Default::default();
        Ok(())
    }

    /// Erases every superblock.
    fn erase_all(&mut self, context: &Context) -> LayerResult<()> {
        let mut free = FreePool::new(self.options.allocation, self.superblocks.count() as usize);
        while let Some(superblock) = self.free.pop() {
            if self.erase(context, superblock)?.is_some() {
                free.push(superblock, self.erases.get(superblock as usize).copied().unwrap_or(0));
            }
        }
        self.free = free;
        Ok(())
    }

    /// Erases a superblock; failed blocks are replaced. Returns the completion time; `None` if the
    /// superblock was dissolved because there were no replacements.
    fn erase(&mut self, context: &Context, superblock: u32) -> LayerResult<Option<Nanos>> {
        let mut context = *context;
        let mut lane = 0;
        let mut end = context.issued;
        while let Some(&block) = self.superblocks.members(superblock).get(lane) {
            match self.flash.erase(&context, block) {
                Ok(done) => {
                    end = end.max(done.completed);
                    self.last_change = self.last_change.max(done.completed);
                    self.counters.erases += 1;
                    lane += 1;
                }
                Err(error) => {
                    self.note_failure(error)?;
                    self.mark_bad(&context, block)?;
                    if !self.replace(superblock, block) {
                        return Ok(None);
                    }
                    // The operations that emptied the replacement block may still be in progress.
                    context.issued = context.issued.max(self.last_change);
                }
            }
        }
        let at = superblock as usize;
        if let (Some(used), Some(erases)) = (self.used.get_mut(at), self.erases.get_mut(at)) {
            (*used, *erases) = (false, erases.saturating_add(1));
        }
        self.note_erased(superblock);
        Ok(Some(end))
    }

    /// Opens the next free superblock. It is erased now rather than when it was freed: an erase
    /// that fails or is interrupted then destroys nothing needed, and its dies were free for other
    /// work until now. It is not erased before its release.
    #[inline(never)]
    pub(super) fn open(&mut self, context: &Context, region: u8) -> LayerResult<Frontier> {
        self.own_journal(context)?;
        let mut waited = false;
        loop {
            self.let_go();
            let superblock = self.next_free(region).ok_or(Failure::Full)?;
            let at = superblock as usize;
            let mut ready = context.issued;
            if self.used.get(at).copied().unwrap_or(true) {
                let released = self.released.get(at).copied().unwrap_or(self.last_change);
                let issued = context.issued.max(released);
                waited |= released > context.issued;
                let context = Context { issued, device_cause: Some(Cause::Cleaning), ..*context };
                match self.erase(&context, superblock)? {
                    Some(erased) => ready = erased,
                    None => continue,
                }
            }
            if let Some(used) = self.used.get_mut(at) {
                *used = true;
            }
            // If a block was replaced, the next start must know before the superblock holds
            // anything.
            if self.journal.as_ref().is_some_and(|journal| journal.waiting().iter().any(is_member)) {
                self.write_lines(context)?;
                ready = ready.max(self.last_change);
            }
            self.streams.note_opened(superblock, region, context.issued);
            self.ages.note_opened(superblock, context.issued);
            self.note_first_written(superblock, context.issued);
            self.note_turn(superblock, region);
            self.stalls.note_opened(region, waited || context.device_cause.is_some());
            return Ok(Frontier { superblock, next: 0, ready });
        }
    }

    /// Continues the journal in the other half before the first change after a start.
    fn own_journal(&mut self, context: &Context) -> LayerResult<()> {
        if self.journal.as_ref().is_some_and(|journal| journal.is_stale) { self.write_lines(context) } else { Ok(()) }
    }

    /// The slot and address of the next page of a frontier, which must have room.
    #[inline(always)]
    pub(super) fn place(&self, frontier: &Frontier) -> (u32, PageAddress) {
        (
            self.superblocks.slot(frontier.superblock, frontier.next),
            self.superblocks.at(frontier.superblock, frontier.next),
        )
    }

    /// Records that pages were programmed at a frontier; a full superblock becomes available for
    /// cleaning.
    #[inline(always)]
    pub(super) fn advance(&mut self, mut frontier: Frontier, pages: u32) -> Frontier {
        frontier.next += pages;
        if frontier.next >= self.superblocks.pages() {
            self.close_superblock(frontier.superblock);
            frontier = Frontier::CLOSED;
        }
        frontier
    }

    /// Closes a superblock to further pages and makes it available for cleaning.
    pub(super) fn close_superblock(&mut self, superblock: u32) {
        self.index.enter(superblock);
        self.ages.note_written(superblock, self.last_change);
    }

    /// The frontier of a region.
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
