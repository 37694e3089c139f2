//! Pacing: host times passed to the chip, and ends queried from it.

use nandkit_units::{Nanos, Pacing, Ticket};

use crate::chip::NandChip;
use crate::store::Store;

/// Does something only if reads may go before other operations.
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
