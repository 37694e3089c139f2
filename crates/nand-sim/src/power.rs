//! Power cuts: the state left by an interrupted program, copy or erase.

use nandkit_flash::{Interrupt, PageProgram, Result, TornErase, TornPage};
use nandkit_units::random::hash;
use nandkit_units::{BlockIndex, Content, Context, PageAddress, Payload, ReadInto};

use crate::blocks::{BlockState, flag};
use crate::chip::NandChip;
use crate::flaws::Flaw;
use crate::store::{SlotPage, Store};

const DRAW_CUT: u64 = 0xC07_0001;

impl<S: Store> NandChip<S> {
    /// The number of bytes programmed when the power fails: at least one, and not all if there are
    /// two.
    fn cut(&self, at: PageAddress, erases: u32, bytes: usize) -> usize {
        let draw = hash(self.seed ^ DRAW_CUT, u64::from(at.block.0) << 32 | u64::from(at.page), u64::from(erases));
        1 + (draw % (bytes.max(2) as u64 - 1)) as usize
    }

    fn tear(&mut self, at: PageAddress, state: &BlockState, torn: TornPage) {
        if torn == TornPage::Garbage {
            self.flaw(at, Flaw::Garbage);
        } else if state.has(flag::WEAK) {
            self.flaw(at, Flaw::Unreadable);
        }
    }

    /// Programs the beginning of a page: data first, then OOB. The rules count the whole page as
    /// programmed.
    fn put_prefix(&mut self, context: &Context, at: PageAddress, state: &BlockState, program: &PageProgram<'_>) {
        let length = program.data.len();
        let cut = self.cut(at, state.erases, length + program.oob.len());
        let place = self.land(context, at, state, program.column, length as u32);
        let data = program.data.part(0, cut.min(length)).unwrap_or(Payload::Bytes(&[]));
        let oob = program.oob.get(..cut.saturating_sub(length)).unwrap_or(&[]);
        self.store.program(place, &PageProgram { column: program.column, data, oob });
    }

    /// The source of a copy as a program; `None` if the store does not know its bytes.
    fn source(&self, from: PageAddress, source: &BlockState, oob: Option<&[u8]>) -> Option<(Content, Vec<u8>)> {
        let mut content = Content::new();
        let mut spare = vec![0xFF; self.geometry.oob_size as usize];
        match source.slot() {
            Some(slot) if from.page < source.next_page => {
                let into = &mut ReadInto::Content { content: &mut content, length: self.geometry.page_size };
                self.store.read(SlotPage { slot, page: from.page }, 0, into, &mut spare).ok()?;
            }
            _ => content.set_bytes(self.geometry.page_size as usize).fill(0xFF),
        }
        for (byte, new) in spare.iter_mut().zip(oob.unwrap_or(&[])) {
            *byte = *new;
        }
        Some((content, spare))
    }
}

impl<S: Store> Interrupt for NandChip<S> {
    fn interrupt_program(
        &mut self,
        context: &Context,
        at: PageAddress,
        program: PageProgram<'_>,
        torn: TornPage,
    ) -> Result<()> {
        let state = self.admit_program(at, &program)?;
        match torn {
            TornPage::Nothing => return Ok(()),
            TornPage::Garbage if self.rules.is_nor() => {
                let half = self.half_cleared(at, &state, program.data);
                self.put(context, at, &state, &PageProgram { data: Payload::Bytes(&half), ..program });
                return Ok(());
            }
            TornPage::Whole | TornPage::Garbage => self.put(context, at, &state, &program),
            TornPage::Prefix => self.put_prefix(context, at, &state, &program),
        }
        self.tear(at, &state, torn);
        Ok(())
    }

    /// If the store does not know the source's bytes (a shadow's tag of bytes), a prefix becomes
    /// garbage; neither could be read anyway.
    fn interrupt_copy(
        &mut self,
        context: &Context,
        from: PageAddress,
        to: PageAddress,
        oob: Option<&[u8]>,
        torn: TornPage,
    ) -> Result<()> {
        let (source, target) = self.admit_copy(from, to, oob)?;
        let prefix = if torn == TornPage::Prefix { self.source(from, &source, oob) } else { None };
        match (torn, prefix) {
            (TornPage::Nothing, _) => return Ok(()),
            (TornPage::Prefix, Some((content, spare))) => {
                self.put_prefix(context, to, &target, &PageProgram::new(content.payload(), &spare));
                self.tear(to, &target, TornPage::Prefix);
            }
            (TornPage::Prefix | TornPage::Garbage, _) => {
                self.put_copy(context, (from, &source), (to, &target), oob);
                self.tear(to, &target, TornPage::Garbage);
            }
            (TornPage::Whole, _) => {
                self.put_copy(context, (from, &source), (to, &target), oob);
                self.tear(to, &target, TornPage::Whole);
            }
        }
        Ok(())
    }

    fn interrupt_erase(&mut self, _context: &Context, block: BlockIndex, torn: TornErase) -> Result<()> {
        let state = self.admit_erase(block)?;
        match torn {
            TornErase::Nothing => {}
            TornErase::Whole => self.clear(block, &state),
            TornErase::Half => self.half_erase(block, &state),
            TornErase::Weak => {
                self.clear(block, &state);
                self.blocks.set(block, flag::WEAK);
            }
        }
        Ok(())
    }

    fn power_on(&mut self) {
        self.read_state_mut().schedule.reset();
    }
}
