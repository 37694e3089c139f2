//! Conformance suite of `trait Flash`: every promise written on its methods, checked on a device
//! that the caller makes.
//!
//! ```
//! use nandkit_testkit::flash_suite::{self, FlashOptions};
//! use nandkit_testkit::flash_suite::planted::TinyFlash;
//!
//! flash_suite::run(|geometry| Box::new(TinyFlash::new(*geometry)), &FlashOptions::default()).unwrap();
//! ```

mod basics;
mod bench;
mod capabilities;
mod content;
mod interrupts;
mod misuse;
pub mod planted;
mod random;

pub use interrupts::{CHECKS as INTERRUPT_CHECKS, run as run_interrupts};

use nandkit_flash::Flash;
use nandkit_units::{FlashGeometry, FlashKind};

use crate::violation::{Violations, guarded};
use bench::Bench;
pub(crate) use bench::same;

/// In which order the pages of a block may be programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// Each page directly after the one before.
    Consecutive,
    /// Never back; pages may be left out.
    #[default]
    Ascending,
    /// Pages of a block may be programmed in any order.
    Any,
}

/// Options of the suite: what it must know of a device beside its geometry.
#[derive(Clone, Debug)]
pub struct FlashOptions {
    /// The geometries: each check gets a new device of each.
    pub geometries: Vec<FlashGeometry>,
    /// The order that the device enforces.
    pub order: PageOrder,
    /// How many programs a page takes between erases. With 1 the checks of programs in parts are
    /// left out.
    pub partial_programs: u32,
    /// Whether the device enforces `order` and `partial_programs` and refuses to program what is
    /// programmed.
    pub enforces_rules: bool,
    /// Whether bytes that were programmed can be read back. Without (a shadow store) the suite asks
    /// for `NoContent`, and compares only the first 16 bytes of the OOB.
    pub keeps_bytes: bool,
    /// Operations of the random comparison with a model, per geometry.
    pub rounds: u32,
    /// Seed of the random comparison.
    pub seed: u64,
}

impl Default for FlashOptions {
    fn default() -> Self {
        Self {
            geometries: geometries(),
            order: PageOrder::default(),
            partial_programs: 1,
            enforces_rules: true,
            keeps_bytes: true,
            rounds: 1500,
            seed: 1,
        }
    }
}

/// The default geometries: pages of 512 to 16,384 bytes, with and without OOB, subpages, odd
/// numbers of pages and blocks, several planes and dies.
pub fn geometries() -> Vec<FlashGeometry> {
    vec![
        FlashGeometry::nand(512, 16, 32, 16),
        FlashGeometry { write_unit: 512, ..FlashGeometry::nand(2048, 64, 64, 11) },
        FlashGeometry { planes: 2, dies: 2, channels: 2, ..FlashGeometry::nand(4096, 128, 17, 16) },
        FlashGeometry { planes: 4, ..FlashGeometry::nand(16_384, 1872, 6, 8) },
        FlashGeometry::nand(1024, 0, 3, 9),
    ]
}

/// NOR geometries, for devices that are NOR: byte writes; one page per block, and several.
pub fn nor_geometries() -> Vec<FlashGeometry> {
    let nor = FlashGeometry { kind: FlashKind::Nor, write_unit: 1, ..FlashGeometry::nand(4096, 0, 1, 9) };
    vec![nor, FlashGeometry { page_size: 256, pages_per_block: 8, ..nor }]
}

type Check = fn(&mut Bench<'_>) -> Result<(), String>;

/// Every check by name. A panic anywhere is reported as `no_panic`.
const CHECKS: &[(&str, Check)] = &[
    ("geometry", basics::geometry),
    ("range", misuse::range),
    ("silly_arguments", misuse::silly_arguments),
    ("write_unit", misuse::write_unit),
    ("no_overwrite", misuse::no_overwrite),
    ("page_order", misuse::page_order),
    ("partial_programs", misuse::partial_programs),
    ("nor_overwrite", misuse::nor_overwrite),
    ("program_and_read_back", basics::program_and_read_back),
    ("partial_reads", basics::partial_reads),
    ("erase_clears", basics::erase_clears),
    ("isolation", basics::isolation),
    ("oob", basics::oob),
    ("bad_blocks", basics::bad_blocks),
    ("sync", basics::sync),
    ("time", basics::time),
    ("repeatable", basics::repeatable),
    ("described", content::described),
    ("content_reads", content::content_reads),
    ("no_content", content::no_content),
    ("parallel_reads", content::parallel_reads),
    ("copyback", capabilities::copyback),
    ("copyback_misuse", capabilities::copyback_misuse),
    ("model", random::model),
];

/// Runs every check on a fresh device of every geometry. `make` is called many times and must make
/// the same device each time. Blocks need not be erased, and some (fewer than half, and not the
/// first two of a small device) may be bad.
pub fn run(mut make: impl FnMut(&FlashGeometry) -> Box<dyn Flash>, options: &FlashOptions) -> Result<(), Violations> {
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
