//! F2FS, the flash-friendly file system of Linux, over any [`nandkit_block::BlockDevice`].
//!
//! The format in words, with sources: `docs/formats/f2fs.md`; the design in one screen:
//! `docs/design/10-f2fs.md`.

mod bits;
mod blocks;
pub mod check;
mod checkpoint;
mod checkpoint_state;
pub mod clean;
mod compressed;
mod counters;
mod device;
mod directory;
mod encode;
mod extents;
mod findings;
mod fs_read;
mod fs_write;
mod ids;
mod inode;
pub mod layout;
mod meta;
pub mod mkfs;
mod names;
mod nat;
mod nids;
mod node;
mod open;
mod over_time;
mod pages;
pub mod probe;
mod quota;
mod read;
pub mod recover;
mod rescue;
mod runs;
pub mod segment_map;
pub mod segments;
#[cfg(feature = "testing")]
pub mod testing;
mod volume;
pub mod write;
mod xattr;

pub use blocks::{Blocks, Nodes};
pub use check::{Repair, check, repair};
pub use checkpoint_state::{CheckpointState, LogState};
pub use findings::{Defect, Defects, FindingKind};
pub use ids::{Block, BlockAddress, DataAddress, Log, NodeId, SegmentIndex};
pub use inode::Inode;
pub use open::WhichCopy;
pub use probe::probe;
pub use rescue::{DeletedContent, DeletedInode, Doubt, RescuedFile, RescuedVolume};
pub use volume::{Access, Counts, F2fs, MountOptions, MountedVolume, ReadOnly};
pub use write::{WritableVolume, WriteOptions};
