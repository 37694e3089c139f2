//! Host writes and trims of whole pages.

use nandkit_flash::{Flash, PageProgram};
use nandkit_units::{Context, Done, Payload};

use super::frontier::Frontier;
use super::{FREE_MIN, Frontiers, NOWHERE, PageMapFtl, role};
use crate::failure::{Failure, Halt, Outcome, is_block_failure};

impl<F: Flash> PageMapFtl<F> {
    /// Writes a logical page that exists.
    #[inline(always)]
    pub(super) fn write_page(&mut self, context: &Context, page: u32, data: Payload<'_>) -> Outcome<Done> {
        if Self::is_closed(self.host_frontier()) {
            self.open_host(context)?;
        }
        let frontier = *self.host_frontier();
        let (slot, at) = self.place(&frontier);
        let oob = self.tag.image(u64::from(page) << 8 | role::HOST, self.sequence);
        match self.flash.program(context, at, PageProgram::new(data, &oob)) {
            Ok(done) => {
                self.sequence += 1;
                self.last_change = self.last_change.max(done.completed);
                self.point(page, slot, frontier.superblock);
                *self.host_frontier_mut() = self.advance(frontier, 1);
                self.counters.host_page_writes += 1;
                Ok(done)
            }
            Err(error) => Err(self.halt(error)),
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
    }

    /// Cleans until a superblock can be opened for the host, and opens it.
    #[inline(never)]
    fn open_host(&mut self, context: &Context) -> Outcome<()> {
        while self.free.len() <= FREE_MIN {
            self.clean(context)?;
            // With one frontier for all, copies may have opened one.
            if !Self::is_closed(self.host_frontier()) && self.free.len() >= FREE_MIN {
                return Ok(());
            }
        }
        let frontier = self.open(context)?;
        *self.host_frontier_mut() = frontier;
        Ok(())
    }

    #[inline(always)]
    const fn host_frontier(&self) -> &Frontier {
        &self.host
    }

    #[inline(always)]
    const fn host_frontier_mut(&mut self) -> &mut Frontier {
        &mut self.host
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

    /// A failure of the flash stops the layer: blocks that go bad are not handled yet.
    #[cold]
    pub(super) fn halt(&mut self, error: nandkit_flash::FlashError) -> Failure {
        let what = if is_block_failure(error.kind) { "a block failed" } else { "the flash failed" };
        self.halted = Some(Halt { kind: error.kind, why: format!("{what} in an earlier operation: {error}") });
        error.into()
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
