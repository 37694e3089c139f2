//! What the kernel asks for, in kinds.

use nandkit_units::Nanos;

/// The kinds of requests: for the table of error numbers, and for whoever counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operation {
    Lookup,
    Stat,
    List,
    Read,
    ReadLink,
    GetXattr,
    Status,
    Create,
    MakeNode,
    MakeDirectory,
    Symlink,
    Link,
    Write,
    SetAttributes,
    Truncate,
    Remove,
    RemoveDirectory,
    Rename,
    SetXattr,
    Allocate,
    Sync,
}

/// Hears what passed the door, from any thread, in the order in which it was done where the lock is exclusive.
pub trait Observer: Send + Sync {
    /// A request was done, well or not. `bytes`: those that were read or written. `latency`: simulated time from its issue to its end; zero without a clock.
    fn done(&self, operation: Operation, bytes: u64, latency: Nanos);
}
