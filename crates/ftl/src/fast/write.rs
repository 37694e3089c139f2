//! Host writes: in place, to the sequential log block, or to the ring; and the merges that make
//! room.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, Payload};

use super::FastFtl;
use super::state::{Random, Sequential};
use crate::base::{Filling, Label};
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{Role, flag};

/// FAST's meaning of this flag: the page lies at its offset.
pub(super) const IN_PLACE: u8 = flag::MIGRATED;

impl<F: Flash> FastFtl<F> {
    pub(super) fn write_page(
        &mut self,
        chain: &mut Chain,
        lbn: u32,
        offset: u32,
        data: &Payload<'_>,
    ) -> LayerResult<()> {
        loop {
            let done = if self.fits_in_place(lbn, offset) {
                self.write_in_place(chain, lbn, offset, data)?
            } else if offset == 0 || self.state.sequential.is_some_and(|log| log.lbn == lbn) {
                self.write_sequential(chain, lbn, offset, data)?
            } else {
                self.write_random(chain, lbn, offset, 0, data)?
            };
            if done {
                self.state.present.set(lbn, offset, true);
                self.unsaved.remove(lbn, offset);
                self.state.set_poisoned(lbn, offset, false);
                return Ok(());
            }
        }
    }

    fn fits_in_place(&self, lbn: u32, offset: u32) -> bool {
        let written = self.state.written.get(lbn as usize).map_or(u32::MAX, |written| u32::from(*written));
        let streaming = self.state.sequential.is_some_and(|log| log.lbn == lbn);
        written == offset && !streaming
    }

    /// Writes the next page of the data block itself.
    fn write_in_place(&mut self, chain: &mut Chain, lbn: u32, offset: u32, data: &Payload<'_>) -> LayerResult<bool> {
        let block = match self.state.data(lbn) {
            Some(block) => block,
            None => {
                let block = self.base.allocate(chain, Cause::Cleaning)?;
                self.state.set_data(lbn, Some(block), 0);
                block
            }
        };
        let label = Label { role: Role::Host, flags: IN_PLACE, block: lbn, offset };
        match self.base.program(chain, None, BlockIndex(block).page(offset), label, data) {
            Ok(()) => {
                self.state.set_written(lbn, offset + 1);
                self.state.set_entry(self.state.page(lbn, offset), None);
                Ok(true)
            }
            Err(failure) if failure.is_bad_block() && offset == 0 => {
                self.base.mark_bad(chain, block)?;
                self.state.set_data(lbn, None, 0);
                Ok(false)
            }
            Err(failure) if failure.is_bad_block() => {
                self.state.set_written(lbn, self.state.np);
                self.full_merge(chain, lbn, Some(block)).map(|()| false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes to the sequential log block; a first page opens it. Returns false if something had to
    /// be merged first and the write must be retried.
    fn write_sequential(&mut self, chain: &mut Chain, lbn: u32, offset: u32, data: &Payload<'_>) -> LayerResult<bool> {
        let log = match self.state.sequential {
            Some(log) if log.lbn == lbn && log.next == offset && !log.failed => log,
            Some(log) => {
                self.finish_sequential(chain, log)?;
                return Ok(false);
            }
            None => {
                let block = self.base.allocate(chain, Cause::Cleaning)?;
                let log = Sequential { lbn, block, next: 0, failed: false };
                self.state.sequential = Some(log);
                log
            }
        };
        let label = Label { role: Role::Host, flags: IN_PLACE, block: lbn, offset };
        match self.base.program(chain, None, BlockIndex(log.block).page(offset), label, data) {
            Ok(()) => {
                self.state.sequential = Some(Sequential { next: offset + 1, ..log });
                self.state.set_entry(self.state.page(lbn, offset), None);
                if offset + 1 == self.state.np {
                    self.counters.swap_merges += 1;
                    self.sequential_becomes_data(chain, log)?;
                }
                Ok(true)
            }
            Err(failure) if failure.is_bad_block() && log.next == 0 => {
                self.state.sequential = None;
                self.base.mark_bad(chain, log.block).map(|()| false)
            }
            Err(failure) if failure.is_bad_block() => {
                self.state.sequential = Some(Sequential { failed: true, ..log });
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Partial merge: fills the sequential log block with the current pages of its logical block,
    /// and makes it the data block.
    pub(super) fn finish_sequential(&mut self, chain: &mut Chain, log: Sequential) -> LayerResult<()> {
        if log.next == 0 {
            self.state.sequential = None;
            self.base.put_into_pool(log.block);
            return Ok(());
        }
        if log.failed {
            return self.full_merge(chain, log.lbn, Some(log.block));
        }
        let (end, _) = self.state.present.extent(log.lbn);
        let filling =
            Filling { cause: Cause::Cleaning, lbn: log.lbn, target: log.block, first: log.next, end, full: false };
        let Self { base, state, .. } = self;
        let source = |offset| Some((state.locate(log.lbn, offset)?, state.is_poisoned(log.lbn, offset)));
        match base.fill_in_place(chain, filling, source) {
            Ok(lost) => {
                lost.into_iter().for_each(|offset| self.state.set_poisoned(log.lbn, offset, true));
                self.counters.partial_merges += 1;
                self.sequential_becomes_data(chain, log)
            }
            Err(failure) if failure.is_bad_block() => {
                self.state.sequential = Some(Sequential { failed: true, ..log });
                self.full_merge(chain, log.lbn, Some(log.block))
            }
            Err(failure) => Err(failure),
        }
    }

    fn sequential_becomes_data(&mut self, chain: &mut Chain, log: Sequential) -> LayerResult<()> {
        if let Some(old) = self.state.data(log.lbn) {
            self.base.release(old);
        }
        self.state.set_data(log.lbn, Some(log.block), self.state.np);
        self.state.clear_entries(log.lbn);
        self.state.sequential = None;
        self.base.append_map_pages(chain, self.options.map_pages_per_recycling)
    }

    /// Appends to the ring. Returns false if room had to be made or a program failed, and the write
    /// must be retried.
    pub(super) fn write_random(
        &mut self,
        chain: &mut Chain,
        lbn: u32,
        offset: u32,
        tomb: u8,
        data: &Payload<'_>,
    ) -> LayerResult<bool> {
        let np = self.state.np as usize;
        let open = self.state.ring.back().filter(|log| !log.failed && log.pages.len() < np);
        let Some((block, next)) = open.map(|log| (log.block, log.pages.len() as u32)) else {
            return self.open_random(chain).map(|()| false);
        };
        let at = BlockIndex(block).page(next);
        let page = self.state.page(lbn, offset);
        let result =
            self.base.program(chain, None, at, Label { role: Role::Host, flags: tomb, block: lbn, offset }, data);
        let Some(log) = self.state.ring.back_mut() else { return Ok(false) };
        match result {
            Ok(()) => {
                log.pages.push(page as u32);
                self.state.set_entry(page, Some(at));
                Ok(true)
            }
            Err(failure) if failure.is_bad_block() => {
                log.failed = true;
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    fn open_random(&mut self, chain: &mut Chain) -> LayerResult<()> {
        while self.state.ring.len() >= self.options.log_blocks as usize {
            self.reclaim(chain)?;
        }
        let block = self.base.allocate(chain, Cause::Cleaning)?;
        let pages = Vec::with_capacity(self.state.np as usize);
        self.state.ring.push_back(Random { block, pages, failed: false });
        Ok(())
    }

    /// Empties the ring's oldest block by merging every logical block with a newest page in it,
    /// trimmed or not.
    pub(super) fn reclaim(&mut self, chain: &mut Chain) -> LayerResult<()> {
        let Some(oldest) = self.state.ring.front() else { return Err(Failure::Full) };
        let (block, failed) = (oldest.block, oldest.failed);
        let mut index = 0;
        while let Some(&page) = self.state.ring.front().and_then(|log| log.pages.get(index)) {
            let at = BlockIndex(block).page(index as u32);
            index += 1;
            if self.state.entry(page as usize) != Some(at) {
                continue;
            }
            let lbn = page / self.state.np;
            self.counters.forced_merges += 1;
            match self.state.sequential {
                Some(log) if log.lbn == lbn => self.finish_sequential(chain, log)?,
                _ => self.full_merge(chain, lbn, None)?,
            }
        }
        self.state.ring.pop_front();
        if failed {
            self.base.release_bad(block);
        } else {
            self.base.release(block);
        }
        Ok(())
    }

    /// Copies the current pages of a logical block, wherever they are, into a new data block. `bad`
    /// is one of its blocks to be marked bad.
    pub(super) fn full_merge(&mut self, chain: &mut Chain, lbn: u32, bad: Option<u32>) -> LayerResult<()> {
        let (end, full) = self.state.present.extent(lbn);
        let full = full && self.state.poisoned.is_empty();
        let Self { base, state, .. } = self;
        let (target, lost) = base.fill_new_block(chain, Cause::Cleaning, |base, chain, target| {
            let filling = Filling { cause: Cause::Cleaning, lbn, target, first: 0, end, full };
            base.fill_in_place(chain, filling, |offset| {
                Some((state.locate(lbn, offset)?, state.is_poisoned(lbn, offset)))
            })
        })?;
        lost.into_iter().for_each(|offset| self.state.set_poisoned(lbn, offset, true));
        self.counters.full_merges += 1;
        let log = self.state.sequential.take_if(|log| log.lbn == lbn).map(|log| log.block);
        for old in [self.state.data(lbn), log].into_iter().flatten() {
            if bad == Some(old) {
                self.base.release_bad(old);
            } else {
                self.base.release(old);
            }
        }
        self.state.set_data(lbn, Some(target), self.state.np);
        self.state.clear_entries(lbn);
        self.unsaved.clear(lbn);
        self.base.append_map_pages(chain, self.options.map_pages_per_recycling)
    }
}
