//! Flash translation layers: block devices over flash.
//!
//! [`BlockMapFtl`] maps whole blocks and writes updates into one log block per data block; its
//! recycling policies are those of P4 (`nandkit_cleaning::recycling`). [`FastFtl`] shares its log
//! blocks between all data blocks. Both tag every page in the OOB and rebuild their map from the
//! tags alone; `docs/design/02-block-map-protocol.md` numbers the rules that keep them safe across
//! power cuts. [`PageMapFtl`] maps every page, as an SSD does, with victim policies, data
//! separation, a journal of its map, demand-loaded mapping, and remapping.

mod base;
pub mod block_map;
mod chain;
mod failure;
pub mod fast;
mod host;
mod layer;
pub mod page_map;
mod present;
mod shape;
mod statistics;
mod tag;

pub use block_map::{BlockMapFtl, BlockMapOptions};
pub use fast::{FastFtl, FastOptions};
pub use page_map::{PageMapFtl, PageMapOptions};
pub use shape::LogicalCapacity;
pub use statistics::{AttachReport, FtlCounters, RecyclingEvent, RecyclingKind};
