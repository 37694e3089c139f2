//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-block --test all timed_suites::` runs those of one file.

mod files;
mod timed_suites;
