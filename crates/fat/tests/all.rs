//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-fat --test all allocation::` runs those of one file.

mod common;

mod allocation;
mod conformance;
mod extents;
mod hostile;
mod judges;
mod promise;
