//! Checksums, compression, tags and error-correcting codes, as formats and devices use them to
//! verify, correct or shrink data.

pub mod checksum;
pub mod code_page;
pub mod compression;
pub mod ecc;
pub mod page_tag;
pub mod streams;
