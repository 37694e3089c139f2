//! Copyback: copying a page within the chip.

use nandkit_flash::{CopyRun, Copyback, ErrorKind, FlashError, Operation, PageProgram, Result, copy_each};
use nandkit_units::{BlockIndex, Context, Done, PageAddress, Payload};

use crate::blocks::{BlockState, flag};
use crate::chip::{NandChip, misuse};
use crate::flaws::Flaw;
use crate::store::{SlotPage, Store};

/// The state of the page register after reading the source.
enum Register {
    Sound,
    Damaged(Flaw),
    Uncorrectable,
}

impl<S: Store> NandChip<S> {
    /// Checks a copy and returns the states of source and target; on an error nothing has changed.
    #[inline]
    pub(crate) fn admit_copy(
        &mut self,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
    ) -> Result<(BlockState, BlockState)> {
        if !self.geometry.contains(from) || !self.geometry.contains(to) {
            return Err(misuse(Operation::Copy, to, "source or target is outside the device"));
        }
        if !self.rules.can_copy(from.block, to.block) {
            return Err(misuse(Operation::Copy, to, "copyback does not reach from the source's block to the target's"));
        }
        if oob.is_some_and(|oob| oob.len() > self.geometry.oob_size as usize) {
            return Err(misuse(Operation::Copy, to, "the OOB bytes are more than the page has"));
        }
        let target = self.admit_target(Operation::Copy, to, 0, self.geometry.page_size)?;
        if to.page < target.next_page && self.is_programmed(to) {
            return Err(misuse(Operation::Copy, to, "the target of a copy must be erased"));
        }
        Ok((self.blocks.get(from.block), target))
    }

    /// Stores a checked copy.
    #[inline]
    pub(crate) fn put_copy(
        &mut self,
        context: &Context,
        (from, source): (PageAddress, &BlockState),
        (to, target): (PageAddress, &BlockState),
        oob: Option<&[u8]>,
    ) {
        let place = self.land(context, to, target, 0, self.geometry.page_size);
        match source.slot() {
            Some(slot) if from.page < source.next_page => {
                self.store.copy(SlotPage { slot, page: from.page }, place, oob);
            }
            _ => {
                let program = PageProgram::new(Payload::Bytes(&[]), oob.unwrap_or(&[]));
                self.store.program(place, &program);
            }
        }
    }

    #[inline]
    fn register(&mut self, context: &Context, from: PageAddress, source: &BlockState) -> Register {
        if source.has(flag::FLAWED) || self.bit_errors.enabled() {
            self.register_slowly(context, from, source)
        } else {
            Register::Sound
        }
    }

    #[cold]
    fn register_slowly(&mut self, context: &Context, from: PageAddress, source: &BlockState) -> Register {
        let block_reads = self.read_state_mut().reads_since_erase.get_mut(from.block.index()).map_or(0, |reads| {
            *reads = reads.saturating_add(1);
            *reads
        });
        let corrects = self.spec.rules.copyback_corrects;
        if let Some(flaw @ (Flaw::Garbage | Flaw::Unreadable)) = self.flaws.get(from) {
            return if corrects { Register::Uncorrectable } else { Register::Damaged(flaw) };
        }
        if from.page >= source.next_page {
            return Register::Sound;
        }
        let age = self.age_of(context, from, source, block_reads);
        match self.bit_errors.worst(from, &age) {
            0 => Register::Sound,
            errors if corrects && self.bit_errors.exceeds(errors) => Register::Uncorrectable,
            _ if corrects => Register::Sound,
            errors => Register::Damaged(Flaw::Inherited(errors.min(u32::from(u16::MAX)) as u16)),
        }
    }
}

/// The common state of a run of copies in which only a source can fail.
struct PlainRun {
    slot: usize,
    transfer: u64,
    oob_length: usize,
}

impl<S: Store> NandChip<S> {
    /// Checks that no copy of the run can break a rule at its target, or fail there.
    #[inline]
    fn plain_run(&mut self, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> Option<PlainRun> {
        let oob_length = oob.len().checked_div(from.len())?;
        let room = self.geometry.pages_per_block.checked_sub(to.page)? as usize;
        if to.block.0 >= self.geometry.blocks
            || from.len() > room
            || oob_length > self.geometry.oob_size as usize
            || self.scripted
            || self.bit_errors.enabled()
        {
            return None;
        }
        let target = self.state_for_change(to.block);
        let doubtful = flag::BAD | flag::FAILING | flag::FAILS_THIS_CYCLE | flag::WEAK;
        if target.has(doubtful) || to.page != target.next_page {
            return None;
        }
        // An empty run must not give its target a slot.
        self.plain_source(from.get(..1)?, to.block)?;
        let slot = self.slot_of(to.block, &target);
        Some(PlainRun { slot, transfer: self.times.transfer(oob_length), oob_length })
    }

    /// The slot of a wholly sound source block, and the number of leading pages of the run in it.
    #[inline]
    fn plain_source(&self, from: &[PageAddress], to: BlockIndex) -> Option<(usize, usize)> {
        let block = from.first()?.block;
        if block.0 >= self.geometry.blocks || block == to || !self.rules.can_copy(block, to) {
            return None;
        }
        let source = self.blocks.get(block);
        let pages = from.iter().take_while(|at| at.block == block && at.page < source.next_page).count();
        if source.has(flag::FLAWED) || pages == 0 {
            return None;
        }
        Some((source.slot()?, pages))
    }

    /// Copies pages of one sound block. Equivalent to [`Copyback::copy`] for each, without the
    /// cases that cannot occur.
    #[inline]
    fn copy_plain(
        &mut self,
        context: &Context,
        run: &PlainRun,
        (slot, from): (usize, &[PageAddress]),
        to: PageAddress,
        oob: &[u8],
    ) -> Done {
        let state = self.read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(block) = from.first().map(|at| at.block) else { return Done::immediately(context) };
        let units = (state.schedule.unit(block), state.schedule.unit(to.block));
        let done = state.schedule.copies(&self.times, units, context, run.transfer, (from, to));
        self.counters.copies += from.len() as u64;
        self.store.copy_run(slot, from, SlotPage { slot: run.slot, page: to.page }, oob);
        let end = to.page + from.len() as u32;
        self.rules.note_programs(run.slot, to.page..end, self.geometry.page_size);
        self.blocks.set_next_page(to.block, end);
        done
    }
}

impl<S: Store> Copyback for NandChip<S> {
    #[inline]
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.rules.can_copy(from, to)
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let (source, target) = self.admit_copy(from, to, oob)?;
        let transfer = self.times.transfer(oob.map_or(0, <[u8]>::len));
        let array = self.times.copy(from.page, to.page);
        let state = self.read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let units = (state.schedule.unit(from.block), state.schedule.unit(to.block));
        let done = state.schedule.copy(&self.times, units, context, to, (transfer, array));
        let register = self.register(context, from, &source);
        if let Register::Uncorrectable = register {
            self.read_state_mut().counters.uncorrectable += 1;
            let what = "more bit errors in the source than the part's ECC corrects";
            let error = FlashError::new(ErrorKind::Uncorrectable, Operation::Copy, from, what);
            return Err(error.after(done));
        }
        self.counters.copies += 1;
        self.put_copy(context, (from, &source), (to, &target), oob);
        if let Register::Damaged(flaw) = register {
            self.flaw(to, flaw);
        }
        self.settle(Operation::Copy, to, &target, (done.completed, done.busy))?;
        Ok(done)
    }

    fn copy_run(&mut self, context: &Context, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> CopyRun {
        let Some(plain) = self.plain_run(from, to, oob) else { return copy_each(self, context, from, to, oob) };
        let mut run = CopyRun { copied: 0, done: Done::immediately(context), failed: None };
        let (mut from, mut oob, mut to) = (from, oob, to);
        while !from.is_empty() {
            let context = Context { issued: run.done.completed, ..*context };
            let Some((slot, pages)) = self.plain_source(from, to.block) else {
                let rest = copy_each(self, &context, from, to, oob);
                return CopyRun {
                    copied: run.copied + rest.copied,
                    done: run.done.and(rest.done),
                    failed: rest.failed,
                };
            };
            let (part, rest) = from.split_at(pages);
            let (images, rest_oob) = oob.split_at(pages * plain.oob_length);
            run.done = run.done.and(self.copy_plain(&context, &plain, (slot, part), to, images));
            run.copied += pages;
            (from, oob, to.page) = (rest, rest_oob, to.page + pages as u32);
        }
        run
    }
}
