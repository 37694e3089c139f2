//! Power cuts at an instant: where dies work in parallel, a cut tears one operation in each of them, and what was issued first need not be what completed first.
//!
//! [`TimelineFlash`] notes every change of a run with its times; [`Timeline::until`] makes the same changes on a fresh device as far as they had come at an instant.

use nandkit_flash::{Flash, Interrupt, PageProgram, PageRead, Result, TornErase, TornPage};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress, Payload};

/// A change that was made.
#[derive(Clone, Debug)]
enum Change {
    Program { at: PageAddress, column: u32, data: Vec<u8>, oob: Vec<u8> },
    Erase { block: BlockIndex },
    MarkBad { block: BlockIndex },
}

#[derive(Clone, Debug)]
struct Noted {
    change: Change,
    begun: Nanos,
    completed: Nanos,
}

/// The changes of a run, in the order in which they were issued.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    changes: Vec<Noted>,
}

impl Timeline {
    /// Every instant at which something else is true: just before a change begins, while it is under way, and when it has completed; each once, in order.
    pub fn instants(&self) -> Vec<Nanos> {
        let middle = |noted: &Noted| Nanos((noted.begun.0 + noted.completed.0) / 2);
        let mut all: Vec<Nanos> =
            self.changes.iter().flat_map(|noted| [noted.begun, middle(noted), noted.completed]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Makes on `fresh` what had been done at an instant: what was under way is torn in the state that `torn` names for it, by its place in the run. Returns how many were torn.
    ///
    /// Errors: those of the changes; none where `fresh` is what the run began with.
    pub fn until<F: Interrupt>(
        &self,
        fresh: &mut F,
        instant: Nanos,
        mut torn: impl FnMut(usize) -> (TornPage, TornErase),
    ) -> Result<u32> {
        let context = Context::default();
        let mut count = 0;
        for (place, noted) in self.changes.iter().enumerate().filter(|(_, noted)| noted.begun < instant) {
            let is_whole = noted.completed <= instant;
            count += u32::from(!is_whole);
            let (page, erase) = torn(place);
            match &noted.change {
                Change::Program { at, column, data, oob } => {
                    let program = PageProgram { column: *column, data: Payload::Bytes(data), oob };
                    match is_whole {
                        true => fresh.program(&context, *at, program).map(|_| ())?,
                        false => fresh.interrupt_program(&context, *at, program, page)?,
                    }
                }
                Change::Erase { block } if is_whole => fresh.erase(&context, *block).map(|_| ())?,
                Change::Erase { block } => fresh.interrupt_erase(&context, *block, erase)?,
                Change::MarkBad { block } => fresh.mark_bad(&context, *block).map(|_| ())?,
            }
        }
        fresh.power_on();
        Ok(count)
    }
}

/// A flash device that notes its changes. It offers no capability, so that every change is a program, an erase or a mark.
#[derive(Clone, Debug)]
pub struct TimelineFlash<F> {
    inner: F,
    timeline: Timeline,
}

impl<F> TimelineFlash<F> {
    /// Notes what is done to `inner` from now on.
    pub fn new(inner: F) -> Self {
        Self { inner, timeline: Timeline::default() }
    }

    /// What was noted so far.
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The device below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    fn note(&mut self, change: Change, done: &Done) {
        let begun = Nanos(done.completed.0.saturating_sub(done.busy.0));
        self.timeline.changes.push(Noted { change, begun, completed: done.completed });
    }
}

impl<F: Flash> Flash for TimelineFlash<F> {
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let mut data = vec![0; program.data.len()];
        program.data.copy_to(&mut data);
        let (column, oob) = (program.column, program.oob.to_vec());
        let done = self.inner.program(context, at, program)?;
        self.note(Change::Program { at, column, data, oob }, &done);
        Ok(done)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let done = self.inner.erase(context, block)?;
        self.note(Change::Erase { block }, &done);
        Ok(done)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let done = self.inner.mark_bad(context, block)?;
        self.note(Change::MarkBad { block }, &done);
        Ok(done)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.inner.sync(context)
    }
}
