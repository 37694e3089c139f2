//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-fuse --test all drafts::` runs those of one file.

mod drafts;
mod strange;
