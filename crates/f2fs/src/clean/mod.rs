//! Cleaning: which section is collected, when, and how its live blocks move (f2fs-writing.md,
//! "Collection").
//!
//! Whether a block is live, where it goes and how the map is updated is the same for every cleaner
//! ([`collect`]); only the order of the blocks and the transfer of their content vary
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

/// Why a section is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collection {
    /// Free sections are short, and an operation waits.
    Foreground,
    /// The volume is idle.
    Background,
}

/// Chooses the section to collect next.
pub trait VictimSearch: Send {
    /// A section worth collecting that no log writes to; `None` if there is none. A section chosen
    /// in the background is noted ([`crate::segments::dirty::DirtySegments::choose`]), so that the
    /// foreground takes it first. `now` is in seconds of the checkpoint's clock.
    fn choose(&mut self, segments: &mut Segments, why: Collection, now: Nanos) -> Option<u32>;
}

/// The code of the guide page, compiled and run by `cargo test`.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/cleaning.md")]
struct GuideToCleaning;
