//! Records changes of a flash device, and makes the states that cuts leave.

use nandkit_flash::wrap::CutMoment;
use nandkit_flash::{ErrorKind, Flash, Interrupt, Operation, PageProgram, PageRead, Result, TornErase, TornPage};
use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress, Payload};

use super::Log;

/// A change of the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as the methods of a flash device")]
pub enum Change {
    Program { at: PageAddress, column: u32, data: Vec<u8>, oob: Vec<u8> },
    Erase { block: BlockIndex },
    MarkBad { block: BlockIndex },
}

impl Change {
    /// Which kind of operation it was.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Program { .. } => Operation::Program,
            Self::Erase { .. } => Operation::Erase,
            Self::MarkBad { .. } => Operation::MarkBad,
        }
    }
}

/// A requested change; also one that failed, which may have changed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedChange {
    /// When and why it was asked for.
    pub context: Context,
    /// The change.
    pub change: Change,
    /// How it failed.
    pub failed: Option<ErrorKind>,
    begun: Nanos,
    completed: Nanos,
}

impl NotedChange {
    /// Makes the change, and checks that its result is the recorded one.
    fn apply(&self, device: &mut impl Flash) {
        let done = match &self.change {
            Change::Program { at, column, data, oob } => {
                let program = PageProgram { column: *column, data: Payload::Bytes(data), oob };
                device.program(&self.context, *at, program)
            }
            Change::Erase { block } => device.erase(&self.context, *block),
            Change::MarkBad { block } => device.mark_bad(&self.context, *block),
        };
        assert_eq!(done.err().map(|error| error.kind), self.failed, "another outcome than in the run: {self:?}");
    }

    /// Leaves the change torn. A mark is made or not; a torn one counts as made.
    fn tear(&self, device: &mut impl Interrupt, page: TornPage, erase: TornErase) -> Result<()> {
        match &self.change {
            Change::Program { at, column, data, oob } => {
                let program = PageProgram { column: *column, data: Payload::Bytes(data), oob };
                device.interrupt_program(&self.context, *at, program, page)
            }
            Change::Erase { block } => device.interrupt_erase(&self.context, *block, erase),
            Change::MarkBad { block } => device.mark_bad(&self.context, *block).map(|_| ()),
        }
    }
}

/// A flash device that records its changes. It offers no capability, so that every change is a
/// program, an erase or a mark.
#[derive(Clone, Debug)]
pub struct RecordingFlash<F> {
    inner: F,
    changes: Log<NotedChange>,
}

impl<F: Flash> RecordingFlash<F> {
    /// Records the changes of `inner` from now on.
    pub fn new(inner: F) -> (Self, Log<NotedChange>) {
        let changes = Log::default();
        (Self { inner, changes: changes.clone() }, changes)
    }

    /// The device below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    fn note(&self, context: &Context, change: Change, done: Result<Done>) -> Result<Done> {
        let (failed, completed, busy) = match &done {
            Ok(done) => (None, done.completed, done.busy),
            Err(error) => (Some(error.kind), error.completed, error.busy),
        };
        let begun = Nanos(completed.0.saturating_sub(busy.0));
        let noted = NotedChange { context: *context, change, failed, begun, completed };
        self.changes.note(noted);
        done
    }
}

impl<F: Flash> Flash for RecordingFlash<F> {
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        // Data longer than a page change nothing, and described content may have any length.
        let fits = program.data.len() <= self.geometry().page_size as usize;
        let mut data = vec![0; if fits { program.data.len() } else { 0 }];
        if fits {
            program.data.copy_to(&mut data);
        }
        let (column, oob) = (program.column, program.oob.to_vec());
        let done = self.inner.program(context, at, program);
        self.note(context, Change::Program { at, column, data, oob }, done)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let done = self.inner.erase(context, block);
        self.note(context, Change::Erase { block }, done)
    }

    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let done = self.inner.mark_bad(context, block);
        self.note(context, Change::MarkBad { block }, done)
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        self.inner.sync(context)
    }
}

/// Replays the changes of a run one after the other, and makes the device that a cut at each
/// leaves.
///
/// The device on which the run began must be deterministic: the same changes have the same results,
/// failures included.
#[derive(Clone, Debug)]
pub struct ChangeReplay<F> {
    changes: Vec<NotedChange>,
    /// The device as it is before the change `next`.
    device: F,
    next: usize,
}

impl<F: Interrupt + Clone> ChangeReplay<F> {
    /// The replay of a run that began on `start`.
    pub const fn new(start: F, changes: Vec<NotedChange>) -> Self {
        Self { changes, device: start, next: 0 }
    }

    /// The next change, and its number from 1 on, as plans of cuts count.
    pub fn peek(&self) -> Option<(u64, &NotedChange)> {
        Some((self.next as u64 + 1, self.changes.get(self.next)?))
    }

    /// The device that a cut at the next change leaves. Errors: those of the device below.
    ///
    /// # Panics
    /// Where all changes were replayed, and where the device does something else than in the run.
    pub fn cut(&self, moment: CutMoment) -> Result<F> {
        let (mut device, noted) = (self.device.clone(), &self.changes[self.next]);
        match moment {
            CutMoment::Before => {}
            CutMoment::Inside { page, erase } => noted.tear(&mut device, page, erase)?,
            CutMoment::After => noted.apply(&mut device),
        }
        device.power_on();
        Ok(device)
    }

    /// Makes the next change, and goes on to the one after it.
    ///
    /// # Panics
    /// As [`ChangeReplay::cut`].
    pub fn advance(&mut self) {
        self.changes[self.next].apply(&mut self.device);
        self.next += 1;
    }

    fn succeeded(&self) -> impl Iterator<Item = &NotedChange> {
        self.changes.iter().filter(|noted| noted.failed.is_none())
    }

    /// Every instant at which something else is true: just before a change begins, while it is
    /// under way, and when it has completed; each once, in order. Where dies work in parallel, a
    /// cut tears one operation in each of them, and what was issued first need not be what
    /// completed first.
    pub fn instants(&self) -> Vec<Nanos> {
        let middle = |noted: &NotedChange| Nanos((noted.begun.0 + noted.completed.0) / 2);
        let mut all: Vec<Nanos> =
            self.succeeded().flat_map(|noted| [noted.begun, middle(noted), noted.completed]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What a cut at an instant leaves: what was under way is torn in the state that `torn` names
    /// for it, by its place in the run. Also tells how many were torn. Failed changes are left out:
    /// what was torn before them would make the device count them otherwise, so it must be one that
    /// never fails. Errors: those of the device below.
    ///
    /// # Panics
    /// As [`ChangeReplay::cut`].
    pub fn cut_at(&self, instant: Nanos, mut torn: impl FnMut(usize) -> (TornPage, TornErase)) -> Result<(F, u32)> {
        let (mut device, mut count) = (self.device.clone(), 0);
        let begun = |noted: &NotedChange| noted.failed.is_none() && noted.begun < instant;
        for (place, noted) in self.changes.iter().enumerate().skip(self.next).filter(|(_, noted)| begun(noted)) {
            if noted.completed <= instant {
                noted.apply(&mut device);
            } else {
                let (page, erase) = torn(place);
                noted.tear(&mut device, page, erase)?;
                count += 1;
            }
        }
        device.power_on();
        Ok((device, count))
    }
}
