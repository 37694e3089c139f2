//! Conformance suites, cut plans and model oracles for tests; the outside judges are in [`judges`]

pub mod block_suite;
pub mod durability;
pub mod flash_memory;
pub mod flash_suite;
pub mod fs_suite;
pub mod hostile;
pub mod listing;
pub mod model_block;
pub mod model_compare;
pub mod record;
pub mod rounds;
pub mod soak;
pub mod trees;
pub mod vfat;
pub mod violation;

pub use nandkit_judges as judges;

use nandkit_units::Clock;

/// What a flash device of a test hands on as it is to its field `inner`: all but reads, programs
/// and erases.
#[macro_export]
macro_rules! forward_flash {
    () => {
        fn geometry(&self) -> &nandkit_units::FlashGeometry {
            self.inner.geometry()
        }

        fn is_bad(&self, block: nandkit_units::BlockIndex) -> bool {
            self.inner.is_bad(block)
        }

        fn mark_bad(
            &mut self,
            context: &nandkit_units::Context,
            block: nandkit_units::BlockIndex,
        ) -> nandkit_flash::Result<nandkit_units::Done> {
            self.inner.mark_bad(context, block)
        }

        fn sync(&mut self, context: &nandkit_units::Context) -> nandkit_flash::Result<nandkit_units::Done> {
            self.inner.sync(context)
        }
    };
}

/// A clock at 2001-09-09: inside the range of every format.
pub fn clock() -> Clock {
    Clock::starting_at(1_000_000_000_000_000_000)
}
