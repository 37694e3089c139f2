//! Pacing across the link: host times go down to the device, and changed ends come back up.

use std::cmp::Reverse;

use nandkit_units::{Nanos, Pacing, Ticket};

use super::{HostLink, State};
use crate::BlockDevice;

impl State {
    /// Adds a command to the queue until it completes. Keeps the end that the device below
    /// reported, to compare it with later answers.
    #[inline]
    pub(super) fn enter(&mut self, ticket: Ticket, below: Nanos, completed: Nanos) {
        if ticket == Ticket::NONE {
            self.queue.push(Reverse(completed));
        } else {
            self.ticketed.push(Reverse((completed, ticket, completed)));
            self.note_below(ticket, below);
        }
    }

    /// Records the latest end below of a ticket's commands. A reused ticket's earlier commands have
    /// ended.
    fn note_below(&mut self, ticket: Ticket, below: Nanos) {
        let at = usize::from(ticket.0);
        if self.below.len() <= at {
            self.below.resize(at + 1, Nanos::ZERO);
        }
        if let Some(latest) = self.below.get_mut(at) {
            *latest = below.max(*latest);
        }
    }

    /// The reported end plus the delay of the device below; if a part of the request was refused,
    /// not before the end of the other parts.
    fn end_of(&self, device: &mut dyn Pacing, ticket: Ticket, told: Nanos) -> Nanos {
        match self.below.get(usize::from(ticket.0)) {
            Some(below) if ticket != Ticket::NONE => {
                let moved = device.end_of(ticket, *below);
                moved.max(told + moved.since(*below))
            }
            _ => told,
        }
    }

    /// Determines the command that completes first, by current knowledge.
    pub(super) fn settle(&mut self, device: &mut dyn Pacing) {
        while let Some(first) = self.ticketed.peek() {
            let (end, ticket, told) = first.0;
            let moved = self.end_of(device, ticket, told);
            if moved <= end {
                return;
            }
            if let Some(mut first) = self.ticketed.peek_mut() {
                first.0.0 = moved;
            }
        }
    }
}

/// **If an end reported by the device below moves**, the request's end moves by the same amount:
/// the time added by link and controller stays the same, and their bookings do not move. Writes,
/// flushes and trims have nothing after the device's end, so their ends are exact; ends of reads do
/// not move, because a device below serves reads first. The queue holds a command until its moved
/// end, as far as that is known when a request is issued; only reads that are parts of one request
/// and exceed the queue wait for ends as first reported. Cost: one query below, plus one for each
/// moved end.
impl<D: BlockDevice> Pacing for HostLink<D> {
    fn quiet_until(&mut self, instant: Nanos) {
        if let Some(device) = self.inner.pacing() {
            device.quiet_until(instant);
            let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
            state.settle(device);
        }
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.inner.pacing().map_or(told, |device| state.end_of(device, ticket, told))
    }
}
