//! Programs and erases: the path of every simulated page.

use nandkit_flash::{ErrorKind, FlashError, Operation, PageProgram, Result};
use nandkit_units::random::hash;
use nandkit_units::{BlockIndex, Context, Done, Nanos, PageAddress};

use crate::blocks::{BlockState, flag};
use crate::chip::{NandChip, misuse};
use crate::die_queues::Work;
use crate::flaws::Flaw;
use crate::store::{SlotPage, Store};

const DRAW_HALF: u64 = 0x4A1F_0001;

impl<S: Store> NandChip<S> {
    #[inline(always)]
    pub(crate) fn schedule_write(
        &mut self,
        context: &Context,
        (work, at): (Work, PageAddress),
        times: (u64, u64),
    ) -> Done {
        let state = self.read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let unit = state.schedule.unit(at.block);
        state.schedule.write(&self.times, unit, context, (work, at), times)
    }

    /// Checks a program; on an error nothing has changed.
    pub(crate) fn admit_program(&mut self, at: PageAddress, program: &PageProgram<'_>) -> Result<BlockState> {
        let state = self.admit_sizes(at, program.column, program.data.len(), program.oob.len())?;
        if self.rules.is_nor() {
            self.check_bits(at, &state, program)?;
        }
        Ok(state)
    }

    #[inline(always)]
    fn admit_sizes(&mut self, at: PageAddress, column: u32, length: usize, oob_length: usize) -> Result<BlockState> {
        if let Err(rule) = self.rules.check_shape(at, column, length, oob_length) {
            return Err(misuse(Operation::Program, at, rule));
        }
        self.admit_target(Operation::Program, at, column, length as u32)
    }

    /// Checks the target of any operation that programs a page.
    #[inline(always)]
    pub(crate) fn admit_target(
        &mut self,
        operation: Operation,
        at: PageAddress,
        column: u32,
        length: u32,
    ) -> Result<BlockState> {
        let state = self.state_for_change(at.block);
        if state.has(flag::BAD) {
            return Err(FlashError::new(ErrorKind::BadBlock, operation, at, "the block is marked bad"));
        }
        match self.rules.check_page(&state, at.page, column, length) {
            Ok(()) => Ok(state),
            Err(rule) => Err(misuse(operation, at, rule)),
        }
    }

    #[inline(always)]
    pub(crate) fn program_page(
        &mut self,
        context: &Context,
        at: PageAddress,
        program: &PageProgram<'_>,
    ) -> Result<Done> {
        match self.take_plain(at, program) {
            Some(slot) => Ok(self.program_plain(context, SlotPage { slot, page: at.page }, at.block, program)),
            // By value: passed by reference, both would be stored to memory on the fast path too.
            None => self.program_checked(*context, at, *program).map_err(|error| *error),
        }
    }

    /// Fast path: returns the slot of the page's block if the program breaks no rule, cannot fail,
    /// and changes only the page and the block's next page, which is recorded at once. That holds
    /// for a whole page that is next in a sound, partly programmed block, which nearly every
    /// program is.
    #[inline(always)]
    fn take_plain(&mut self, at: PageAddress, program: &PageProgram<'_>) -> Option<usize> {
        let geometry = &self.geometry;
        let whole = program.column == 0
            && program.data.len() == geometry.page_size as usize
            && program.oob.len() <= geometry.oob_size as usize;
        if whole && at.page < geometry.pages_per_block && !self.scripted { self.blocks.take_plain(at) } else { None }
    }

    /// Executes a program for which [`NandChip::take_plain`] returned the slot: like
    /// [`NandChip::program_checked`], without the cases that cannot occur.
    #[inline(always)]
    fn program_plain(
        &mut self,
        context: &Context,
        place: SlotPage,
        block: BlockIndex,
        program: &PageProgram<'_>,
    ) -> Done {
        let length = self.geometry.page_size;
        let transfer = self.times.transfer(length as usize + program.oob.len());
        let array = self.times.program(place.page);
        let done = self.schedule_write(context, (Work::Program, block.page(place.page)), (transfer, array));
        self.counters.programs += 1;
        self.rules.note_program(place.slot, place.page, 0, length);
        self.store.program(place, program);
        done
    }

    /// Executes any program. The error is boxed so that the result shares no memory with that of
    /// the fast path, which then stays in registers.
    #[inline(never)]
    fn program_checked(
        &mut self,
        context: Context,
        at: PageAddress,
        program: PageProgram<'_>,
    ) -> std::result::Result<Done, Box<FlashError>> {
        let (column, length, oob_length) = (program.column, program.data.len(), program.oob.len());
        let state = self.admit_program(at, &program)?;
        let transfer = self.times.transfer(length + oob_length);
        let array = self.times.program_part(at.page, length);
        let done = self.schedule_write(&context, (Work::Program, at), (transfer, array));
        self.counters.programs += 1;
        let place = self.land(&context, at, &state, column, length as u32);
        self.store.program(place, &program);
        self.settle(Operation::Program, at, &state, (done.completed, done.busy))?;
        Ok(done)
    }

    /// Stores a checked program.
    pub(crate) fn put(&mut self, context: &Context, at: PageAddress, state: &BlockState, program: &PageProgram<'_>) {
        let place = self.land(context, at, state, program.column, program.data.len() as u32);
        self.store.program(place, program);
    }

    /// Records that a page is programmed, and returns its position in the store.
    #[inline(always)]
    pub(crate) fn land(
        &mut self,
        context: &Context,
        at: PageAddress,
        state: &BlockState,
        column: u32,
        length: u32,
    ) -> SlotPage {
        let slot = self.slot_of(at.block, state);
        self.rules.note_program(slot, at.page, column, length);
        if at.page >= state.next_page {
            self.blocks.set_next_page(at.block, at.page + 1);
        }
        if state.next_page == 0
            && let Some(instant) = self.programmed_at.get_mut(at.block.index())
        {
            *instant = context.issued.0;
        }
        SlotPage { slot, page: at.page }
    }

    /// Determines the outcome of a stored program: it may have failed, or its block may have been
    /// weak.
    ///
    /// Takes end and busy time separately: a whole [`Done`] passed to the slow path would be in
    /// memory on the fast path too, stored field by field and loaded at once, which no processor
    /// forwards.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        operation: Operation,
        at: PageAddress,
        state: &BlockState,
        (completed, busy): (Nanos, Nanos),
    ) -> Result<()> {
        if state.has(flag::FAILING | flag::FAILS_THIS_CYCLE | flag::WEAK) || self.scripted {
            self.settle_slowly(operation, at, state, (completed, busy))
        } else {
            Ok(())
        }
    }

    #[cold]
    fn settle_slowly(
        &mut self,
        operation: Operation,
        at: PageAddress,
        state: &BlockState,
        (completed, busy): (Nanos, Nanos),
    ) -> Result<()> {
        let number = self.counters.programs + self.counters.copies;
        let scripted = self.scripted && self.script.takes_program(number, at);
        let drawn = state.has(flag::FAILS_THIS_CYCLE) && self.failures.failing_page(at.block, state.erases) == at.page;
        if state.has(flag::FAILING) || scripted || drawn {
            self.flaw(at, Flaw::Garbage);
            self.blocks.set(at.block, flag::FAILING);
            self.counters.program_failures += 1;
            let error = FlashError::new(ErrorKind::ProgramFailed, operation, at, "the part reports a failed program");
            return Err(error.after(Done { completed, busy, corrected_bits: 0 }));
        }
        if state.has(flag::WEAK) {
            self.flaw(at, Flaw::Unreadable);
        }
        Ok(())
    }

    pub(crate) fn flaw(&mut self, at: PageAddress, flaw: Flaw) {
        self.flaws.set(at, flaw);
        self.blocks.set(at.block, flag::FLAWED);
    }

    /// Checks an erase; on an error nothing has changed.
    #[inline]
    pub(crate) fn admit_erase(&mut self, block: BlockIndex) -> Result<BlockState> {
        if block.0 >= self.geometry.blocks {
            return Err(misuse(Operation::Erase, block.page(0), "the block is outside the device"));
        }
        let state = self.state_for_change(block);
        if state.has(flag::BAD) {
            let what = "the block is marked bad";
            return Err(FlashError::at_block(ErrorKind::BadBlock, Operation::Erase, block, what));
        }
        Ok(state)
    }

    #[inline]
    pub(crate) fn erase_block(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let state = self.admit_erase(block)?;
        let done = self.schedule_write(context, (Work::Erase, block.page(0)), (0, self.times.erase));
        self.finish_erase(block, &state, done)
    }

    /// Completes a checked erase, or fails it.
    #[inline]
    pub(crate) fn finish_erase(&mut self, block: BlockIndex, state: &BlockState, done: Done) -> Result<Done> {
        self.counters.erases += 1;
        let scripted = self.scripted && self.script.takes_erase(self.counters.erases, block);
        if scripted || state.has(flag::FAILING) || self.failures.erase_fails(block, state.erases.saturating_add(1)) {
            return Err(self.fail_erase(block, state, done));
        }
        self.clear(block, state);
        Ok(done)
    }

    #[cold]
    fn fail_erase(&mut self, block: BlockIndex, state: &BlockState, done: Done) -> FlashError {
        self.half_erase(block, state);
        self.blocks.set(block, flag::FAILING);
        self.counters.erase_failures += 1;
        let what = "the part reports a failed erase";
        FlashError::at_block(ErrorKind::EraseFailed, Operation::Erase, block, what).after(done)
    }

    /// Makes a block erased.
    #[inline]
    pub(crate) fn clear(&mut self, block: BlockIndex, state: &BlockState) {
        if state.next_page != 0
            && let Some(slot) = state.slot()
        {
            self.store.erase(slot);
            self.rules.note_erase(slot);
        }
        self.age(block);
        if state.has(flag::FLAWED) {
            self.flaws.mend(block);
        }
        self.blocks.clear(block, flag::WEAK | flag::FLAWED | flag::FAILS_THIS_CYCLE);
        if self.failures.cycle_fails(block, state.erases.saturating_add(1)) {
            self.blocks.set(block, flag::FAILS_THIS_CYCLE);
        }
    }

    /// Counts an erase, complete or not.
    #[inline]
    fn age(&mut self, block: BlockIndex) {
        self.blocks.count_erase(block);
        if let Some(reads) = self.read_state_mut().reads_since_erase.get_mut(block.index()) {
            *reads = 0;
        }
    }

    /// Simulates an interrupted erase: depending on the seed, each page is erased, unchanged, or
    /// garbage, and nothing programmed before the next complete erase can be read back.
    pub(crate) fn half_erase(&mut self, block: BlockIndex, state: &BlockState) {
        let mut next_page = 0;
        if let Some(slot) = state.slot() {
            for page in 0..state.next_page {
                let at = block.page(page);
                match hash(self.seed ^ DRAW_HALF, u64::from(block.0) << 32 | u64::from(page), u64::from(state.erases))
                    % 3
                {
                    0 => {
                        self.store.erase_page(SlotPage { slot, page });
                        self.rules.note_page_erase(slot, page);
                        self.flaws.remove(at);
                        continue;
                    }
                    1 => self.flaw(at, Flaw::Garbage),
                    _ => {}
                }
                next_page = page + 1;
            }
        }
        self.age(block);
        self.blocks.set_next_page(block, next_page);
        self.blocks.set(block, flag::WEAK);
    }
}
