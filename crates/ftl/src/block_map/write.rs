//! Host writes, which go to the next page of the logical block's log block.

use nandkit_cleaning::recycling::PeriodHistory;
use nandkit_flash::{Flash, FlashError};
use nandkit_units::{BlockIndex, Cause, Context, Done, Payload};

use super::BlockMapFtl;
use super::map::{Log, Map};
use crate::base::Label;
use crate::chain::Chain;
use crate::failure::{Failure, LayerResult};
use crate::tag::{Role, flag};

/// The flash page that the next host page goes to.
#[derive(Clone, Copy)]
struct Room {
    slot: usize,
    page: u32,
    block: u32,
    migrated: bool,
}

impl<F: Flash> BlockMapFtl<F> {
    #[inline]
    pub(super) fn write_page(
        &mut self,
        chain: &mut Chain,
        lbn: u32,
        offset: u32,
        data: &Payload<'_>,
    ) -> LayerResult<()> {
        self.write_labelled(chain, lbn, offset, 0, data)
    }

    /// Writes a whole page to the log, or with `TOMB` a marker that it has no content. If a program
    /// fails, replaces the block and retries as long as there are blocks.
    #[inline]
    pub(super) fn write_labelled(
        &mut self,
        chain: &mut Chain,
        lbn: u32,
        offset: u32,
        tomb: u8,
        data: &Payload<'_>,
    ) -> LayerResult<()> {
        if let Some(room) = self.map.slot_of(lbn).and_then(|slot| self.room_in(slot)) {
            if self.write_into(chain, room, (lbn, offset), tomb, data)? {
                return Ok(());
            }
            self.replace_failed_log(chain, room.slot)?;
        }
        self.write_otherwise(chain, (lbn, offset), tomb, data)
    }

    /// Fast path: writes a page to a log block with room for it and one more, while no block waits
    /// for a completed program. That takes a single program and one map entry, without a chain.
    /// Returns `None`, with nothing changed, if these conditions do not hold.
    #[inline(always)]
    pub(super) fn append_page(
        &mut self,
        context: &Context,
        (lbn, offset): (u32, u32),
        data: &Payload<'_>,
    ) -> Option<LayerResult<Done>> {
        let slot = self.map.slot_of(lbn)?;
        let Self { base, map: Map { logs, places, present, .. }, stamp, .. } = self;
        let log = logs.get_mut(slot)?.as_mut()?;
        let page = log.next;
        if page + 1 >= base.shape.np || !base.is_plain() {
            return None;
        }
        let migrated = if log.migrated { flag::MIGRATED } else { 0 };
        let label = Label { role: Role::Host, flags: migrated, block: lbn, offset };
        match base.program_alone(context, BlockIndex(log.block).page(page), label, data) {
            Ok(done) => {
                *stamp += 1;
                log.note(offset, *stamp);
                places.set(slot, offset, page);
                present.set(lbn, offset, true);
                self.written_again(lbn, offset);
                Some(Ok(done))
            }
            Err(error) => Some(self.append_failed(*context, slot, (lbn, offset), *data, error)),
        }
    }

    /// Handles a failed program of [`BlockMapFtl::append_page`]: replaces the block, as after any
    /// failed program.
    #[cold]
    fn append_failed(
        &mut self,
        context: Context,
        slot: usize,
        place: (u32, u32),
        data: Payload<'_>,
        error: FlashError,
    ) -> LayerResult<Done> {
        let mut chain = self.base.begin(&context);
        let failure = self.base.failed(&mut chain, error);
        let written = if failure.is_bad_block() {
            self.replace_failed_log(&mut chain, slot).and_then(|()| self.write_otherwise(&mut chain, place, 0, &data))
        } else {
            Err(failure)
        };
        self.base.end(&chain);
        written.map(|()| chain.done())
    }

    /// Slow path: writes a page whose logical block has no room in its log, or after a failed
    /// program. Kept apart so that the fast path of nearly all pages has no loop and no second
    /// entry.
    #[inline(never)]
    fn write_otherwise(
        &mut self,
        chain: &mut Chain,
        (lbn, offset): (u32, u32),
        tomb: u8,
        data: &Payload<'_>,
    ) -> LayerResult<()> {
        loop {
            let room = self.make_room(chain, lbn)?;
            if self.write_into(chain, room, (lbn, offset), tomb, data)? {
                return Ok(());
            }
            self.replace_failed_log(chain, room.slot)?;
        }
    }

    /// Programs a page into a log block; returns false if the program failed.
    #[inline(always)]
    fn write_into(
        &mut self,
        chain: &mut Chain,
        room: Room,
        (lbn, offset): (u32, u32),
        tomb: u8,
        data: &Payload<'_>,
    ) -> LayerResult<bool> {
        let migrated = if room.migrated { flag::MIGRATED } else { 0 };
        let label = Label { role: Role::Host, flags: tomb | migrated, block: lbn, offset };
        match self.base.program(chain, None, BlockIndex(room.block).page(room.page), label, data) {
            Ok(()) => self.written(chain, room.slot, (lbn, offset), tomb == 0, room.page).map(|()| true),
            Err(failure) if failure.is_bad_block() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    #[inline(always)]
    fn written(
        &mut self,
        chain: &mut Chain,
        slot: usize,
        (lbn, offset): (u32, u32),
        present: bool,
        page: u32,
    ) -> LayerResult<()> {
        let Self { map: Map { logs, places, present: pages, .. }, stamp, .. } = self;
        *stamp += 1;
        places.set(slot, offset, page);
        pages.set(lbn, offset, present);
        let in_order = logs.get_mut(slot).and_then(Option::as_mut).is_some_and(|log| log.note(offset, *stamp));
        self.written_again(lbn, offset);
        if in_order && page + 1 == self.base.shape.np { self.swap(chain, slot) } else { Ok(()) }
    }

    /// Discards state that applied only to the page's previous content.
    #[inline(always)]
    fn written_again(&mut self, lbn: u32, offset: u32) {
        self.unsaved.remove(lbn, offset);
        if !self.poisoned.is_empty() {
            self.set_poisoned(lbn, offset, false);
        }
    }

    /// The next free page of a log block, if any.
    #[inline]
    fn room_in(&self, slot: usize) -> Option<Room> {
        let log = self.map.log(slot)?;
        let room = Room { slot, page: log.next, block: log.block, migrated: log.migrated };
        (log.next < self.base.shape.np).then_some(room)
    }

    /// Makes room by recycling the logical block's full log block, or by opening one. A migration
    /// makes room too: it copies fewer than half of the pages.
    fn make_room(&mut self, chain: &mut Chain, lbn: u32) -> LayerResult<Room> {
        loop {
            let slot = match self.map.slot_of(lbn) {
                Some(slot) => slot,
                None => self.open_log(chain, lbn)?,
            };
            if let Some(room) = self.room_in(slot) {
                return Ok(room);
            }
            self.recycle(chain, slot)?;
        }
    }

    /// Opens a log block for a logical block; evicts another's if none is free.
    fn open_log(&mut self, chain: &mut Chain, lbn: u32) -> LayerResult<usize> {
        while self.map.open_logs() >= self.log_limit || self.map.free_slots() == 0 {
            if self.log_limit == 0 {
                return Err(Failure::Full);
            }
            self.evict(chain)?;
        }
        self.level_wear(chain)?;
        // This is the second of the two erases (2 * C_E in P4) of the merge that freed the last log
        // block.
        let block = self.base.allocate(chain, Cause::Cleaning)?;
        self.stamp += 1;
        let log = Log {
            lbn,
            block,
            next: 0,
            in_order: true,
            migrated: false,
            opened: self.stamp,
            last_write: self.stamp,
            migrations: 0,
            history: PeriodHistory::default(),
        };
        self.map.open_log(log).ok_or(Failure::Full)
    }

    /// Static wear levelling, checked as often as the gap can grow by the threshold: moves the
    /// least-erased data block if the gap is too large.
    fn level_wear(&mut self, chain: &mut Chain) -> LayerResult<()> {
        let Some(threshold) = self.options.wear_threshold else { return Ok(()) };
        if self.base.counters.erases < self.next_wear_check {
            return Ok(());
        }
        self.next_wear_check = self.base.counters.erases + u64::from(threshold.max(1));
        let most = self.base.erases.iter().copied().max().unwrap_or(0);
        let erases = |block: u32| self.base.erases.get(block as usize).copied().unwrap_or(u32::MAX);
        // Only without a log block: a data block newer than its log would hide the log (rule 14).
        let coldest = (0..self.base.shape.lbns)
            .filter(|lbn| self.map.slot_of(*lbn).is_none())
            .filter_map(|lbn| self.map.data(lbn).map(|block| (erases(block), lbn)))
            .min();
        match coldest {
            Some((least, lbn)) if most.saturating_sub(least) >= threshold => {
                self.counters.wear_moves += 1;
                self.move_data(chain, lbn, Cause::WearLevelling)
            }
            _ => Ok(()),
        }
    }

    /// Merges a log block to free its slot for another logical block.
    pub(super) fn evict(&mut self, chain: &mut Chain) -> LayerResult<()> {
        let mut cursor = self.victim_cursor;
        let victim = self.options.victim.choose(self.map.views(self.options.victim), &mut cursor);
        self.victim_cursor = cursor;
        self.give_up(chain, victim.ok_or(Failure::Full)?)
    }

    /// Handles a failed program into a log block: moves its pages to another block, and marks it
    /// bad once they are safe there (rule 9).
    #[cold]
    fn replace_failed_log(&mut self, chain: &mut Chain, slot: usize) -> LayerResult<()> {
        let Some(log) = self.map.log_mut(slot) else { return Ok(()) };
        let (failed, used) = (log.block, log.next);
        log.in_order = false;
        log.next += 1;
        if used > 0 {
            return self.migrate(chain, slot, true);
        }
        self.base.mark_bad(chain, failed)?;
        let block = match self.base.allocate(chain, Cause::Cleaning) {
            Ok(block) => block,
            Err(failure) => {
                self.map.close_log(slot);
                return Err(failure);
            }
        };
        if let Some(log) = self.map.log_mut(slot) {
            (log.block, log.next, log.in_order) = (block, 0, !log.migrated);
        }
        Ok(())
    }
}
