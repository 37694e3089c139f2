//! A chain of flash operations: each starts when its predecessor has completed.
//!
//! Translation layers keep exactly one change of the flash in flight, because recovery relies on
//! it. A request that arrives while an earlier one is in progress therefore starts when that one's
//! last operation has completed ([`Chain::after`]).

use nandkit_units::{Cause, Context, Done, Nanos};

/// The operations of one request, in sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    // A reference, not a copy: copying would load at once what the caller has just stored piece by
    // piece, which no processor forwards.
    context: &'a Context,
    completed: Nanos,
    busy: Nanos,
    /// The largest number of corrected bits among the reads.
    corrected_bits: u16,
    overriding: Option<Cause>,
}

impl<'a> Chain<'a> {
    /// Starts a request.
    #[inline]
    pub fn new(context: &'a Context) -> Self {
        Self { context, completed: context.issued, busy: Nanos::ZERO, corrected_bits: 0, overriding: None }
    }

    /// Starts a request that changes the flash, at `last` at the earliest: the completion of the
    /// previous change.
    #[inline]
    pub fn after(last: Nanos, context: &'a Context) -> Self {
        let mut chain = Self::new(context);
        chain.completed = chain.completed.max(last);
        chain
    }

    /// Starts a chain whose operations all count under `cause`.
    pub fn all_for(context: &'a Context, cause: Cause) -> Self {
        Self { overriding: Some(cause), ..Self::new(context) }
    }

    /// The context of the next operation: with the host's cause, or with the layer's own.
    #[inline]
    pub fn next(&self, cause: Option<Cause>) -> Context {
        let device_cause = self.overriding.or(cause).or(self.context.device_cause);
        Context { issued: self.completed, device_cause, ..*self.context }
    }

    /// Continues after a program, copy or erase; these correct no bits.
    #[inline]
    pub fn advance(&mut self, done: Done) {
        self.completed = self.completed.max(done.completed);
        self.busy += done.busy;
    }

    /// Continues after a read.
    #[inline]
    pub fn advance_read(&mut self, done: Done) {
        self.advance(done);
        self.corrected_bits = self.corrected_bits.max(done.corrected_bits);
    }

    /// Continues after a failed operation.
    pub fn advance_to(&mut self, instant: Nanos) {
        self.completed = self.completed.max(instant);
    }

    /// The time the request took so far, and its corrected bits.
    #[inline]
    pub const fn done(&self) -> Done {
        Done { completed: self.completed, busy: self.busy, corrected_bits: self.corrected_bits }
    }
}
