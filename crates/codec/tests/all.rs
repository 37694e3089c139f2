//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-codec --test all compression::` runs those of one file.

mod compression;
mod ecc;
mod lz4_zstd;
mod lzma;
mod lzop;
mod streams;
