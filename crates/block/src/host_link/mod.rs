//! A drive's host interface in time: a command queue, a controller that accepts commands one by
//! one, and a link that carries one transfer at a time.
//!
//! The cost of requests by size follows from this model and the flash below: small requests at
//! queue depth 1 each pay for the command and one die's time, deep queues keep all dies busy until
//! the controller or the link saturates, and the translation layer spreads large requests over
//! dies.
//!
//! ```
//! use nandkit_block::{BlockDevice, HostLink, HostLinkSpec, RamDevice};
//! use nandkit_units::{Context, Lba, Nanos, Payload};
//!
//! let spec = HostLinkSpec { command_ns: 5_000, write_latency_ns: 10_000, link_ps_per_byte: 2_000, ..HostLinkSpec::default() };
//! let mut drive = HostLink::new(&spec, RamDevice::with_sectors(4096, 1 << 20)?)?;
//! let done = drive.write(&Context::default(), Lba(7), Payload::Bytes(&[1; 4096]))?;
//! // The command, 4,096 bytes at 2 ns each, the latency; memory takes no time.
//! assert_eq!(done.completed, Nanos(5_000 + 8_192 + 10_000));
//! # Ok::<(), nandkit_block::BlockError>(())
//! ```
//!
//! # What is left out
//!
//! Read-ahead in the drive: a sequential read is no cheaper than a random one. A read's bytes go to
//! the host after the last of them has left the flash, and a write's bytes go to the flash after
//! the last of them has arrived. Also: frames, polling, multiple queues, and flushes that wait for
//! an empty queue.

mod line;
mod pacing;
mod spec;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nandkit_units::{
    Content, Context, Done, Lba, Nanos, Pacing, Payload, Pieces, ReadInto, StatisticValue, Statistics, Ticket,
};

pub use spec::HostLinkSpec;

use self::line::Line;
use crate::wrap::{forward_extents, no_capability, remap_limits};
use crate::{BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, Remap, RemapLimits, Result, Trim};

/// Bytes of an address pair in a remap command.
const PAIR_BYTES: u64 = 16;

/// The activity of an interface so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLinkCounters {
    /// Commands of any kind.
    pub commands: u64,
    /// Commands that found the queue full.
    pub held_back: u64,
    /// Total time these commands waited in the host.
    pub queue_wait: Nanos,
    /// Time in which the controller accepted commands.
    pub command_time: Nanos,
    /// Time in which bytes were on the link, both directions added.
    pub link_time: Nanos,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Completion times of queued commands without a ticket, earliest on top.
    queue: BinaryHeap<Reverse<Nanos>>,
    /// For queued commands with a ticket: the currently known completion time, the ticket, and the
    /// completion time first reported.
    ticketed: BinaryHeap<Reverse<(Nanos, Ticket, Nanos)>>,
    /// The latest end that the device below reported, for each ticket.
    below: Vec<Nanos>,
    controller: Line,
    /// Transfers to the drive, and without full duplex those in both directions.
    inward: Line,
    outward: Line,
    counters: HostLinkCounters,
}

impl State {
    /// The time at which the controller has accepted a command.
    fn take_command(&mut self, spec: &HostLinkSpec, issued: Nanos) -> Nanos {
        let mut at = issued;
        while self.queue.peek().is_some_and(|Reverse(completed)| *completed <= at) {
            self.queue.pop();
        }
        while self.ticketed.peek().is_some_and(|Reverse((completed, ..))| *completed <= at) {
            self.ticketed.pop();
        }
        if self.queue.len() + self.ticketed.len() >= spec.queue_depth as usize
            && let Some(first) = self.pop_first()
        {
            self.counters.held_back += 1;
            self.counters.queue_wait += first.since(at);
            at = first;
        }
        self.counters.commands += 1;
        self.counters.command_time += Nanos(spec.command_ns);
        self.controller.take(at, spec.command_ns)
    }

    /// Removes the queued command that completes first.
    fn pop_first(&mut self) -> Option<Nanos> {
        match (self.queue.peek(), self.ticketed.peek()) {
            (plain, Some(Reverse((ticketed, ..)))) if plain.is_none_or(|Reverse(plain)| ticketed < plain) => {
                self.ticketed.pop().map(|Reverse((completed, ..))| completed)
            }
            _ => self.queue.pop().map(|Reverse(completed)| completed),
        }
    }

    /// The time at which bytes have arrived at the drive.
    fn receive(&mut self, spec: &HostLinkSpec, ready: Nanos, bytes: u64) -> Nanos {
        let time = spec.transfer_ns(bytes);
        self.counters.link_time += Nanos(time);
        self.inward.take(ready, time)
    }

    /// The time at which bytes have arrived at the host.
    fn send(&mut self, spec: &HostLinkSpec, ready: Nanos, bytes: u64) -> Nanos {
        let time = spec.transfer_ns(bytes);
        self.counters.link_time += Nanos(time);
        if spec.full_duplex { self.outward.take(ready, time) } else { self.inward.take(ready, time) }
    }
}

/// A device behind a host interface. Content, capabilities and geometry are those of the device
/// below; the interface's time is added to its time.
///
/// A command enters the queue when it is issued, or, if the queue is full, when a queued command
/// completes. Then, in order: the controller accepts it, one command at a time; a write's bytes
/// cross the link; the latency passes; the device below executes it; a read's bytes cross the link.
/// Trims, remaps and flushes are commands too, without latency; the pairs of a remap cross the
/// link. An empty request takes no time. A failed request leaves the queue at once. Cost: two
/// locks, a heap of at most `queue_depth` times, a search among the link's busy spans.
#[derive(Debug)]
pub struct HostLink<D> {
    inner: D,
    spec: HostLinkSpec,
    remap_limits: RemapLimits,
    state: Mutex<State>,
}

impl<D> HostLink<D> {
    fn locked(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&mut self) -> &mut State {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interface's activity so far.
    pub fn counters(&self) -> HostLinkCounters {
        self.locked().counters
    }

    /// The spec of the interface.
    pub const fn spec(&self) -> &HostLinkSpec {
        &self.spec
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below; requests made directly to it bypass the interface.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

impl<D: BlockDevice> HostLink<D> {
    /// An idle interface in front of `inner`. Errors: `Unfit` for impossible figures.
    pub fn new(spec: &HostLinkSpec, mut inner: D) -> Result<Self> {
        spec.check().map_err(|detail| BlockError::new(ErrorKind::Unfit, Operation::Open, Lba(0), detail))?;
        let remap_limits = remap_limits(&mut inner);
        Ok(Self { inner, spec: spec.clone(), remap_limits, state: Mutex::default() })
    }

    /// Executes a command without data to the host: accepted, its bytes received, executed after
    /// `latency_ns`.
    fn command(
        &mut self,
        context: &Context,
        (bytes, latency_ns): (u64, u64),
        work: impl FnOnce(&mut D, &Context) -> Result<Done>,
    ) -> Result<Done> {
        let spec = self.spec.clone();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if context.ticket != Ticket::NONE
            && let Some(device) = self.inner.pacing()
        {
            state.settle(device);
        }
        let taken = state.take_command(&spec, context.issued);
        let received = state.receive(&spec, taken, bytes);
        let below = Context { issued: received + Nanos(latency_ns), ..*context };
        let done = work(&mut self.inner, &below)?;
        let completed = done.completed.max(below.issued);
        self.held().enter(context.ticket, done.completed, completed);
        let own = Nanos(spec.command_ns + spec.transfer_ns(bytes) + latency_ns);
        Ok(Done { completed, busy: done.busy + own, ..done })
    }

    fn write_with(
        &mut self,
        context: &Context,
        bytes: usize,
        work: impl FnOnce(&mut D, &Context) -> Result<Done>,
    ) -> Result<Done> {
        if bytes == 0 {
            return work(&mut self.inner, context);
        }
        let latency_ns = self.spec.write_latency_ns;
        self.command(context, (bytes as u64, latency_ns), work)
    }

    fn read_with(
        &self,
        context: &Context,
        bytes: u64,
        work: impl FnOnce(&D, &Context) -> Result<Done>,
    ) -> Result<Done> {
        if bytes == 0 {
            return work(&self.inner, context);
        }
        let spec = &self.spec;
        let taken = self.locked().take_command(spec, context.issued);
        let below = Context { issued: taken + Nanos(spec.read_latency_ns), ..*context };
        let done = work(&self.inner, &below)?;
        let mut state = self.locked();
        let completed = state.send(spec, done.completed.max(below.issued), bytes);
        state.enter(context.ticket, done.completed, completed);
        let own = Nanos(spec.command_ns + spec.read_latency_ns + spec.transfer_ns(bytes));
        Ok(Done { completed, busy: done.busy + own, ..done })
    }

    fn remap_with(
        &mut self,
        context: &Context,
        pairs: usize,
        work: impl FnOnce(&mut dyn Remap, &Context) -> Result<Done>,
    ) -> Result<Done> {
        let work = |inner: &mut D, context: &Context| match inner.remap() {
            Some(remap) => work(remap, context),
            None => Err(no_capability(Operation::Remap)),
        };
        if pairs == 0 {
            return work(&mut self.inner, context);
        }
        self.command(context, ((pairs as u64).saturating_mul(PAIR_BYTES), 0), work)
    }
}

impl<D: BlockDevice> BlockDevice for HostLink<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        self.inner.geometry()
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        self.read_with(context, into.len() as u64, |inner, context| inner.read(context, at, into))
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let bytes = u64::from(unit).saturating_mul(into.len() as u64);
        self.read_with(context, bytes, |inner, context| inner.read_parts(context, at, unit, into))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.write_with(context, data.len(), |inner, context| inner.write(context, at, data))
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        self.write_with(context, Pieces::total(parts), |inner, context| inner.write_parts(context, at, parts))
    }

    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        self.write_with(context, data.len(), |inner, context| inner.write_durable(context, at, data))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        self.command(context, (0, 0), |inner, context| inner.flush(context))
    }

    forward_extents!();

    #[inline]
    fn expect_write(&mut self, at: Lba) {
        self.inner.expect_write(at);
    }

    fn trim(&mut self) -> Option<&mut dyn Trim> {
        if self.inner.trim().is_some() { Some(self) } else { None }
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        if self.inner.pacing().is_some() { Some(self) } else { None }
    }

    fn remap(&mut self) -> Option<&mut dyn Remap> {
        if self.inner.remap().is_some() { Some(self) } else { None }
    }
}

impl<D: BlockDevice> Trim for HostLink<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let work = |inner: &mut D, context: &Context| match inner.trim() {
            Some(trim) => trim.trim(context, at, sectors),
            None => Err(no_capability(Operation::Trim)),
        };
        if sectors == 0 {
            return work(&mut self.inner, context);
        }
        self.command(context, (0, 0), work)
    }
}

impl<D: BlockDevice> Remap for HostLink<D> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_with(context, pairs.len(), |remap, context| remap.share(context, pairs))
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        self.remap_with(context, pairs.len(), |remap, context| remap.remap_move(context, pairs))
    }
}

impl<D: Send + Sync> Statistics for HostLink<D> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        let HostLinkCounters { commands, held_back, queue_wait, command_time, link_time } = self.counters();
        sink("interface_commands", StatisticValue::Count(commands));
        sink("interface_commands_held_back", StatisticValue::Count(held_back));
        sink("interface_queue_wait_ns", StatisticValue::Count(queue_wait.0));
        sink("interface_command_time_ns", StatisticValue::Count(command_time.0));
        sink("interface_link_time_ns", StatisticValue::Count(link_time.0));
    }
}
