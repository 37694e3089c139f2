//! Flash devices in memory for what stands above them.

mod bytes;
mod strict;

pub use bytes::RamFlash;
pub use strict::{StrictFlash, nor};
