//! What the host tells the chip of its instants, and asks of ends.

use nandkit_units::{Nanos, Pacing, Ticket};

use crate::chip::NandChip;
use crate::store::Store;

/// Only where reads may go before other operations is there anything to tell.
impl<S: Store> Pacing for NandChip<S> {
    fn quiet_until(&mut self, instant: Nanos) {
        if let Some(queues) = self.read_state_mut().schedule.queues() {
            queues.quiet_until(instant.0);
        }
    }

    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos {
        self.read_state_mut().schedule.queues().map_or(told, |queues| Nanos(queues.end_of(ticket, told.0)))
    }
}
