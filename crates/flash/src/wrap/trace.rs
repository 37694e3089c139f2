//! A record of every operation.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_units::{BlockIndex, Context, Done, FlashGeometry, Nanos, PageAddress};

use super::{no_capability, offer_capabilities};
use crate::{Copyback, ErrorKind, Flash, FlashError, MultiPlane, Operation, PageProgram, PageRead, Result};

/// What was asked of the device. Lengths in bytes.
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

/// One operation and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashEvent {
    /// The event's number, from 0. Reads that ran in parallel are numbered in the order in which they ended.
    pub number: u64,
    /// What was asked.
    pub action: FlashAction,
    /// How many members the multi-plane command had that this event is one of; 1 for every other operation.
    pub planes: u32,
    /// When and why.
    pub context: Context,
    /// How it ended; a failure with its kind and end.
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
        if self.planes > 1 {
            write!(f, " planes={}", self.planes)?;
        }
        match self.result {
            Ok(done) => write!(f, " -> {}", done.completed.0),
            Err((kind, completed)) => write!(f, " -> {kind:?} at {}", completed.0),
        }
    }
}

/// Takes the events of a [`TraceFlash`]; any closure over [`FlashEvent`] does.
pub trait FlashTraceSink: Send {
    /// One operation has ended.
    fn record(&mut self, event: FlashEvent);
}

impl<F: FnMut(FlashEvent) + Send> FlashTraceSink for F {
    fn record(&mut self, event: FlashEvent) {
        self(event);
    }
}

/// The last events, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct FlashTraceRing {
    capacity: usize,
    events: VecDeque<FlashEvent>,
    dropped: u64,
}

impl FlashTraceRing {
    /// A ring that keeps the last `capacity` events.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// The kept events, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &FlashEvent> + ExactSizeIterator {
        self.events.iter()
    }

    /// How many older events were let go.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.dropped = 0;
    }
}

impl FlashTraceSink for FlashTraceRing {
    fn record(&mut self, event: FlashEvent) {
        if self.events.len() >= self.capacity {
            self.dropped += 1;
            if self.events.pop_front().is_none() {
                return;
            }
        }
        self.events.push_back(event);
    }
}

/// A flash device that tells a sink about every operation, successful or not.
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

/// A sink behind its lock; made by [`TraceFlash::sink`].
#[derive(Debug)]
pub struct SinkGuard<'a, S>(MutexGuard<'a, Tracer<S>>);

impl<S> std::ops::Deref for SinkGuard<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.0.sink
    }
}

impl<S> std::ops::DerefMut for SinkGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0.sink
    }
}

impl<F: Flash, S: FlashTraceSink> TraceFlash<F, S> {
    /// Traces `inner` into `sink`.
    pub fn new(inner: F, sink: S) -> Self {
        Self { inner, tracer: Mutex::new(Tracer { next_number: 0, sink }) }
    }

    /// The sink. Operations of other threads wait as long as the guard lives.
    pub fn sink(&self) -> SinkGuard<'_, S> {
        SinkGuard(self.tracer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The device below.
    pub const fn inner(&self) -> &F {
        &self.inner
    }

    /// The device below and the sink.
    pub fn into_parts(self) -> (F, S) {
        (self.inner, self.tracer.into_inner().unwrap_or_else(PoisonError::into_inner).sink)
    }

    fn record(&self, context: &Context, action: FlashAction, planes: u32, result: &Result<Done>) {
        let result = match result {
            Ok(done) => Ok(*done),
            Err(FlashError { kind, completed, .. }) => Err((*kind, *completed)),
        };
        let mut tracer = self.tracer.lock().unwrap_or_else(PoisonError::into_inner);
        let number = tracer.next_number;
        tracer.next_number += 1;
        tracer.sink.record(FlashEvent { number, action, planes, context: *context, result });
    }
}

impl<F: Flash, S: FlashTraceSink> Flash for TraceFlash<F, S> {
    #[inline]
    fn geometry(&self) -> &FlashGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Result<Done> {
        let action = FlashAction::Read {
            at,
            column: read.column,
            data_length: read.data.len() as u32,
            oob_length: read.oob.len() as u32,
        };
        let result = self.inner.read(context, at, read);
        self.record(context, action, 1, &result);
        result
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Result<Done> {
        let result = self.inner.program(context, at, program);
        self.record(context, FlashAction::program(at, &program), 1, &result);
        result
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.erase(context, block);
        self.record(context, FlashAction::Erase { block }, 1, &result);
        result
    }

    #[inline]
    fn is_bad(&self, block: BlockIndex) -> bool {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, context: &Context, block: BlockIndex) -> Result<Done> {
        let result = self.inner.mark_bad(context, block);
        self.record(context, FlashAction::MarkBad { block }, 1, &result);
        result
    }

    fn sync(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.sync(context);
        self.record(context, FlashAction::Sync, 1, &result);
        result
    }

    offer_capabilities!();
}

impl<F: Flash, S: FlashTraceSink> Copyback for TraceFlash<F, S> {
    fn can_copy(&mut self, from: BlockIndex, to: BlockIndex) -> bool {
        self.inner.copyback().is_some_and(|copyback| copyback.can_copy(from, to))
    }

    fn copy(&mut self, context: &Context, from: PageAddress, to: PageAddress, oob: Option<&[u8]>) -> Result<Done> {
        let result = match self.inner.copyback() {
            Some(copyback) => copyback.copy(context, from, to, oob),
            None => Err(no_capability(Operation::Copy, to)),
        };
        let oob_length = oob.map_or(0, |oob| oob.len() as u32);
        self.record(context, FlashAction::Copy { from, to, oob_length }, 1, &result);
        result
    }
}

impl<F: Flash, S: FlashTraceSink> MultiPlane for TraceFlash<F, S> {
    fn program_planes(&mut self, context: &Context, programs: &[(PageAddress, PageProgram<'_>)]) -> Result<Done> {
        let result = match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.program_planes(context, programs),
            None => Err(no_capability(Operation::Program, PageAddress::default())),
        };
        for (at, program) in programs {
            self.record(context, FlashAction::program(*at, program), programs.len() as u32, &result);
        }
        result
    }

    fn erase_planes(&mut self, context: &Context, blocks: &[BlockIndex]) -> Result<Done> {
        let result = match self.inner.multi_plane() {
            Some(multi_plane) => multi_plane.erase_planes(context, blocks),
            None => Err(no_capability(Operation::Erase, PageAddress::default())),
        };
        for &block in blocks {
            self.record(context, FlashAction::Erase { block }, blocks.len() as u32, &result);
        }
        result
    }
}
