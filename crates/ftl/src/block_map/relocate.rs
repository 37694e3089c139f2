//! The copying parts of recycling: filling a merge target, a migration target, or the rest of a log block.

use nandkit_flash::Flash;
use nandkit_units::{BlockIndex, Cause};

use super::BlockMapFtl;
use crate::base::{Copied, Label};
use crate::chain::Chain;
use crate::failure::Outcome;
use crate::tag::{Role, flag};

impl<F: Flash> BlockMapFtl<F> {
    /// Copies all current pages of log and data block into a new data block.
    pub(super) fn merge(&mut self, chain: &mut Chain, slot: usize) -> Outcome<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        let target = self.fill_new_block(chain, Cause::Cleaning, |ftl, chain, target| {
            ftl.fill_data_block(chain, Cause::Cleaning, log.lbn, target, 0)
        })?;
        self.counters.full_merges += 1;
        self.base.release(log.block);
        self.become_data(chain, slot, log.lbn, target)
    }

    /// Takes blocks until one could be filled. A target in which a program fails is marked bad at once: no unfinished target outlives the next
    /// program (rule 9).
    fn fill_new_block(
        &mut self,
        chain: &mut Chain,
        cause: Cause,
        fill: impl Fn(&mut Self, &mut Chain, u32) -> Outcome<()>,
    ) -> Outcome<u32> {
        loop {
            let target = self.base.allocate(chain, cause)?;
            match fill(self, chain, target) {
                Ok(()) => return Ok(target),
                Err(failure) if failure.is_bad_block() => self.base.mark_bad(chain, target)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Puts the pages of a logical block from `first` on into `target`, each at its offset. Pages that hold nothing are filled, as far as a later
    /// one does hold something: parts want the pages of a block programmed one after the other. The last page closes the block (rule 6).
    fn fill_data_block(&mut self, chain: &mut Chain, cause: Cause, lbn: u32, target: u32, first: u32) -> Outcome<()> {
        let (end, mut full) = self.map.extent(lbn);
        full &= first == 0 && self.poisoned.is_empty();
        let end = end.max(first + 1);
        for offset in first..end {
            let mut flags = if offset + 1 == end { flag::LAST } else { 0 };
            if full && flags != 0 {
                flags |= flag::FULL;
            }
            let to = BlockIndex(target).page(offset);
            let Some(from) = self.map.locate(lbn, offset) else {
                let label = Label { role: Role::DataCopy, flags: flags | flag::TOMB, block: lbn, offset };
                self.base.program(chain, Some(cause), to, label, self.base.empty_page())?;
                continue;
            };
            let label =
                Label { role: Role::DataCopy, flags: flags | self.poison_flag(lbn, offset), block: lbn, offset };
            if self.base.copy(chain, cause, from, to, label)? == Copied::Poisoned {
                self.set_poisoned(lbn, offset, true);
                full = false;
            }
        }
        Ok(())
    }

    #[inline]
    fn poison_flag(&self, lbn: u32, offset: u32) -> u8 {
        if self.is_poisoned(lbn, offset) { flag::POISON } else { 0 }
    }

    /// Copies the valid pages of a log block into a new log block, which takes its place. `bad`: the old block is marked bad afterwards.
    pub(super) fn migrate(&mut self, chain: &mut Chain, slot: usize, bad: bool) -> Outcome<()> {
        let Some(old) = self.map.log(slot).copied() else { return Ok(()) };
        let p = self.map.p(slot);
        let target = self
            .fill_new_block(chain, Cause::Cleaning, |ftl, chain, target| ftl.fill_log_block(chain, slot, target, p))?;
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
        if p == 0 { Ok(()) } else { self.write_map(chain) }
    }

    /// Puts the pages that a migration carries into `target`, and their places into `new_table`.
    fn fill_log_block(&mut self, chain: &mut Chain, slot: usize, target: u32, p: u32) -> Outcome<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        let has_data = self.map.data(log.lbn).is_some();
        self.new_table.fill(0);
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
                if self.base.copy(chain, Cause::Cleaning, from, to, label)? == Copied::Poisoned {
                    self.set_poisoned(log.lbn, offset, true);
                }
            } else {
                label.flags |= flag::TOMB;
                self.base.program(chain, Some(Cause::Cleaning), to, label, self.base.empty_page())?;
            }
            page += 1;
            if let Some(place) = self.new_table.get_mut(offset as usize) {
                *place = page as u16;
            }
        }
        Ok(())
    }

    /// Partial merge: the rest of the pages follow in the log block, which becomes the data block. Where that fails, a full merge does it.
    pub(super) fn fill_up(&mut self, chain: &mut Chain, slot: usize) -> Outcome<()> {
        let Some(log) = self.map.log(slot).copied() else { return Ok(()) };
        match self.fill_data_block(chain, Cause::Cleaning, log.lbn, log.block, log.next) {
            Ok(()) => {
                self.counters.partial_merges += 1;
                self.become_data(chain, slot, log.lbn, log.block)
            }
            Err(failure) if failure.is_bad_block() => {
                let Some(log) = self.map.log_mut(slot) else { return Ok(()) };
                (log.in_order, log.next) = (false, self.base.shape.np);
                let lbn = log.lbn;
                let bad = log.block;
                let target = self.fill_new_block(chain, Cause::Cleaning, |ftl, chain, target| {
                    ftl.fill_data_block(chain, Cause::Cleaning, lbn, target, 0)
                })?;
                self.counters.full_merges += 1;
                self.base.release_bad(bad);
                self.become_data(chain, slot, lbn, target)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Moves a data block that has no log block into a more worn one (static wear levelling).
    pub(super) fn move_data(&mut self, chain: &mut Chain, lbn: u32) -> Outcome<()> {
        let Some(old) = self.map.data(lbn) else { return Ok(()) };
        let target = self.fill_new_block(chain, Cause::WearLevelling, |ftl, chain, target| {
            ftl.fill_data_block(chain, Cause::WearLevelling, lbn, target, 0)
        })?;
        self.counters.wear_moves += 1;
        self.base.release(old);
        self.map.set_data(lbn, target);
        self.write_map(chain)
    }
}
