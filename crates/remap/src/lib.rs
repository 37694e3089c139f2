//! Many files as one, by remapping (P3): the pages of all files that are going to be read are
//! shared into one temporary file, in the order of reading, and that file is read in requests as
//! large as memory allows. The host's cost for each request is paid once for many small files.
//!
//! The paper's three functions: [`remap_create`], [`Remapped::remap_read`],
//! [`Remapped::remap_delete`]. A tool hands over its list of files, replaces its reads, and deletes
//! at its end; [`RemappedTree`] does so for whoever reads a tree. Any file system serves that tells
//! its extents and whose device can remap ([`nandkit_vfs::Adopt`]). Layout, windows and versions:
//! docs/design/17-remap-library.md.

mod remapped;
mod share;
mod temporary;
mod tree;

pub use remapped::{Remapped, remap_create};
pub use tree::RemappedTree;

/// What reading takes of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the buffer: a request is at most so large. A file that is read by itself takes as
    /// many besides.
    pub memory: usize,
    /// Bytes that are shared at a time. What the device or the volume has no room for is found out
    /// in any case.
    pub shared: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, shared: u64::MAX }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Files that were shared, each time that they were.
    pub files_shared: u64,
    /// Bytes of them, in whole units.
    pub bytes_shared: u64,
    /// Groups of files that were shared one behind the other.
    pub groups: u64,
    /// Adoptions that were refused: for room, or for a file that cannot be shared.
    pub refusals: u64,
    /// Requests to the temporary file.
    pub windows: u64,
    /// Files that were read by themselves: their content has no unit of its own, or no room.
    pub files_direct: u64,
    /// Files that were another version when their turn came, and were shared or read again.
    pub renewed: u64,
}
