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
    Atomic,
    /// The end of a draft, which gives back what it held.
    AtomicEnd,
    Sync,
}

impl Operation {
    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Read => "read",
            Self::ReadLink => "read_link",
            Self::GetXattr => "get_xattr",
            Self::Status => "status",
            Self::Create => "create",
            Self::MakeNode => "make_node",
            Self::MakeDirectory => "make_directory",
            Self::Symlink => "symlink",
            Self::Link => "link",
            Self::Write => "write",
            Self::SetAttributes => "set_attributes",
            Self::Truncate => "truncate",
            Self::Remove => "remove",
            Self::RemoveDirectory => "remove_directory",
            Self::Rename => "rename",
            Self::SetXattr => "set_xattr",
            Self::Allocate => "allocate",
            Self::Atomic => "atomic",
            Self::AtomicEnd => "atomic_end",
            Self::Sync => "sync",
        }
    }
}

/// Hears what passed the door, from any thread, in the order in which it was done where the lock is
/// exclusive.
pub trait Observer: Send + Sync {
    /// A request was done, well or not. `bytes`: those that were read or written. `latency`:
    /// simulated time from its issue to its end; zero without a clock.
    fn done(&self, operation: Operation, bytes: u64, latency: Nanos);

    /// A request's turn has come, which arrived at this simulated instant: before anything of it is
    /// done, under the lock. With arrivals alone.
    fn arrived(&self, instant: Nanos) {
        let _ = instant;
    }
}
