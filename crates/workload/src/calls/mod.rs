//! Recorded calls of a file system: what programs asked of it, when, and with which bytes.
//!
//! [`CallRecorder`] records them as a hook of `vfs::wrap`; [`CallReplay`] makes the same calls to
//! another file system, at the same instants. The form is one line of JSON for each call
//! (`request.rs` says which), compressed by zstd, so that `zstdcat` and `jq` can look into it.

mod bytes;
mod recorder;
mod replay;
mod request;

pub use recorder::CallRecorder;
pub use replay::CallReplay;
pub(crate) use replay::MAGIC;
