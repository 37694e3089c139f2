//! Open superblocks: where the next page goes.

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
    /// The next page; the superblock's end where none is open.
    pub next: u32,
    /// When all its blocks are erased: no page is programmed before, so that a superblock never
    /// holds pages of two lives.
    pub ready: Nanos,
}

impl Frontier {
    /// None is open.
    pub const CLOSED: Self = Self { superblock: u32::MAX, next: u32::MAX, ready: Nanos::ZERO };
}

/// Whether a line names a block of a superblock.
const fn is_member(line: &Line) -> bool {
    matches!(line.change, Change::Member { .. })
}

impl<F: Flash> PageMapFtl<F> {
    /// Makes a new device: what was on the chip is gone. The journal first, so that a format that
    /// is cut leaves no device.
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

    /// Erases a superblock; blocks that fail are replaced. Returns when that has completed; `None`
    /// where it is no more, because there were no blocks to replace them.
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
                    // The block in its place may have been emptied by what is still under way.
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

    /// Opens the next free superblock. It is erased now and not when it became free: an erase that
    /// fails, or is cut, costs nothing that anyone needs, and its dies were free for others until
    /// then. Not before it was released.
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
            // Where a block was replaced, the next start must know before there is anything in it.
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

    /// Before the first change after a start the journal goes on in the other half.
    fn own_journal(&mut self, context: &Context) -> LayerResult<()> {
        if self.journal.as_ref().is_some_and(|journal| journal.is_stale) { self.write_lines(context) } else { Ok(()) }
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
            self.close_superblock(frontier.superblock);
            frontier = Frontier::CLOSED;
        }
        frontier
    }

    /// A superblock takes no more pages: it may be cleaned.
    pub(super) fn close_superblock(&mut self, superblock: u32) {
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
