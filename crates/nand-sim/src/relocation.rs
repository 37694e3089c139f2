//! Relocation: reads and programs of many pages, on a fast path for sound blocks.

use nandkit_flash::{Move, PageRun, Relocation};
use nandkit_units::{BlockIndex, Context, Done, PageAddress, ReadInto};

use crate::blocks::{BlockTable, flag};
use crate::chip::NandChip;
use crate::die_queues::Work;
use crate::rules::Rules;
use crate::store::{SlotPage, Store};
use crate::timing::{Schedule, Times, Unit};

/// A block whose only flag is the verified good factory state, and the common state of its pages.
#[derive(Clone, Copy)]
struct Sound {
    block: BlockIndex,
    slot: usize,
    next_page: u32,
    unit: Unit,
}

impl Sound {
    /// The sound block of a page: the previous one, as in nearly all cases, or a lookup. `None` if
    /// anything can go wrong with it, or it was never programmed.
    #[inline(always)]
    fn of(at: PageAddress, before: Option<Self>, blocks: &BlockTable, schedule: &Schedule) -> Option<Self> {
        match before {
            Some(before) if before.block == at.block => Some(before),
            _ => {
                let state = blocks.get(at.block);
                let sound = state.flags == flag::SEEN;
                let slot = state.slot().filter(|_| sound)?;
                Some(Self { block: at.block, slot, next_page: state.next_page, unit: schedule.unit(at.block) })
            }
        }
    }
}

impl<S: Store> NandChip<S> {
    /// Whether sound pages can neither be damaged nor fail, and an OOB of this length fits.
    #[inline]
    fn relocates(&self, oob_length: usize) -> bool {
        !self.scripted && !self.bit_errors.enabled() && oob_length <= self.geometry.oob_size as usize
    }

    /// The target's position in the store; its next page is recorded at once. `None`, with nothing
    /// changed, if the program could break a rule or fail.
    #[inline(always)]
    fn take_target(&mut self, to: PageAddress) -> Option<usize> {
        if to.page >= self.geometry.pages_per_block {
            return None;
        }
        if let Some(slot) = self.blocks.take_plain(to) {
            return Some(slot);
        }
        self.take_first_page(to)
    }

    /// Takes the first page of a sound block as a target.
    #[inline(never)]
    fn take_first_page(&mut self, to: PageAddress) -> Option<usize> {
        if to.block.0 >= self.geometry.blocks || to.page != 0 {
            return None;
        }
        let state = self.state_for_change(to.block);
        if state.flags != flag::SEEN || state.next_page != 0 {
            return None;
        }
        let slot = self.slot_of(to.block, &state);
        self.blocks.set_next_page(to.block, 1);
        Some(slot)
    }
}

/// Applies the program of one page whose positions are known.
#[inline(always)]
fn program(
    (schedule, times, rules): (&mut Schedule, &Times, &mut Rules),
    context: &Context,
    (unit, slot, to): (Unit, usize, PageAddress),
    (transfer, page_size): (u64, u32),
) -> Done {
    rules.note_program(slot, to.page, 0, page_size);
    schedule.write(times, unit, context, (Work::Program, to), (transfer, times.program(to.page)))
}

impl<S: Store> Relocation for NandChip<S> {
    fn keeps_described(&mut self) -> bool {
        S::KEEPS_DESCRIBED
    }

    fn fetch(&mut self, context: &Context, from: &[PageAddress], oob: &mut [u8]) -> PageRun {
        let mut run = PageRun::begin(context);
        let length = oob.len().checked_div(from.len()).unwrap_or(0);
        if !self.relocates(length) {
            return run;
        }
        let page_size = self.geometry.page_size;
        let transfer = self.times.transfer(page_size as usize + length);
        let Self { read_state, times, blocks, store, .. } = self;
        let read_state = read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut block = None;
        for (index, &at) in from.iter().enumerate() {
            block = Sound::of(at, block, blocks, &read_state.schedule);
            let Some(Sound { slot, next_page, unit, .. }) = block else { break };
            let Some(into) = oob.get_mut(index * length..(index + 1) * length) else { break };
            let nothing = &mut ReadInto::Nothing { length: page_size };
            if at.page >= next_page || store.read(SlotPage { slot, page: at.page }, 0, nothing, into).is_err() {
                break;
            }
            run.add(Ok(read_state.schedule.read(times, unit, context, at, (times.read(at.page), transfer))));
        }
        read_state.counters.reads += run.pages as u64;
        read_state.read_number += run.pages as u64;
        run
    }

    fn place(&mut self, context: &Context, moves: &[Move], parts: u32, oob: &[u8]) -> PageRun {
        let run = PageRun::begin(context);
        let targets = moves.len().checked_div(parts as usize).unwrap_or(0);
        let length = oob.len().checked_div(targets).unwrap_or(0);
        if targets == 0 || !self.relocates(length) || !self.geometry.page_size.is_multiple_of(parts) {
            return run;
        }
        let run = if parts == 1 {
            self.place_pages(context, moves, (oob, length), run)
        } else {
            self.place_parts(context, moves, parts as usize, (oob, length), run)
        };
        self.counters.programs += run.pages as u64;
        run
    }
}

impl<S: Store> NandChip<S> {
    /// Relocates whole pages.
    fn place_pages(
        &mut self,
        context: &Context,
        moves: &[Move],
        (oob, length): (&[u8], usize),
        mut run: PageRun,
    ) -> PageRun {
        let (page_size, oob_size) = (self.geometry.page_size, self.geometry.oob_size as usize);
        let transfer = self.times.transfer(page_size as usize + length);
        let (mut source, mut target) = (None, None);
        for (index, &Move { from, to, .. }) in moves.iter().enumerate() {
            let schedule = &self.read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).schedule;
            source = Sound::of(from, source, &self.blocks, schedule);
            let Some(read) = source else { break };
            let Some(image) = oob.get(index * length..(index + 1) * length) else { break };
            if from.page >= read.next_page || from.block == to.block {
                break;
            }
            let Some(slot) = self.take_target(to) else { break };
            let Self { read_state, times, store, rules, .. } = self;
            let schedule = &mut read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).schedule;
            let unit = match target {
                Some((block, unit)) if block == to.block => unit,
                _ => schedule.unit(to.block),
            };
            target = Some((to.block, unit));
            let done = program((schedule, times, rules), context, (unit, slot, to), (transfer, page_size));
            store.place(
                SlotPage { slot: read.slot, page: from.page },
                SlotPage { slot, page: to.page },
                image,
                oob_size,
            );
            run.add(Ok(done));
        }
        run
    }

    /// Relocates pages composed of parts of several others.
    fn place_parts(
        &mut self,
        context: &Context,
        moves: &[Move],
        parts: usize,
        (oob, length): (&[u8], usize),
        mut run: PageRun,
    ) -> PageRun {
        let (page_size, oob_size) = (self.geometry.page_size, self.geometry.oob_size as usize);
        let transfer = self.times.transfer(page_size as usize + length);
        let (mut source, mut sources) = (None, Vec::with_capacity(parts));
        for (group, image) in moves.chunks_exact(parts).zip(oob.chunks(length.max(1))) {
            let Some(&Move { to, .. }) = group.first() else { break };
            sources.clear();
            for &Move { from, part, to: its } in group {
                let schedule = &self.read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).schedule;
                source = Sound::of(from, source, &self.blocks, schedule);
                let sound = source.filter(|read| from.page < read.next_page && from.block != to.block);
                let Some(read) = sound.filter(|_| its == to && (part as usize) < parts) else { return run };
                sources.push((SlotPage { slot: read.slot, page: from.page }, part));
            }
            let Some(slot) = self.take_target(to) else { break };
            let Self { read_state, times, store, rules, .. } = self;
            let schedule = &mut read_state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).schedule;
            let unit = schedule.unit(to.block);
            let done = program((schedule, times, rules), context, (unit, slot, to), (transfer, page_size));
            store.place_parts(&sources, SlotPage { slot, page: to.page }, image, (page_size, oob_size));
            run.add(Ok(done));
        }
        run
    }
}
