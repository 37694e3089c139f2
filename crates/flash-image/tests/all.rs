//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-flash-image --test all conformance::` runs those of one file.

mod common;

mod conformance;
mod detect;
mod journal;
mod kept;
mod layouts;
mod oob;
mod overlay;
mod regions;
