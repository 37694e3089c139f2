//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-ftl --test all bad_blocks::` runs those of one file.

mod common;

mod bad_blocks;
mod conformance;
mod copy_runs;
mod costs;
mod cuts_and_failures;
mod held_memory;
mod in_flight;
mod limits;
mod model;
mod page_map;
mod page_map_care;
mod page_map_cuts;
mod page_map_failures;
mod page_map_idle;
mod page_map_instants;
mod page_map_lost;
mod page_map_moved_ends;
mod page_map_on_demand;
mod page_map_theory;
mod power_cuts;
mod wear;
