//! Kinds of kernel requests.

use nandkit_units::Nanos;

/// The kinds of requests, for the table of error numbers and for counters.
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
    /// The end of a draft, which frees its space.
    AtomicEnd,
    Sync,
}

impl Operation {
    /// The name in records.
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

/// Observes requests, from any thread; under an exclusive lock in the order of their execution.
pub trait Observer: Send + Sync {
    /// A request ended, with or without success. `bytes`: bytes read or written. `latency`:
    /// simulated time from its issue to its end; zero without a clock.
    fn done(&self, operation: Operation, bytes: u64, latency: Nanos);

    /// A request that arrived at this simulated instant is about to be executed, under the lock.
    /// Only with [`crate::Timing::Arrivals`].
    fn arrived(&self, instant: Nanos) {
        let _ = instant;
    }
}
