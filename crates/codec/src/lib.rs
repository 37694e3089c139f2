//! Checksums, compression, tags and error-correcting codes: what formats and devices put beside
//! bytes to witness, correct or shrink them.

pub mod checksum;
pub mod code_page;
pub mod compression;
pub mod ecc;
pub mod page_tag;
pub mod streams;
