//! Cleaning: copying the valid slots of a victim to the frontiers of their regions.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Context, Ticket};

use super::PageMapFtl;
use crate::failure::LayerResult;

impl<F: Flash> PageMapFtl<F> {
    /// Cleans one superblock: one with a failing block, or the next victim. Errors: `Full` if
    /// cleaning no superblock would gain a page.
    pub(super) fn clean(&mut self, context: &Context) -> LayerResult<()> {
        match self.failing.next() {
            Some((superblock, block)) => self.clean_failing(context, superblock, block),
            None => {
                let victim = self.victim(context.issued)?;
                self.clean_superblock(context, victim)
            }
        }
    }

    /// Cleans a closed superblock to gain space.
    pub(super) fn clean_superblock(&mut self, context: &Context, victim: u32) -> LayerResult<()> {
        self.clean_superblock_for(context, victim, Cause::Cleaning)
    }

    /// Cleans a closed superblock for the given cause.
    pub(super) fn clean_superblock_for(&mut self, context: &Context, victim: u32, cause: Cause) -> LayerResult<()> {
        self.index.leave(victim);
        // No host request ends with a copy.
        let context = Context { device_cause: Some(cause), ticket: Ticket::NONE, ..*context };
        if let Err(failure) = self.empty(&context, victim) {
            // Some of its pages are still in place.
            self.index.enter(victim);
            return Err(failure);
        }
        self.release(victim);
        Ok(())
    }

    /// The number of slots programmed so far, for any purpose.
    pub(super) const fn programmed(&self) -> u64 {
        let counters = &self.counters;
        counters.programmed_pages + counters.copied_pages + counters.filled_pages + counters.map_pages
    }

    /// The number of superblocks that are free, or will be after the next program.
    pub(super) fn free_count(&self) -> usize {
        self.free.len() + usize::from(self.held_back.is_some())
    }

    /// Frees the held-back victim once something was programmed after its copies.
    pub(super) fn let_go(&mut self) {
        if let Some((victim, before)) = self.held_back
            && self.programmed() > before
        {
            self.held_back = None;
            self.free_from_now(victim);
        }
    }

    /// Cleans a superblock with a failed block, and replaces that block.
    fn clean_failing(&mut self, context: &Context, victim: u32, block: BlockIndex) -> LayerResult<()> {
        self.index.leave(victim);
        let context = Context { device_cause: Some(Cause::Cleaning), ticket: Ticket::NONE, ..*context };
        if let Err(failure) = self.empty(&context, victim) {
            self.abandon(victim, block.page(0));
            return Err(failure);
        }
        let is_whole = self.replace(victim, block);
        // Once these lines are written, no start takes the copies back. Otherwise one might, when
        // it no longer reads the block and older versions look like the originals.
        self.write_waiting(&context)?;
        self.mark_bad(&context, block)?;
        if is_whole {
            self.release(victim);
        }
        Ok(())
    }

    /// Moves all valid slots out of a superblock that is no candidate, and writes the related
    /// journal lines to flash.
    fn empty(&mut self, context: &Context, victim: u32) -> LayerResult<()> {
        self.streams.note_victim(victim, context.issued);
        let mut run = std::mem::take(&mut self.run);
        let moved = self.gather(context, victim, &mut run).and_then(|read| {
            self.sort_by_region(context, victim, &mut run);
            let maps = self.maps_of(&run);
            let spread = self.spread(context, read, &mut run);
            self.note_cleaned(&Context { issued: read, ..*context }, &maps).and(spread)
        });
        self.run = run;
        moved?;
        self.counters.cleanings += 1;
        self.write_waiting(context)
    }

    /// Frees a superblock without valid slots, or holds it back.
    fn release(&mut self, victim: u32) {
        self.let_go();
        let has_copies = !self.run.slots.is_empty();
        if self.journal.is_some() && has_copies {
            self.held_back = Some((victim, self.programmed()));
        } else {
            self.free_from_now(victim);
        }
    }

    /// Allows a superblock to be reopened, and erased once all operations issued so far have
    /// completed: those that emptied it, and the journal lines about them.
    fn free_from_now(&mut self, superblock: u32) {
        if let Some(released) = self.released.get_mut(superblock as usize) {
            *released = self.last_change;
        }
        self.free.push(superblock, self.erases.get(superblock as usize).copied().unwrap_or(0));
    }
}
