//! Recorded calls of a file system: what programs asked of it, when, and with which bytes.
//!
//! [`CallRecorder`] writes them down as a hook of `vfs::wrap`; [`CallReplay`] asks another file
//! system the same, at the same instants. The form is one line of JSON for each call (`request.rs`
//! says which), compressed by zstd, so that `zstdcat` and `jq` can look into it.

mod bytes;
mod recorder;
mod replay;
mod request;

pub use recorder::CallRecorder;
pub use replay::CallReplay;
pub(crate) use replay::MAGIC;
