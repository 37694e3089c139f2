//! Pacing: the host tells a device its current time, and the device reports moved ends.

use crate::Nanos;

/// Identifies an operation while it is outstanding, so that its end can be queried again: a number
/// above zero chosen by the host, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u16);

impl Ticket {
    /// No ticket: the end will not be queried.
    pub const NONE: Self = Self(0);
}

/// A device whose behaviour depends on the host's time: it works in idle times, or serves reads
/// before earlier requests.
///
/// A device that reorders returns with each operation the end known at issue. Later operations may
/// go before it; then it ends later than reported, and [`Pacing::end_of`] returns the new end.
/// Nothing goes before an operation that has ended, so an end at or before the host's current time
/// is final.
pub trait Pacing {
    /// Declares that the host will issue nothing before `instant`: the device may use the time
    /// until then for its own work, and forget what ended before. Times never go back. Errors of
    /// its own work are returned by the next operation that changes or flushes something.
    fn quiet_until(&mut self, instant: Nanos);

    /// The currently known end of the operation with this ticket; `told` or later. `told` must be
    /// the end that the device returned when it took the operation (the latest of several parts),
    /// not a later answer: a layer that adds time of its own adds the same amount again.
    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos;
}
