//! Conformance suite of `trait BlockDevice`, and of trim and remap where they are offered.
//!
//! ```
//! use nandkit_block::RamDevice;
//! use nandkit_testkit::block_suite::{self, BlockOptions};
//!
//! block_suite::run(|geometry| Box::new(RamDevice::new(*geometry).unwrap()), &BlockOptions::default()).unwrap();
//! ```

mod basics;
mod bench;
mod capabilities;
mod durability;
mod parts;
pub mod planted;

pub use durability::{DURABILITY, Reopen, run as run_durability};

use nandkit_block::{BlockDevice, BlockGeometry};

use crate::violation::{Violations, guarded};
use bench::Bench;

/// Options of the suite.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// The geometries: each check gets a new device of each. A device may be larger than asked for,
    /// but not smaller.
    pub geometries: Vec<BlockGeometry>,
    /// Requests of the random comparison with a model, per geometry.
    pub rounds: u32,
    /// Seed of the random comparison.
    pub seed: u64,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { geometries: geometries(), rounds: 1000, seed: 1 }
    }
}

/// The default geometries: sectors of 512 to 65,536 bytes, odd numbers of sectors.
pub fn geometries() -> Vec<BlockGeometry> {
    let geometry = |sector_size, sectors, preferred_size| BlockGeometry {
        sector_size,
        sectors,
        preferred_size,
        recycling_size: 0,
    };
    vec![geometry(512, 257, 4096), geometry(4096, 64, 4096), geometry(2048, 99, 16_384), geometry(65_536, 17, 65_536)]
}

type Check = fn(&mut Bench<'_>) -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    ("geometry", basics::geometry),
    ("unwritten_reads_zero", basics::unwritten_reads_zero),
    ("write_and_read_back", basics::write_and_read_back),
    ("overwrites", basics::overwrites),
    ("isolation", basics::isolation),
    ("range", basics::range),
    ("silly_arguments", basics::silly_arguments),
    ("described", basics::described),
    ("content_reads", basics::content_reads),
    ("parts", parts::parts),
    ("flush", basics::flush),
    ("time", basics::time),
    ("repeatable", basics::repeatable),
    ("parallel_reads", basics::parallel_reads),
    ("trim", capabilities::trim),
    ("remap", capabilities::remap),
    ("model", capabilities::model),
];

/// Runs every check on a fresh, empty device of every geometry. `make` is called many times and
/// must make the same device each time.
pub fn run(
    mut make: impl FnMut(&BlockGeometry) -> Box<dyn BlockDevice>,
    options: &BlockOptions,
) -> Result<(), Violations> {
    let mut found = Vec::new();
    for geometry in &options.geometries {
        let place = format!("{geometry:?}");
        for &(name, check) in CHECKS {
            found.extend(guarded(name, &place, || check(&mut Bench::new(&mut make, geometry, options))));
        }
    }
    Violations::or_ok(found)
}

/// The names of the checks of [`run`].
pub fn check_names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|&(name, _)| name)
}
