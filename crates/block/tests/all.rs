//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-block --test all card_suite::` runs those of one file.

mod card_suite;
mod files;
mod host_link_suite;
