//! Conformance suites, cut plans, model oracles and outside judges for tests

pub mod block_suite;
pub mod durability;
pub mod flash_memory;
pub mod flash_suite;
pub mod fs_suite;
pub mod hostile;
pub mod judges;
pub mod listing;
pub mod model_block;
pub mod model_compare;
pub mod record;
pub mod rounds;
pub mod soak;
pub mod trees;
pub mod vfat;
pub mod violation;

use nandkit_units::Clock;

/// A clock at 2001-09-09: inside the range of every format.
pub fn clock() -> Clock {
    Clock::starting_at(1_000_000_000_000_000_000)
}
