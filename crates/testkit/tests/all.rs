//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-testkit --test all block_suite::` runs those of one file.

mod block_suite;
mod block_wrappers;
mod flash_suite;
mod flash_wrappers;
mod record;
