//! Observation of clients' requests.

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
    /// The name in records.
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

/// Observes successful requests of the device, from any client's thread. It is called per MiB of a
/// longer request, and per 16 MiB of a trim.
pub trait Observer: Send + Sync {
    /// A request completed. `bytes`: bytes read, written, trimmed or zeroed. `latency`: simulated
    /// time from the issue to the completion.
    fn done(&self, kind: RequestKind, bytes: u64, latency: Nanos);
}
