//! One bounded cache of pages that are as the medium has them: fixed page size, the least recently used page goes first.
//!
//! The cache does no input or output and holds no changes: what waits to be written is its owner's.

mod list;
mod page_cache;

pub use page_cache::PageCache;
