//! Work that a file system has for idle times.

use nandkit_units::Nanos;

use crate::Result;

/// Work that is due at instants: collection in the background, write-back of what is old, a
/// checkpoint now and then (on Linux the threads of a file system). Nothing runs by itself: whoever
/// lets time pass asks when something is due, lets the clock go there, and has it done.
pub trait Housekeeping {
    /// When there is something to look at next, if nothing else happens until then. Cost: a look at
    /// counters.
    fn next_due(&mut self) -> Nanos;

    /// Does what is due by now, and says whether anything was done; [`Housekeeping::next_due`] is
    /// later then, or nothing was done. Errors: `NoSpace`, `Device`, `Corrupt`, `ReadOnly`. Cost:
    /// that of the work, which the clock shows.
    fn work(&mut self) -> Result<bool>;
}
