//! One bounded page cache for file systems and host models: fixed page size, a replacement rule, a write-back rule, and write-back in order.
//!
//! The cache does no input or output. It tells its owner what to write and when; the owner writes, and says so with [`PageCache::mark_clean`].
//!
//! **Order.** Each dirty page belongs to an *epoch*, a number that the owner chooses. Pages of a lower epoch must reach the medium before pages
//! of a higher one; within an epoch the order is free (the cache offers them in the order in which they became dirty). FAT, for instance, puts the data clusters of a
//! group of operations into epoch `n`, the FAT entries into `n + 1`, the directory entries into `n + 2`, and starts at `n + 3` for what must come later.
//! A page holds one version only: a page that is dirty in one epoch and is to change in another is refused with [`Refused::WriteFirst`], and so is an insertion
//! whose victim is dirty. The owner then writes what [`PageCache::next_for`] hands out and tries again:
//!
//! ```
//! # use nandkit_cache::*; use nandkit_units::Nanos;
//! # let mut cache = PageCache::new(CacheOptions::new(512, 8)).unwrap();
//! # let mut medium = std::collections::BTreeMap::new();
//! # let sector = [7; 512]; let now = Nanos(0);
//! loop {
//!     let need = match cache.put(42, &sector, Epoch(3), now) {
//!         Ok(()) => break,
//!         Err(need) => need,
//!     };
//!     while let Some(page) = cache.next_for(need) {
//!         medium.insert(page.key, page.bytes.to_vec()); // and a flush where page.epoch differs from the one before
//!         let key = page.key;
//!         cache.mark_clean(key);
//!     }
//! }
//! ```

mod list;
mod options;
mod order;
mod page_cache;
mod replacement;

pub use options::{CacheOptions, InvalidOptions, Replacement, WriteBack};
pub use page_cache::{DirtyPage, Epoch, PageCache, Refused, WriteFirst};
