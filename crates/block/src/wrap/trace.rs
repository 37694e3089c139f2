//! A record of every request.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use nandkit_units::{Content, Context, Done, Lba, Payload, Pieces, ReadInto};

use super::{forward_extents, no_capability, offer_capabilities, remap_limits};
use crate::{BlockDevice, BlockGeometry, ErrorKind, Operation, Remap, RemapLimits, Result, Trim};

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the operations of the contract")]
pub enum DeviceAction {
    Read { at: Lba, bytes: u64 },
    Write { at: Lba, bytes: u64 },
    WriteDurable { at: Lba, bytes: u64 },
    Flush,
    Trim { at: Lba, sectors: u64 },
    Share { pairs: usize },
    Move { pairs: usize },
}

/// A request and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// The event's number, from 0.
    pub number: u64,
    /// The request.
    pub action: DeviceAction,
    /// Time and cause of the request.
    pub context: Context,
    /// The result.
    pub result: std::result::Result<Done, ErrorKind>,
}

impl fmt::Display for DeviceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} t={} {} ", self.number, self.context.issued.0, self.context.cause.name())?;
        match self.action {
            DeviceAction::Read { at, bytes } => write!(f, "read {} {bytes}", at.0)?,
            DeviceAction::Write { at, bytes } => write!(f, "write {} {bytes}", at.0)?,
            DeviceAction::WriteDurable { at, bytes } => write!(f, "write durably {} {bytes}", at.0)?,
            DeviceAction::Flush => write!(f, "flush")?,
            DeviceAction::Trim { at, sectors } => write!(f, "trim {} {sectors} sectors", at.0)?,
            DeviceAction::Share { pairs } => write!(f, "share {pairs} pairs")?,
            DeviceAction::Move { pairs } => write!(f, "move {pairs} pairs")?,
        }
        match self.result {
            Ok(done) => write!(f, " -> {}", done.completed.0),
            Err(kind) => write!(f, " -> {kind:?}"),
        }
    }
}

#[derive(Debug)]
struct Tracer<S> {
    next_number: u64,
    sink: S,
}

/// A block device that reports every request to a sink, successful or not.
#[derive(Debug)]
pub struct TraceDevice<D, S> {
    inner: D,
    tracer: Mutex<Tracer<S>>,
    remap_limits: RemapLimits,
}

impl<D: BlockDevice, S: FnMut(DeviceEvent) + Send> TraceDevice<D, S> {
    /// Traces `inner` into `sink`.
    pub fn new(mut inner: D, sink: S) -> Self {
        let remap_limits = remap_limits(&mut inner);
        Self { inner, tracer: Mutex::new(Tracer { next_number: 0, sink }), remap_limits }
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below and the sink.
    pub fn into_parts(self) -> (D, S) {
        (self.inner, self.tracer.into_inner().unwrap_or_else(PoisonError::into_inner).sink)
    }

    fn record(&self, context: &Context, action: DeviceAction, result: &Result<Done>) {
        let result = result.as_ref().copied().map_err(|error| error.kind);
        let mut tracer = self.tracer.lock().unwrap_or_else(PoisonError::into_inner);
        let number = tracer.next_number;
        tracer.next_number += 1;
        (tracer.sink)(DeviceEvent { number, action, context: *context, result });
    }
}

impl<D: BlockDevice, S: FnMut(DeviceEvent) + Send> BlockDevice for TraceDevice<D, S> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        let action = DeviceAction::Read { at, bytes: into.len() as u64 };
        let result = self.inner.read(context, at, into);
        self.record(context, action, &result);
        result
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let result = self.inner.write(context, at, data);
        self.record(context, DeviceAction::Write { at, bytes: data.len() as u64 }, &result);
        result
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let action = DeviceAction::Read { at, bytes: u64::from(unit).saturating_mul(into.len() as u64) };
        let result = self.inner.read_parts(context, at, unit, into);
        self.record(context, action, &result);
        result
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let result = self.inner.write_parts(context, at, parts);
        self.record(context, DeviceAction::Write { at, bytes: Pieces::total(parts) as u64 }, &result);
        result
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let result = self.inner.write_durable(context, at, data);
        self.record(context, DeviceAction::WriteDurable { at, bytes: data.len() as u64 }, &result);
        result
    }

    fn expect_write(&mut self, at: Lba) {
        self.inner.expect_write(at);
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let result = self.inner.flush(context);
        self.record(context, DeviceAction::Flush, &result);
        result
    }

    forward_extents!();

    offer_capabilities!();
}

impl<D: BlockDevice, S: FnMut(DeviceEvent) + Send> Trim for TraceDevice<D, S> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let result = match self.inner.trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => Err(no_capability(Operation::Trim)),
        };
        self.record(context, DeviceAction::Trim { at, sectors }, &result);
        result
    }
}

impl<D: BlockDevice, S: FnMut(DeviceEvent) + Send> Remap for TraceDevice<D, S> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let result = match self.inner.remap() {
            Some(remap) => remap.share(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.record(context, DeviceAction::Share { pairs: pairs.len() }, &result);
        result
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let result = match self.inner.remap() {
            Some(remap) => remap.remap_move(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.record(context, DeviceAction::Move { pairs: pairs.len() }, &result);
        result
    }
}
