//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-lab --test all determinism::` runs those of one file.

mod common;

mod calibrate;
mod determinism;
mod f2fs_records;
mod impossible_points;
mod measured_phase;
mod page_map_records;
mod preconditioned;
mod queues_in_records;
