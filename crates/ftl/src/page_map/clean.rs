//! Cleaning: the valid slots of a victim go to the frontiers of their regions.

use nandkit_flash::Flash;
use nandkit_units::{Cause, Context};

use super::PageMapFtl;
use crate::failure::Outcome;

impl<F: Flash> PageMapFtl<F> {
    /// Cleans one superblock: one with a block that fails, or the next victim. Errors: `Full` where no superblock has a page to win.
    pub(super) fn clean(&mut self, context: &Context) -> Outcome<()> {
        let (victim, failing) = match self.failing.next() {
            Some((superblock, block)) => (superblock, Some(block)),
            None => (self.victim(context.issued)?, None),
        };
        self.index.leave(victim);
        self.streams.note_victim(victim, context.issued);
        let context = Context { device_cause: Some(Cause::Cleaning), ..*context };
        let mut run = std::mem::take(&mut self.run);
        let moved = self.gather(&context, victim, &mut run).and_then(|read| {
            self.sort_by_region(&context, &mut run);
            self.spread(&context, read, &mut run)
        });
        self.run = run;
        if let Err(failure) = moved {
            // Some of its pages are still where they were.
            match failing {
                Some(block) => self.abandon(victim, block.page(0)),
                None => self.index.enter(victim),
            }
            return Err(failure);
        }
        let at = victim as usize;
        if let Some(into) = self.emptied.get_mut(at) {
            // Everything that took a slot of it away has completed then.
            *into = self.last_change;
        }
        self.counters.cleanings += 1;
        let is_whole = failing.map_or(Ok(true), |block| self.repair(&context, victim, block))?;
        if is_whole {
            self.free.push(victim, self.erases.get(at).copied().unwrap_or(0));
        }
        Ok(())
    }
}
