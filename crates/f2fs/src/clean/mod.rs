//! Cleaning: which section, when, and how its live blocks move (f2fs-writing.md, "Collection").
//!
//! Whether a block is live, where it goes and how the map learns of it is the same for every
//! cleaner ([`collect`]); only the order of the blocks and the transfer of their content vary
//! ([`mover::BlockMover`]). Everything here runs between operations.

pub mod balance;
pub mod collect;
pub mod collected;
pub mod mover;
pub mod partial;
pub mod partial_counters;
pub mod policy;
pub mod reuse;
pub mod review;
pub mod section_search;
#[cfg(test)]
mod tests;
pub mod unified;
mod units;

use nandkit_units::Nanos;

use crate::segments::Segments;

/// Why a section is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collection {
    /// Free sections are short: an operation waits.
    Foreground,
    /// The volume is idle.
    Background,
}

/// Which section is collected next.
pub trait VictimSearch: Send {
    /// A section with something to win that no log stands in, `None` where there is none.
    /// Background ones are noted ([`crate::segments::dirty::DirtySegments::choose`]), so that the
    /// foreground takes them first. `now` in the seconds of the checkpoint's clock.
    fn choose(&mut self, segments: &mut Segments, why: Collection, now: Nanos) -> Option<u32>;
}

/// The code of the guide page, which `cargo test` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/cleaning.md")]
struct GuideToCleaning;
