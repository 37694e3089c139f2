//! What a volume may hold behind a power cut: one promise for each way in which a format orders its
//! writes, and what judges it. The page docs/design/13-durability.md has the promises of all
//! formats.
//!
//! * [`History`] of a volume's states, with [`step`] which makes them, judges [`Promise::InOrder`]
//!   and [`Promise::SyncedOnly`]. A file is known by its owner, under whatever names: hard links,
//!   modes and extended attributes are judged too.
//! * [`per_file`] is the promise of a format that keeps no owners: a file is what its path leads
//!   to.
//! * [`flash_cuts`] cuts a volume on flash at its programs and erases.
//! * [`cut`] makes plans of cuts, and says which one failed.

pub mod cut;
pub mod flash_cuts;
mod history;
mod observed;
mod operations;
pub mod per_file;
mod state;

pub use history::{History, Promise};
pub use observed::{ObservedNode, ObservedTree, describe, observe};
pub use operations::step;
pub use state::{Node, State};
