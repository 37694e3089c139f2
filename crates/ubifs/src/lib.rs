//! UBIFS as Linux has it, over logical erase blocks ([`Lebs`]): read, with replay of the journal.
//!
//! [`Ubifs::mount`] reads the superblock, the newest master node and the index, and applies the
//! journal in memory; nothing is written.
//!
//! Design: `docs/design/20-ubi.md`; facts of the format: `docs/formats/ubifs.md`.

mod check;
mod damage;
mod encode;
mod files;
mod journal;
pub mod layout;
mod lebs;
mod lpt;
mod mkfs;
mod mount;
mod node;
mod pack;
mod probe;
mod properties;
mod read;
mod recovery;
mod repair;
mod replay;
mod sums;
mod superblock;
mod tree;
mod walk;
mod write;
mod xattr;

pub use damage::DamageKind;
pub use lebs::{LebBytes, LebWriter, Lebs};
pub use mkfs::{BuildOptions, BuildReport, LebSink, build};
pub use mount::{Ubifs, VolumeFacts};
pub use probe::{PROBE_BYTES, begins_with_superblock, is_superblock_damaged, probe};
pub use repair::{Repaired, repair};
pub use write::{WriteCounters, WriteOptions};
