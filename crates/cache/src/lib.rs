//! Bounded caches of unmodified blocks. [`PageCache`] has one owner, copies bytes and evicts the
//! least recently used page. [`SharedCache`] has many concurrent readers, which share its blocks.
//!
//! A cache does no I/O and holds no changes; its owner keeps what waits to be written.

mod list;
mod number_map;
mod page_cache;
mod shared_cache;

pub use number_map::{NumberHasher, NumberMap};
pub use page_cache::PageCache;
pub use shared_cache::SharedCache;
