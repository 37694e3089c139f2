//! Bounded caches of what is as the medium has it. [`PageCache`] has one user and copies bytes; its
//! least recently used page goes first. [`SharedCache`] has many readers, who hold its blocks
//! beside it.
//!
//! A cache does no input or output and holds no changes: what waits to be written is its owner's.

mod list;
mod number_map;
mod page_cache;
mod shared_cache;

pub use number_map::{NumberHasher, NumberMap};
pub use page_cache::PageCache;
pub use shared_cache::SharedCache;
