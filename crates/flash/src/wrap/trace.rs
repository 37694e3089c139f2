//! A record of every operation.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use nandkit_units::{BlockIndex, Context, Done, Nanos, PageAddress};

use super::{forward_rest, no_capability};
use crate::{Copyback, ErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result};

/// A request to the device. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the operations of the contract")]
pub enum FlashAction {
    Read { at: PageAddress, column: u32, data_length: u32, oob_length: u32 },
    Program { at: PageAddress, column: u32, data_length: u32, oob_length: u32 },
    Erase { block: BlockIndex },
    MarkBad { block: BlockIndex },
    Sync,
    Copy { from: PageAddress, to: PageAddress, oob_length: u32 },
}

impl FlashAction {
    fn program(at: PageAddress, program: &PageProgram<'_>) -> Self {
        Self::Program {
            at,
            column: program.column,
            data_length: program.data.len() as u32,
            oob_length: program.oob.len() as u32,
        }
    }

    /// The operation's kind.
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Read { .. } => Operation::Read,
            Self::Program { .. } => Operation::Program,
            Self::Erase { .. } => Operation::Erase,
            Self::MarkBad { .. } => Operation::MarkBad,
            Self::Sync => Operation::Sync,
            Self::Copy { .. } => Operation::Copy,
        }
    }
}

/// An operation and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashEvent {
    /// The event's number, from 0. Parallel reads are numbered in the order in which they ended.
    pub number: u64,
    /// The request.
    pub action: FlashAction,
    /// Time and cause of the request.
    pub context: Context,
    /// The result; a failure with its kind and end.
    pub result: std::result::Result<Done, (ErrorKind, Nanos)>,
}

impl fmt::Display for FlashEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} t={} {} ", self.number, self.context.issued.0, self.context.counted_cause().name())?;
        match self.action {
            FlashAction::Read { at, column, data_length, oob_length } => {
                write!(f, "read {}.{}+{column} {data_length}+{oob_length}", at.block.0, at.page)?;
            }
            FlashAction::Program { at, column, data_length, oob_length } => {
                write!(f, "program {}.{}+{column} {data_length}+{oob_length}", at.block.0, at.page)?;
            }
            FlashAction::Erase { block } => write!(f, "erase {}", block.0)?,
            FlashAction::MarkBad { block } => write!(f, "mark-bad {}", block.0)?,
            FlashAction::Sync => write!(f, "sync")?,
            FlashAction::Copy { from, to, oob_length } => {
                write!(f, "copy {}.{} to {}.{} oob {oob_length}", from.block.0, from.page, to.block.0, to.page)?;
            }
        }
        match self.result {
            Ok(done) => write!(f, " -> {}", done.completed.0),
            Err((kind, completed)) => write!(f, " -> {kind:?} at {}", completed.0),
        }
    }
}

/// A flash device that reports every operation to a sink, successful or not.
#[derive(Debug)]
pub struct TraceFlash<F, S> {
    inner: F,
    tracer: Mutex<Tracer<S>>,
}

#[derive(Debug)]
struct Tracer<S> {
    next_number: u64,
    sink: S,
}

impl<F: Flash, S: FnMut(FlashEvent) + Send> TraceFlash<F, S> {
    /// Traces `inner` into `sink`.
    pub fn new(inner: F, sink: S) -> Self {
        Self { inner, tracer: Mutex::new(Tracer { next_number: 0, sink }) }
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below; what is asked of it here is not traced.
    pub const fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// The device below and the sink.
    pub fn into_parts(self) -> (F, S) {
        (self.inner, self.tracer.into_inner().unwrap_or_else(PoisonError::into_inner).sink)
    }

    fn record(&self, context: &Context, action: FlashAction, result: &Result<Done>) {
        let result = match result {
            Ok(done) => Ok(*done),
            Err(FlashError { kind, completed, .. }) => Err((*kind, *completed)),
        };
        let mut tracer = self.tracer.lock().unwrap_or_else(PoisonError::into_inner);
        let number = tracer.next_number;
        tracer.next_number += 1;
        (tracer.sink)(FlashEvent { number, action, context: *context, result });
    }
}

impl<F: Flash, S: FnMut(FlashEvent) + Send> Flash for TraceFlash<F, S> {
    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        let action = FlashAction::Read {
            at,
            column: read.column,
            data_length: read.data.len() as u32,
            oob_length: read.oob.len() as u32,
        };
        let result = self.inner.read(context, at, read);
        self.record(context, action, &result);
        result
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let result = self.inner.program(context, at, program);
        self.record(context, FlashAction::program(at, &program), &result);
        result
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.erase(context, block);
        self.record(context, FlashAction::Erase { block }, &result);
        result
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.mark_bad(context, block);
        self.record(context, FlashAction::MarkBad { block }, &result);
        result
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.sync(context);
        self.record(context, FlashAction::Sync, &result);
        result
    }

    forward_rest!();
}

impl<F: Flash, S: FnMut(FlashEvent) + Send> Copyback for TraceFlash<F, S> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let result = match self.inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        };
        let oob_length = oob.map_or(0, |oob| oob.len() as u32);
        self.record(context, FlashAction::Copy { from, to, oob_length }, &result);
        result
    }
}
