//! The promises of formats about power cuts, one for each way in which a format orders its writes,
//! and the checks of them. The page docs/design/13-durability.md has the promises of all formats.
//!
//! * [`History`] of a volume's states, with [`step`] which makes them, judges [`Promise::InOrder`]
//!   and [`Promise::SyncedOnly`]. A file is identified by its owner, whatever its names: hard
//!   links, modes and extended attributes are checked, too.
//! * [`per_file`] is the promise of a format that stores no owners: a file is identified by its
//!   path.
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
