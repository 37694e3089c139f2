//! The copying steps of recycling: filling a merge target, a migration target, or the rest of a log
//! block.

use std::collections::BTreeSet;

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause, PageAddress};

use super::BlockMapFtl;
use super::map::BlockView;
use crate::base::{Filling, Label};
use crate::chain::Chain;
use crate::failure::LayerResult;
use crate::tag::{Role, flag};

impl<F: Flash> BlockMapFtl<F> {
    /// Copies all current pages of the log and data blocks into a new data block.
    pub(super) fn merge(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        let target = self.new_data_block(chain, Cause::Cleaning, log.lbn)?;
        self.counters.full_merges += 1;
        self.base.release(log.block);
        self.become_data(chain, slot, log.lbn, target)
    }

    /// Copies all current pages of a logical block into a free block.
    fn new_data_block(&mut self, chain: &mut Chain, cause: Cause, lbn: u32) -> LayerResult<u32> {
        let filling = self.filling(cause, lbn, 0);
        let Self { base, map, poisoned, .. } = self;
        let (view, first) = (map.view(lbn), u64::from(lbn) * u64::from(base.shape.np));
        let (target, lost) = base.fill_new_block(chain, cause, |base, chain, target| {
            base.fill_in_place(chain, Filling { target, ..filling }, |offset| source(&view, poisoned, first, offset))
        })?;
        lost.into_iter().for_each(|offset| self.set_poisoned(lbn, offset, true));
        self.unsaved.clear(lbn);
        Ok(target)
    }

    fn filling(&self, cause: Cause, lbn: u32, first: u32) -> Filling {
        let (end, full) = self.map.extent(lbn);
        Filling { cause, lbn, target: 0, first, end, full: full && first == 0 && self.poisoned.is_empty() }
    }

    #[inline]
    fn poison_flag(&self, lbn: u32, offset: u32) -> u8 {
        if self.is_poisoned(lbn, offset) { flag::POISON } else { 0 }
    }

    /// Copies the valid pages of a log block into a new log block, which replaces it. `bad`: mark
    /// the old block bad afterwards.
    pub(super) fn migrate(&mut self, chain: &mut Chain, slot: usize, bad: bool) -> LayerResult<()> {
        let Some(old) = self.map.log(slot).copied() else { return Ok(()) };
        let p = self.map.p(slot);
        let target = self.new_log_block(chain, slot, p)?;
        self.counters.migrations += 1;
        if bad {
            self.base.release_bad(old.block);
        } else {
            self.base.release(old.block);
        }
        let new_table = std::mem::take(&mut self.new_table);
        self.map.table_mut(slot).copy_from_slice(&new_table);
        self.new_table = new_table;
        if let Some(log) = self.map.log_mut(slot) {
            (log.block, log.next, log.in_order, log.migrated) = (target, p, false, true);
            if !bad {
                log.migrations += 1;
                log.history.push(p);
            }
        }
        if p == 0 { Ok(()) } else { self.base.append_map_pages(chain, self.options.map_pages_per_recycling) }
    }

    /// Copies the pages of a migration into a free block, and records their positions in
    /// `new_table`.
    fn new_log_block(&mut self, chain: &mut Chain, slot: usize, p: u32) -> LayerResult<u32> {
        loop {
            let target = self.base.allocate(chain, Cause::Cleaning)?;
            let mut lost = Vec::new();
            let filled = self.fill_log_block(chain, slot, (target, p), &mut lost);
            if let Some(lbn) = self.map.log(slot).map(|log| log.lbn) {
                lost.into_iter().for_each(|offset| self.set_poisoned(lbn, offset, true));
            }
            match filled {
                Ok(()) => return Ok(target),
                Err(failure) if failure.is_bad_block() => self.base.mark_bad(chain, target)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Copies the pages of a migration into `target`, and records their positions in `new_table`.
    fn fill_log_block(
        &mut self,
        chain: &mut Chain,
        slot: usize,
        (target, p): (u32, u32),
        lost: &mut Vec<u32>,
    ) -> LayerResult<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        let has_data = self.map.data(log.lbn).is_some();
        self.new_table.fill(0);
        self.base.begin_copies();
        let mut page = 0;
        for offset in 0..self.base.shape.np {
            let entry = self.map.table(slot).get(offset as usize).copied().unwrap_or(0);
            if !self.map.carries(log.lbn, has_data, offset, entry) {
                continue;
            }
            let last = if page + 1 == p { flag::LAST } else { 0 };
            let to = BlockIndex(target).page(page);
            let mut label = Label { role: Role::LogCopy, flags: flag::MIGRATED | last, block: log.lbn, offset };
            if self.map.is_present(log.lbn, offset) {
                label.flags |= self.poison_flag(log.lbn, offset);
                let from = BlockIndex(log.block).page(u32::from(entry) - 1);
                self.base.copy_later(chain, Cause::Cleaning, (from, to), label, lost)?;
            } else {
                label.flags |= flag::TOMB;
                self.base.finish_copies(chain, Cause::Cleaning, lost)?;
                self.base.program(chain, Some(Cause::Cleaning), to, label, &self.base.empty_page())?;
            }
            page += 1;
            if let Some(place) = self.new_table.get_mut(offset as usize) {
                *place = page as u16;
            }
        }
        self.base.finish_copies(chain, Cause::Cleaning, lost)
    }

    /// Partial merge: copies the remaining pages into the log block, which becomes the data block.
    /// If that fails, does a full merge.
    pub(super) fn fill_up(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        let filling = Filling { target: log.block, ..self.filling(Cause::Cleaning, log.lbn, log.next) };
        let Self { base, map, poisoned, .. } = self;
        let (view, first) = (map.view(log.lbn), u64::from(log.lbn) * u64::from(base.shape.np));
        match base.fill_in_place(chain, filling, |offset| source(&view, poisoned, first, offset)) {
            Ok(lost) => {
                lost.into_iter().for_each(|offset| self.set_poisoned(log.lbn, offset, true));
                self.counters.partial_merges += 1;
                self.become_data(chain, slot, log.lbn, log.block)
            }
            Err(failure) if failure.is_bad_block() => {
                if let Some(log) = self.map.log_mut(slot) {
                    (log.in_order, log.next) = (false, self.base.shape.np);
                }
                let target = self.new_data_block(chain, Cause::Cleaning, log.lbn)?;
                self.counters.full_merges += 1;
                self.base.release_bad(log.block);
                self.become_data(chain, slot, log.lbn, target)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Moves the pages of a data block without a log block into a free one: for static wear
    /// levelling, or to drop trimmed pages.
    pub(super) fn move_data(&mut self, chain: &mut Chain, lbn: u32, cause: Cause) -> LayerResult<()> {
        let Some(old) = self.map.data(lbn) else { return Ok(()) };
        let target = self.new_data_block(chain, cause, lbn)?;
        self.base.release(old);
        self.map.set_data(lbn, target);
        self.base.append_map_pages(chain, self.options.map_pages_per_recycling)
    }
}

/// A page's current address, and whether its content is lost. `first` is the number of the logical
/// block's first page.
#[inline]
fn source(view: &BlockView<'_>, poisoned: &BTreeSet<u64>, first: u64, offset: u32) -> Option<(PageAddress, bool)> {
    let at = view.locate(offset)?;
    Some((at, !poisoned.is_empty() && poisoned.contains(&(first + u64::from(offset)))))
}
