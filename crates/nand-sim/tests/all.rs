//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-nand-sim --test all address::` runs those of one file.

mod address;
mod conformance;
mod copy_run;
mod faults;
mod image;
mod image_witness;
mod model;
mod relocation;
mod requests_in_time;
mod timing;
