//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-workload --test all blocks::` runs those of one file.

mod common;

mod blocks;
mod calls;
mod dbench;
mod files;
mod fio;
mod requests_in_time;
mod specs;
mod trace_formats;
mod traces;
