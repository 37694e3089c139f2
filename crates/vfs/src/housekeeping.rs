//! Background work of a file system, done in idle time.

use nandkit_units::Nanos;

use crate::Result;

/// Work that is due at certain times: background cleaning, write-back of old data, periodic
/// checkpoints (on Linux, the file system's threads). Nothing runs by itself: the caller that lets
/// time pass asks when work is due, advances the clock to that time, and calls for the work.
pub trait Housekeeping {
    /// The next time at which work may be due, if nothing else happens until then. Cost: a look at
    /// counters.
    fn next_due(&mut self) -> Nanos;

    /// Does the work that is due now, and returns whether it did anything. Afterwards
    /// [`Housekeeping::next_due`] is later, or nothing was done. Errors: `NoSpace`, `Device`,
    /// `Corrupt`, `ReadOnly`. Cost: that of the work, by which the clock advances.
    fn work(&mut self) -> Result<bool>;
}
