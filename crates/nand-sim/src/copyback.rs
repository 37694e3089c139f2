//! Copyback: moving a page inside the chip.

use nandkit_flash::{Copyback, ErrorKind, FlashError, Operation, PageProgram, Result};
use nandkit_units::{BlockIndex, Context, Done, PageAddress, Payload};

use crate::blocks::{BlockState, flag};
use crate::chip::{NandChip, misuse};
use crate::flaws::Flaw;
use crate::store::{Place, Store};

/// How well the source could be read into the page register.
enum Register {
    Sound,
    Damaged(Flaw),
    Uncorrectable,
}

impl<S: Store> NandChip<S> {
    /// Whether the copy may happen at all; nothing has changed if not. The states of source and target.
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

    /// Stores a copy that was admitted.
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
                self.store.copy(Place { slot, page: from.page }, place, oob);
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
        let block_reads = self.shared_mut().reads_since_erase.get_mut(from.block.index()).map_or(0, |reads| {
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

impl<S: Store> Copyback for NandChip<S> {
    #[inline]
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.rules.can_copy(from, to)
    }

    #[inline]
    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let (source, target) = self.admit_copy(from, to, oob)?;
        let transfer = self.times.transfer(oob.map_or(0, <[u8]>::len));
        let array = self.times.copy(from.page, to.page);
        let shared = self.shared.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let units = (shared.schedule.unit(from.block), shared.schedule.unit(to.block));
        let done = shared.schedule.copy(&self.times, units, context, transfer, array);
        let register = self.register(context, from, &source);
        if let Register::Uncorrectable = register {
            self.shared_mut().counters.uncorrectable += 1;
            let what = "more bit errors in the source than the part's ECC corrects";
            let error = FlashError::new(ErrorKind::Uncorrectable, Operation::Copy, from, what);
            return Err(error.completed_at(done.completed));
        }
        self.counters.copies += 1;
        self.put_copy(context, (from, &source), (to, &target), oob);
        if let Register::Damaged(flaw) = register {
            self.flaw(to, flaw);
        }
        self.settle(Operation::Copy, to, &target, done)
    }
}
