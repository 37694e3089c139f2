//! Cleaning: the valid slots of a victim go to the frontiers of their regions.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Context, Ticket};

use super::PageMapFtl;
use crate::failure::LayerResult;

impl<F: Flash> PageMapFtl<F> {
    /// Cleans one superblock: one with a block that fails, or the next victim. Errors: `Full` where
    /// no superblock has a page to win.
    pub(super) fn clean(&mut self, context: &Context) -> LayerResult<()> {
        match self.failing.next() {
            Some((superblock, block)) => self.clean_failing(context, superblock, block),
            None => {
                let victim = self.victim(context.issued)?;
                self.clean_superblock(context, victim)
            }
        }
    }

    /// Cleans a closed superblock.
    pub(super) fn clean_superblock(&mut self, context: &Context, victim: u32) -> LayerResult<()> {
        self.clean_superblock_for(context, victim, Cause::Cleaning)
    }

    /// The same for another reason than to win space.
    pub(super) fn clean_superblock_for(&mut self, context: &Context, victim: u32, cause: Cause) -> LayerResult<()> {
        self.index.leave(victim);
        // No request of the host's ends with a copy.
        let context = Context { device_cause: Some(cause), ticket: Ticket::NONE, ..*context };
        if let Err(failure) = self.empty(&context, victim) {
            // Some of its pages are still where they were.
            self.index.enter(victim);
            return Err(failure);
        }
        self.release(victim);
        Ok(())
    }

    /// Slots that were programmed, whatever for.
    pub(super) const fn programmed(&self) -> u64 {
        let counters = &self.counters;
        counters.programmed_pages + counters.copied_pages + counters.filled_pages + counters.map_pages
    }

    /// Superblocks that are free, or will be as soon as anything is programmed.
    pub(super) fn free_count(&self) -> usize {
        self.free.len() + usize::from(self.held_back.is_some())
    }

    /// Lets the victim go that was held back, once something was programmed behind its copies.
    pub(super) fn let_go(&mut self) {
        if let Some((victim, before)) = self.held_back
            && self.programmed() > before
        {
            self.held_back = None;
            self.free_from_now(victim);
        }
    }

    /// Cleans a superblock in which a block has failed, and replaces the block.
    fn clean_failing(&mut self, context: &Context, victim: u32, block: BlockIndex) -> LayerResult<()> {
        self.index.leave(victim);
        let context = Context { device_cause: Some(Cause::Cleaning), ticket: Ticket::NONE, ..*context };
        if let Err(failure) = self.empty(&context, victim) {
            self.abandon(victim, block.page(0));
            return Err(failure);
        }
        let is_whole = self.replace(victim, block);
        // Behind these lines no start takes the copies back, as it might once it does not read the
        // block any more: then older versions look like the originals.
        self.write_waiting(&context)?;
        self.mark_bad(&context, block)?;
        if is_whole {
            self.release(victim);
        }
        Ok(())
    }

    /// Moves everything valid out of a superblock that is no candidate, and puts the lines that
    /// belong to it on flash.
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

    /// A superblock without a valid slot is free, or held back.
    fn release(&mut self, victim: u32) {
        self.let_go();
        let has_copies = !self.run.slots.is_empty();
        if self.journal.is_some() && has_copies {
            self.held_back = Some((victim, self.programmed()));
        } else {
            self.free_from_now(victim);
        }
    }

    /// A superblock may be opened again, and erased once everything that was asked so far has
    /// completed: what emptied it, and the lines that tell of it.
    fn free_from_now(&mut self, superblock: u32) {
        if let Some(released) = self.released.get_mut(superblock as usize) {
            *released = self.last_change;
        }
        self.free.push(superblock, self.erases.get(superblock as usize).copied().unwrap_or(0));
    }
}
