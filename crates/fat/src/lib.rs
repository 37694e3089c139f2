//! FAT12, FAT16 and FAT32 with long names over a [`BlockDevice`](nandkit_block::BlockDevice),
//! ordered so that a power cut costs at most lost clusters.
//!
//! Changes gather in a batch in memory and reach the device in phases (`sectors.rs`), each
//! operation at once or many together as the [`Cache`] says. `docs/formats/fat.md` has the layout,
//! the order and what a cut can leave.

mod allocate;
mod bpb;
mod chain;
mod change;
mod check;
mod deleted;
mod directory;
mod extents;
mod file_system;
mod format;
mod inode;
mod layout;
mod mount;
mod names;
mod options;
mod patch;
mod preallocated;
mod probe;
mod read;
mod recover;
mod rename;
mod sectors;
mod survey;
mod table;
mod time;
mod volume;
mod write;

pub use bpb::{FatKind, Geometry};
pub use check::{FindingKind, check};
pub use deleted::{CONTENT_MAX, DeletedEntry, Doubt};
pub use file_system::Fat;
pub use format::{Alignment, FormatOptions, format};
pub use options::{Cache, FileSync, MountOptions, WriteBack};
pub use probe::{probe, signature};
pub use recover::RecoveryReport;
