//! F2FS, the flash-friendly file system of Linux, over any [`nandkit_block::BlockDevice`].
//!
//! The format in words, with sources: `docs/formats/f2fs.md`; the design in one screen: `docs/design/10-f2fs.md`.

pub mod bits;
mod block_cache;
pub mod blocks;
pub mod check;
pub mod checkpoint;
pub mod checkpoint_state;
pub mod clean;
mod compressed;
pub mod counters;
pub mod device;
pub mod directory;
pub mod encode;
mod extents;
pub(crate) mod findings;
mod fs_read;
mod fs_write;
pub mod ids;
pub mod inode;
pub mod layout;
pub mod meta;
pub mod mkfs;
pub mod names;
pub(crate) mod nat;
pub(crate) mod nids;
pub mod node;
mod number_map;
pub mod open;
mod over_time;
pub mod pages;
pub mod probe;
pub mod quota;
pub(crate) mod read;
pub mod recover;
mod runs;
pub mod segment_map;
pub mod segments;
mod volume;
pub mod write;
pub mod xattr;

pub use check::{Repair, check, repair};
pub use findings::{Defect, Defects, FindingKind};
pub use ids::{Block, BlockAddress, DataAddress, Log, NodeId, SegmentIndex};
pub use probe::probe;
pub use volume::{F2fs, MountOptions};
pub use write::{Volume, WriteOptions};
