//! Checksums, compression and tags, and later error-correcting codes: what formats and devices put beside bytes to witness or shrink them.

pub mod checksum;
pub mod compression;
pub mod page_tag;
