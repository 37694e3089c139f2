//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-nbd --test all server::` runs those of one file.

mod common;

mod flags;
mod hostile;
mod protocol;
mod server;
