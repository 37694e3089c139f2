//! FAT12, FAT16 and FAT32 with long names over a [`BlockDevice`](nandkit_block::BlockDevice).
//! Writes are ordered so that a power cut costs at most lost clusters.
//!
//! Changes collect in a batch in memory and reach the device in phases (`sectors.rs`); the
//! [`Cache`] option determines whether after each operation or several together.
//! `docs/formats/fat.md` describes the layout, the order of writes, and the possible states after a
//! power cut.

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
