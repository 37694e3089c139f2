//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-cleaning --test all mean_field::` runs those of one file.

mod mean_field;
mod properties;
