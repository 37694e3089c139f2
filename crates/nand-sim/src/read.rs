//! Reads: time, content, and the fault overlay.

use nandkit_flash::{ErrorKind, Flash, FlashError, Operation, PageRead, Result};
use nandkit_units::{Context, Done, PageAddress, ReadInto};

use crate::bit_errors::{Age, Range};
use crate::blocks::{BlockState, flag};
use crate::chip::{NandChip, misuse};
use crate::flaws::{Flaw, Garbage};
use crate::store::{NoContent, SlotPage, Store};

/// The device's counts when the read began.
#[derive(Clone, Copy)]
struct Counted {
    device_reads: u64,
    block_reads: u32,
}

impl<S: Store> NandChip<S> {
    #[inline]
    pub(crate) fn read_page(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Result<Done> {
        let geometry = &self.geometry;
        let length = read.data.len();
        if !geometry.contains(at) {
            return Err(misuse(Operation::Read, at, "the page is outside the device"));
        }
        if u64::from(read.column) + length as u64 > u64::from(geometry.page_size) {
            return Err(misuse(Operation::Read, at, "the data reach past the end of the page"));
        }
        if read.oob.len() > geometry.oob_size as usize {
            return Err(misuse(Operation::Read, at, "the OOB bytes are more than the page has"));
        }
        let (done, counted) = self.time_read(context, at, length + read.oob.len());
        let state = self.blocks.get(at.block);
        match state.slot() {
            Some(slot) if at.page < state.next_page => {
                let place = SlotPage { slot, page: at.page };
                if let Err(NoContent) = self.store.read(place, read.column, &mut read.data, read.oob) {
                    let what = "the store keeps no bytes of this page; read a description or nothing";
                    let error = FlashError::new(ErrorKind::NoContent, Operation::Read, at, what);
                    return Err(error.after(done));
                }
            }
            _ => {
                read.data.deliver_fill(0xFF);
                read.oob.fill(0xFF);
            }
        }
        if state.flags & !flag::SEEN == 0 && state.has(flag::SEEN) && !self.bit_errors.enabled() {
            return Ok(done);
        }
        self.lay_faults_over(context, at, &state, read, done, counted)
    }

    #[inline]
    fn time_read(&self, context: &Context, at: PageAddress, bytes: usize) -> (Done, Counted) {
        let mut state = self.lock();
        let state = &mut *state;
        let unit = state.schedule.unit(at.block);
        let (array, transfer) = (self.times.read(at.page), self.times.transfer(bytes));
        let done = state.schedule.read(&self.times, unit, context, at, (array, transfer));
        state.counters.reads += 1;
        state.read_number += 1;
        let block_reads = state.reads_since_erase.get_mut(at.block.index()).map_or(0, |reads| {
            *reads = reads.saturating_add(1);
            *reads
        });
        (done, Counted { device_reads: state.read_number, block_reads })
    }

    /// The age of a page at a read, including errors carried over by copyback.
    pub(crate) fn age_of(&self, context: &Context, at: PageAddress, state: &BlockState, block_reads: u32) -> Age {
        let inherited = match state.has(flag::FLAWED).then(|| self.flaws.get(at)).flatten() {
            Some(Flaw::Inherited(bits)) => bits,
            _ => 0,
        };
        let programmed_at = self.programmed_at.get(at.block.index()).copied().unwrap_or(context.issued.0);
        let retained = context.issued.since(nandkit_units::Nanos(programmed_at));
        Age { erases: state.erases, retained, reads: block_reads, inherited }
    }

    #[cold]
    fn lay_faults_over(
        &self,
        context: &Context,
        at: PageAddress,
        state: &BlockState,
        mut read: PageRead<'_>,
        mut done: Done,
        counted: Counted,
    ) -> Result<Done> {
        let range = Range { column: read.column, length: read.data.len() as u32, oob: read.oob.len() as u32 };
        let flaw = if state.has(flag::FLAWED) { self.flaws.get(at) } else { None };
        let mut uncorrectable = false;
        if let Some(Flaw::Garbage | Flaw::Unreadable) = flaw {
            let garbage = Garbage::new(self.seed, at, state.erases);
            uncorrectable = flaw == Some(Flaw::Unreadable) || garbage.fails(counted.device_reads);
            if let Some(bytes) = delivered(&mut read.data) {
                garbage.spoil(u64::from(read.column), bytes);
            }
            garbage.spoil(u64::from(self.geometry.page_size), read.oob);
        } else if at.page < state.next_page && (self.bit_errors.enabled() || flaw.is_some()) {
            let age = self.age_of(context, at, state, counted.block_reads);
            let verdict = self.bit_errors.check(at, &age, range, &mut [], &mut []);
            if verdict.damaged {
                let bytes = delivered(&mut read.data).unwrap_or(&mut []);
                self.bit_errors.check(at, &age, range, bytes, read.oob);
            }
            done.corrected_bits = verdict.corrected;
            uncorrectable = verdict.uncorrectable;
        }
        if self.is_bad(at.block) && self.bad_blocks.is_marked_page(at.block, at.page) {
            self.bad_blocks.mark(read.oob);
        }
        let mut state = self.lock();
        if uncorrectable {
            state.counters.uncorrectable += 1;
            let what = "more bit errors in a code word than the part's ECC corrects";
            let error = FlashError::new(ErrorKind::Uncorrectable, Operation::Read, at, what);
            return Err(error.after(done));
        }
        if done.corrected_bits > 0 {
            state.counters.corrected += 1;
        }
        Ok(done)
    }
}

/// The bytes that a read delivered, for modification; a description becomes bytes.
fn delivered<'a>(into: &'a mut ReadInto<'_>) -> Option<&'a mut [u8]> {
    match into {
        ReadInto::Bytes(bytes) => Some(bytes),
        ReadInto::Content { content, .. } => Some(content.to_bytes()),
        ReadInto::Nothing { .. } => None,
    }
}
