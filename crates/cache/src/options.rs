//! How a cache is to behave.

use std::fmt;

use nandkit_units::Nanos;

/// Which page goes when room is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// Clean-first LRU, CFLRU (Park et al., CASES 2006): of the `window_pages` least recently used pages the least recently used clean one; where
    /// all of these are dirty, the least recently used page. A flash write costs more than the read that a lost clean page may cause.
    CleanFirst {
        /// Size of the window, the paper's clean-first region. 0 and 1 are LRU.
        window_pages: usize,
    },
}

/// When dirty pages are to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteBack {
    /// At once: every dirty page is due.
    #[default]
    Through,
    /// Later.
    Back {
        /// As soon as more pages than this are dirty, the oldest epochs are due until no more than this are.
        dirty_limit_pages: usize,
        /// A page is due when it has been dirty for this long.
        age_limit: Nanos,
    },
}

/// The shape and the rules of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of a page, at least 1.
    pub page_size: usize,
    /// Pages that the cache holds, at least 1. Memory is taken as pages come in, not ahead.
    pub capacity_pages: usize,
    /// Which page goes.
    pub replacement: Replacement,
    /// When dirty pages are due.
    pub write_back: WriteBack,
}

impl CacheOptions {
    /// An LRU cache with write-through.
    pub const fn new(page_size: usize, capacity_pages: usize) -> Self {
        Self { page_size, capacity_pages, replacement: Replacement::Lru, write_back: WriteBack::Through }
    }

    /// The same with another replacement rule.
    pub const fn replaced_by(mut self, replacement: Replacement) -> Self {
        self.replacement = replacement;
        self
    }

    /// The same with another write-back rule.
    pub const fn written_back(mut self, write_back: WriteBack) -> Self {
        self.write_back = write_back;
        self
    }

    pub(crate) fn validated(self) -> Result<Self, InvalidOptions> {
        if self.page_size == 0 {
            return Err(InvalidOptions("page_size is 0: a cache page has at least 1 byte"));
        }
        if self.capacity_pages == 0 {
            return Err(InvalidOptions(
                "capacity_pages is 0: a cache holds at least 1 page; leave the cache out instead",
            ));
        }
        if self.capacity_pages >= u32::MAX as usize {
            return Err(InvalidOptions("capacity_pages is too large: a cache holds fewer than 4,294,967,295 pages"));
        }
        Ok(self)
    }
}

/// Options that make no cache: says which one and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidOptions(pub(crate) &'static str);

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidOptions {}
