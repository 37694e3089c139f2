//! F2FS, the flash-friendly file system of Linux, over any [`nandkit_block::BlockDevice`].
//!
//! The format in words, with sources: `docs/formats/f2fs.md`; the design in one screen: `docs/design/10-f2fs.md`.

pub mod bits;
pub mod blocks;
pub mod checkpoint_state;
pub mod findings;
pub mod ids;
pub mod layout;
pub mod segments;
pub mod sit;

pub use findings::{Finding, FindingKind, Findings};
pub use ids::{Block, BlockAddress, DataAddress, Log, NodeId, SegmentIndex};
