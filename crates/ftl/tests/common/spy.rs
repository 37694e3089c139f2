//! A flash device that records the cause of each change.

use nandkit_flash::{Copyback, Flash, Operation, PageProgram, PageRead, Result};
use nandkit_units::{BlockIndex, Cause, Context, Done, PageAddress};

#[derive(Debug)]
pub struct Spy<F> {
    pub inner: F,
    /// The last program, copy or erase.
    pub last: Option<(Operation, Cause)>,
    /// The number of changes with each cause.
    pub counts: [u64; Cause::COUNT],
    /// How many programs and copies, which a chip counts together.
    pub programs: u64,
    /// How many erases.
    pub erases: u64,
}

impl<F: Flash> Spy<F> {
    pub fn new(inner: F) -> Self {
        Self { inner, last: None, counts: [0; Cause::COUNT], programs: 0, erases: 0 }
    }

    fn note(&mut self, operation: Operation, context: &Context) {
        self.last = Some((operation, context.counted_cause()));
        self.counts[context.counted_cause().index()] += 1;
        match operation {
            Operation::Erase => self.erases += 1,
            _ => self.programs += 1,
        }
    }
}

impl<F: Flash> Flash for Spy<F> {
    nandkit_testkit::forward_flash!();

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        self.inner.read(context, at, read)
    }
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        self.note(Operation::Program, context);
        self.inner.program(context, at, program)
    }
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        self.note(Operation::Erase, context);
        self.inner.erase(context, block)
    }
    fn copyback(&mut self) -> Option<&mut dyn Copyback> {
        if self.inner.copyback().is_some() { Some(self) } else { None }
    }
}

impl<F: Flash> Copyback for Spy<F> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }
    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        self.note(Operation::Copy, context);
        self.inner.copyback().unwrap().copy(context, from, to, oob)
    }
}
