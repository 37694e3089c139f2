//! A chain of flash operations, each issued when the one before it has completed.
//!
//! Translation layers keep exactly one change of the flash in flight: recovery relies on it. So a
//! request that the host issues while an earlier one is still being worked on begins when that
//! one's last operation has completed ([`Chain::after`]).

use nandkit_units::{Cause, Context, Done, Nanos};

/// The operations of one request, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    // Not a copy: it would load at once what the caller has just stored piece by piece, which no
    // processor forwards.
    context: &'a Context,
    completed: Nanos,
    busy: Nanos,
    /// Of the reads.
    corrected_bits: u16,
    overriding: Option<Cause>,
}

impl<'a> Chain<'a> {
    /// The beginning of a request.
    #[inline]
    pub fn new(context: &'a Context) -> Self {
        Self { context, completed: context.issued, busy: Nanos::ZERO, corrected_bits: 0, overriding: None }
    }

    /// The beginning of a request that changes the flash: not before `last`, when the change before
    /// it has completed.
    #[inline]
    pub fn after(last: Nanos, context: &'a Context) -> Self {
        let mut chain = Self::new(context);
        chain.completed = chain.completed.max(last);
        chain
    }

    /// The same with every operation counted under `cause`.
    pub fn all_for(context: &'a Context, cause: Cause) -> Self {
        Self { overriding: Some(cause), ..Self::new(context) }
    }

    /// The context of the next operation: as the host gave it, or as the layer's own work.
    #[inline]
    pub fn next(&self, cause: Option<Cause>) -> Context {
        let device_cause = self.overriding.or(cause).or(self.context.device_cause);
        Context { issued: self.completed, device_cause, ..*self.context }
    }

    /// A program, a copy or an erase has ended: those correct no bits.
    #[inline]
    pub fn advance(&mut self, done: Done) {
        self.completed = self.completed.max(done.completed);
        self.busy += done.busy;
    }

    /// A read has ended.
    #[inline]
    pub fn advance_read(&mut self, done: Done) {
        self.advance(done);
        self.corrected_bits = self.corrected_bits.max(done.corrected_bits);
    }

    /// A failed operation has ended.
    pub fn advance_to(&mut self, instant: Nanos) {
        self.completed = self.completed.max(instant);
    }

    /// What the request took so far.
    #[inline]
    pub const fn done(&self) -> Done {
        Done { completed: self.completed, busy: self.busy, corrected_bits: self.corrected_bits }
    }
}
