//! Who counts what clients asked for.

use nandkit_units::Nanos;

/// The kinds of requests that reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RequestKind {
    Read,
    Write,
    Flush,
    Trim,
    WriteZeroes,
}

impl RequestKind {
    /// The name that records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
        }
    }
}

/// Hears what the device did well, from any client's thread. Of a request beyond 1 MiB it hears
/// each MiB, of a trim each 16 MiB.
pub trait Observer: Send + Sync {
    /// `bytes`: those that were read, written, trimmed or made zero. `latency`: simulated time from
    /// the issue to the completion.
    fn done(&self, kind: RequestKind, bytes: u64, latency: Nanos);
}
