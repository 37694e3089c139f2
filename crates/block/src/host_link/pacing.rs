//! The host's instants go down to the device, and its moved ends come up behind the link.

use std::cmp::Reverse;

use nandkit_units::{Nanos, Pacing, Ticket};

use super::{HostLink, State};
use crate::BlockDevice;

impl State {
    /// A command is in the queue until it completes. What the device below told of its end is kept,
    /// so that it can be compared with what it says later.
    #[inline]
    pub(super) fn enter(&mut self, ticket: Ticket, below: Nanos, completed: Nanos) {
        if ticket == Ticket::NONE {
            self.queue.push(Reverse(completed));
        } else {
            self.ticketed.push(Reverse((completed, ticket, completed)));
            self.note_below(ticket, below);
        }
    }

    /// The latest end below of a ticket's commands. One that is used again has ended before.
    fn note_below(&mut self, ticket: Ticket, below: Nanos) {
        let at = usize::from(ticket.0);
        if self.below.len() <= at {
            self.below.resize(at + 1, Nanos::ZERO);
        }
        if let Some(latest) = self.below.get_mut(at) {
            *latest = below.max(*latest);
        }
    }

    /// As much later than told as the device below is; where a part of a request was refused, not
    /// before the parts that were not.
    fn end_of(&self, device: &mut dyn Pacing, ticket: Ticket, told: Nanos) -> Nanos {
        match self.below.get(usize::from(ticket.0)) {
            Some(below) if ticket != Ticket::NONE => {
                let moved = device.end_of(ticket, *below);
                moved.max(told + moved.since(*below))
            }
            _ => told,
        }
    }

    /// Finds the command that completes first, as is known by now.
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

/// **Where an end moves that the device below told**, the request's end moves by as much: what the
/// link and the controller added behind it stays added, and their bookings stay where they are.
/// Writes, flushes and trims have nothing behind the device's end, so that theirs are exact; of
/// reads, which a device below puts first, ends do not move. The queue holds a command until its
/// moved end, as far as that is known when a request is issued; only reads that are parts of one
/// request, and more than the queue takes, wait for ends as they were told. Cost: a question below
/// for each that moved, and one.
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
