//! All tests of the crate in one program: shared code is compiled once, and tests run in parallel.
//! `cargo test -p nandkit-cleaning --test all mean_field::` runs those of one file.

mod mean_field;
mod properties;
