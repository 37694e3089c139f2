//! Host writes and trims of whole pages.

use nandkit_flash::{Flash, FlashError, PageProgram};
use nandkit_units::{Context, Done, Payload};

use super::frontier::Frontier;
use super::{FREE_MIN, Frontiers, NOWHERE, PageMapFtl, role};
use crate::failure::{Failure, Outcome};

impl<F: Flash> PageMapFtl<F> {
    /// Writes a logical page that exists.
    #[inline(always)]
    pub(super) fn write_page(&mut self, context: &Context, page: u32, data: Payload<'_>) -> Outcome<Done> {
        match self.append(context, page, data)? {
            Ok(done) => Ok(done),
            Err(failed) => self.write_elsewhere(*context, page, data, *failed),
        }
    }

    /// Programs a page at the host's frontier. A failure of the flash leaves all as it was, and comes back with where it happened.
    #[inline(always)]
    fn append(&mut self, context: &Context, page: u32, data: Payload<'_>) -> Outcome<Result<Done, Box<FlashError>>> {
        if Self::is_closed(&self.host) {
            self.open_host(context)?;
        }
        let frontier = self.host;
        let (slot, at) = self.place(&frontier);
        let oob = self.tag.image(u64::from(page) << 8 | role::HOST, self.sequence);
        match self.flash.program(context, at, PageProgram::new(data, &oob)) {
            Ok(done) => {
                self.sequence += 1;
                self.last_change = self.last_change.max(done.completed);
                self.point(page, slot, frontier.superblock);
                self.host = self.advance(frontier, 1);
                self.counters.host_page_writes += 1;
                Ok(Ok(done))
            }
            Err(error) => Ok(Err(Box::new(error))),
        }
    }

    /// Writes a page in another superblock than the one in which its program has failed, and in yet another one where it fails again: each time a block fewer is good, so that this ends.
    #[cold]
    #[inline(never)]
    fn write_elsewhere(
        &mut self,
        mut context: Context,
        page: u32,
        data: Payload<'_>,
        mut failed: FlashError,
    ) -> Outcome<Done> {
        loop {
            context.issued = context.issued.max(failed.completed);
            let Frontier { superblock, next } = self.host;
            self.note_failure(failed)?;
            // A tag that may be on flash is used once.
            self.sequence += 1;
            self.abandon(superblock, self.superblocks.at(superblock, next));
            self.host = Frontier::CLOSED;
            match self.append(&context, page, data)? {
                Ok(done) => return Ok(done),
                Err(again) => failed = *again,
            }
        }
    }

    /// The map points at a page that was just written; what it pointed at before is dead.
    #[inline(always)]
    fn point(&mut self, page: u32, slot: u32, superblock: u32) {
        let Some(entry) = self.map.get_mut(page as usize) else { return };
        let old = std::mem::replace(entry, slot);
        if old != NOWHERE {
            self.valid.clear(old);
            self.index.subtract(self.superblocks.superblock(old));
        }
        self.valid.set(slot);
        self.index.add(superblock);
        if !self.failing.lost.is_empty() {
            self.failing.lost.remove(&page);
        }
    }

    /// Forgets a logical page.
    #[inline]
    pub(super) fn trim_page(&mut self, page: u32) {
        let Some(entry) = self.map.get_mut(page as usize) else { return };
        let old = std::mem::replace(entry, NOWHERE);
        if old != NOWHERE {
            self.valid.clear(old);
            self.index.subtract(self.superblocks.superblock(old));
            self.counters.trimmed_pages += 1;
        }
        self.failing.lost.remove(&page);
    }

    /// Cleans until a superblock can be opened for the host, and opens it.
    #[inline(never)]
    fn open_host(&mut self, context: &Context) -> Outcome<()> {
        loop {
            // With one frontier for all, copies may have opened one: it is not opened again.
            let needed = FREE_MIN + usize::from(Self::is_closed(&self.host));
            if self.free.len() >= needed && !self.failing.is_waiting() {
                break;
            }
            self.clean(context)?;
        }
        if Self::is_closed(&self.host) {
            self.host = self.open(context)?;
        }
        Ok(())
    }

    /// Where copies go.
    #[inline]
    pub(super) fn copy_frontier(&self) -> Frontier {
        if self.options.frontiers == Frontiers::Apart { self.copies } else { self.host }
    }

    pub(super) fn set_copy_frontier(&mut self, frontier: Frontier) {
        if self.options.frontiers == Frontiers::Apart {
            self.copies = frontier;
        } else {
            self.host = frontier;
        }
    }

    /// Refuses changes once the state in memory is behind that on flash.
    #[inline]
    pub(super) fn check_running(&self) -> Outcome<()> {
        match &self.halted {
            None => Ok(()),
            Some(halt) => Err(Failure::Halted(Box::new(halt.clone()))),
        }
    }
}
