//! Records requests to a block device, and makes the states that cuts leave.

use std::sync::Arc;

use nandkit_block::wrap::{CutDevice, DeviceCutPlan};
use nandkit_block::{BlockDevice, BlockGeometry, Extent, Result, Trim};
use nandkit_units::{Context, Done, Lba, Payload, ReadInto};

use super::Log;

/// The action of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as the methods of a block device")]
pub enum Action {
    Write { at: Lba, bytes: Arc<[u8]>, durable: bool },
    Trim { at: Lba, sectors: u64 },
    Flush,
}

/// A request that changed something, or made it durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When and why it was made.
    pub context: Context,
    /// The request's action.
    pub action: Action,
}

impl Request {
    fn apply(&self, device: &mut impl BlockDevice) -> Result<Done> {
        match &self.action {
            Action::Write { at, bytes, durable: true } => {
                device.write_durable(&self.context, *at, Payload::Bytes(bytes))
            }
            Action::Write { at, bytes, durable: false } => device.write(&self.context, *at, Payload::Bytes(bytes)),
            Action::Trim { at, sectors } => match device.trim() {
                Some(trim) => trim.trim(&self.context, *at, *sectors),
                None => Ok(Done::immediately(&self.context)),
            },
            Action::Flush => device.flush(&self.context),
        }
    }
}

/// A device that records each write, trim and flush that succeeded. It offers no remapping.
#[derive(Clone, Debug)]
pub struct RecordingDevice<D> {
    inner: D,
    requests: Log<Request>,
}

impl<D: BlockDevice> RecordingDevice<D> {
    /// Records the requests to `inner` from now on.
    pub fn new(inner: D) -> (Self, Log<Request>) {
        let requests = Log::default();
        (Self { inner, requests: requests.clone() }, requests)
    }

    /// The device below.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn note(&self, context: &Context, action: Action) {
        self.requests.note(Request { context: *context, action });
    }

    fn put(&mut self, context: &Context, at: Lba, data: Payload<'_>, durable: bool) -> Result<Done> {
        let done = match durable {
            true => self.inner.write_durable(context, at, data)?,
            false => self.inner.write(context, at, data)?,
        };
        // Behind the device's look at the length, which may be any where content is described.
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        self.note(context, Action::Write { at, bytes: bytes.into(), durable });
        Ok(done)
    }
}

impl<D: BlockDevice> BlockDevice for RecordingDevice<D> {
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.inner.read(context, at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.put(context, at, data, false)
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.put(context, at, data, true)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let done = self.inner.flush(context)?;
        self.note(context, Action::Flush);
        Ok(done)
    }

    fn extent(&self, at: Lba, sectors: u64) -> Extent {
        self.inner.extent(at, sectors)
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        match self.inner.trim() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl<D: BlockDevice> Trim for RecordingDevice<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let done = match self.inner.trim() {
            Some(trim) => trim.trim(context, at, sectors)?,
            None => Done::immediately(context),
        };
        self.note(context, Action::Trim { at, sectors });
        Ok(done)
    }
}

/// Replays the requests of a run one after the other, and makes the device that a cut at each
/// leaves.
#[derive(Clone, Debug)]
pub struct RequestReplay<D> {
    requests: Vec<Request>,
    /// The device as it was at the last flush before the request `next`.
    flushed: D,
    first: usize,
    next: usize,
}

impl<D: BlockDevice + Clone> RequestReplay<D> {
    /// The replay of a run that began on `start`.
    pub const fn new(start: D, requests: Vec<Request>) -> Self {
        Self { requests, flushed: start, first: 0, next: 0 }
    }

    /// The next request, and its number from 1 on, as plans of cuts count.
    pub fn peek(&self) -> Option<(u64, &Request)> {
        Some((self.next as u64 + 1, self.requests.get(self.next)?))
    }

    /// The device that a cut at the next request leaves. Of the plan its moment, survival and seed
    /// count. Errors: those of the device below.
    ///
    /// # Panics
    /// Where all requests were replayed.
    pub fn cut(&self, plan: DeviceCutPlan) -> Result<D> {
        let at = (self.next - self.first + 1) as u64;
        let plan = DeviceCutPlan::at(at, plan.moment, plan.survival, plan.seed);
        let mut device = CutDevice::new(self.flushed.clone(), plan);
        for request in &self.requests[self.first..=self.next] {
            // The last one fails with the power, unless it is cut behind its end.
            let done = request.apply(&mut device);
            if !device.is_off() {
                done?;
            }
        }
        device.into_inner()
    }

    /// Goes on to the request after the next one. Errors: those of the device below.
    ///
    /// # Panics
    /// Where all requests were replayed.
    pub fn advance(&mut self) -> Result<()> {
        if self.requests[self.next].action == Action::Flush {
            for request in &self.requests[self.first..=self.next] {
                request.apply(&mut self.flushed)?;
            }
            self.first = self.next + 1;
        }
        self.next += 1;
        Ok(())
    }
}
