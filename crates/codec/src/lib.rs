//! Checksums and compression, and later error-correcting codes: what formats and devices put beside bytes to witness or shrink them.

pub mod checksum;
pub mod compression;
