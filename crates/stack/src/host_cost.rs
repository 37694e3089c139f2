//! The host's processor time for each request to a block device, in file system, block layer and
//! driver, one request at a time (docs/design/11-host-model.md).

use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_block::{BlockDevice, BlockGeometry, Extent, Placement, Remap, RemapLimits, Result, Trim};
use nandkit_units::{
    Content, Context, Done, Lba, Nanos, Pacing, Payload, ReadInto, StatisticValue, Statistics, Ticket,
};

use crate::device_handle::DeviceHandle;

/// A device whose host has one processor for its requests; each request occupies it for a fixed
/// time before it is sent.
pub struct HostCost {
    below: DeviceHandle,
    request: Nanos,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The instant at which the processor is done with the requests so far.
    free: Nanos,
    requests: u64,
    time: Nanos,
    /// Total time that requests waited for the processor.
    wait: Nanos,
}

impl HostCost {
    /// A host that takes so long for each request.
    pub fn new(below: DeviceHandle, request: Nanos) -> Self {
        Self { below, request, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context of the request when it reaches the device.
    fn out(&self, context: &Context) -> Context {
        let mut state = self.lock();
        let start = context.issued.max(state.free);
        state.wait += start.since(context.issued);
        state.free = start + self.request;
        state.requests += 1;
        state.time += self.request;
        context.issued_at(state.free)
    }
}

impl Statistics for HostCost {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let State { requests, time, wait, .. } = *self.lock();
        sink("host_requests", StatisticValue::Count(requests));
        sink("host_request_time_ns", StatisticValue::Count(time.0));
        sink("host_request_wait_ns", StatisticValue::Count(wait.0));
    }
}

impl BlockDevice for HostCost {
    fn geometry(&self) -> &BlockGeometry {
        self.below.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.below.read(&self.out(context), at, into)
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let context = self.out(context);
        self.below.write(&context, at, data)
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        self.below.read_parts(&self.out(context), at, unit, into)
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let context = self.out(context);
        self.below.write_parts(&context, at, parts)
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let context = self.out(context);
        self.below.write_durable(&context, at, data)
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let context = self.out(context);
        self.below.flush(&context)
    }

    fn extent(&self, at: Lba, most: u64) -> Extent {
        self.below.extent(at, most)
    }

    fn placement(&self, at: Lba) -> Option<Placement> {
        self.below.placement(at)
    }

    fn expect_write(&mut self, at: Lba) {
        self.below.expect_write(at);
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        if BlockDevice::trim(&mut self.below).is_some() { Some(self) } else { None }
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.below.pacing().is_some() { Some(self) } else { None }
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        if self.below.remap().is_some() { Some(self) } else { None }
    }
}

impl Trim for HostCost {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let context = self.out(context);
        Trim::trim(&mut self.below, &context, at, sectors)
    }
}

impl Pacing for HostCost {
    fn quiet_until(&mut self, instant: Nanos) {
        Pacing::quiet_until(&mut self.below, instant);
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        Pacing::end_of(&mut self.below, ticket, told)
    }
}

impl Remap for HostCost {
    fn limits(&self) -> RemapLimits {
        Remap::limits(&self.below)
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let context = self.out(context);
        Remap::share(&mut self.below, &context, pairs)
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let context = self.out(context);
        Remap::remap_move(&mut self.below, &context, pairs)
    }
}
