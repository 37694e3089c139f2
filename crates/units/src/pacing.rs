//! What a host tells a device of its instants, and what the device tells later of ends.

use crate::Nanos;

/// Names an operation while it is outstanding, so that its end can be asked for again: a number of
/// the host's choice above zero, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u16);

impl Ticket {
    /// Nobody will ask.
    pub const NONE: Self = Self(0);
}

/// A device to which it matters when its host asks: it works in idle times, or serves reads before
/// what it was given earlier.
///
/// A device that reorders tells with an operation the end that is known when it is issued. What
/// comes later may go before it; then it ends later than told, and [`Pacing::end_of`] says when.
/// Nothing goes before what has ended, so that an end that lies at or before the host's present
/// instant is the last word.
pub trait Pacing {
    /// The host asks nothing more that is issued before `instant`: the device may use the time up
    /// to it for work of its own, and forget what ended before. Instants do not go back. Errors of
    /// work of its own are told by the next operation that changes something, or flushes.
    fn quiet_until(&mut self, instant: Nanos);

    /// When what was issued under this ticket ends as far as is known by now; `told`, or later.
    /// `told` is what the device told when it took the operation (of several parts the latest), and
    /// not what it has said since: a layer that adds time of its own adds the same again.
    fn end_of(&mut self, ticket: Ticket, told: Nanos) -> Nanos;
}
