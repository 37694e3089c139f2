//! Reads many files as one by remapping (P3): the pages of all files are shared into one temporary
//! file, in reading order, and that file is read in requests as large as memory allows. The host's
//! cost per request is paid once for many small files.
//!
//! The paper's three functions: [`remap_create`], [`Remapped::remap_read`],
//! [`Remapped::remap_delete`]. A tool passes its list of files, replaces its reads, and deletes the
//! temporary file at the end; [`RemappedTree`] does this for readers of a tree. Any file system
//! works that reports its extents and whose device can remap ([`nandkit_vfs::Adopt`]). Layout,
//! windows and versions: docs/design/17-remap-library.md.

mod remapped;
mod share;
mod temporary;
mod tree;

pub use remapped::{Remapped, remap_create};
pub use tree::RemappedTree;

/// Limits of memory and space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the buffer in bytes, which is the largest request. A file that is read separately
    /// takes as much in addition.
    pub memory: usize,
    /// Largest number of bytes shared at a time. Limits of the device and the volume are found
    /// automatically.
    pub shared: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, shared: u64::MAX }
    }
}

/// Counters of shared and read files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Shared files, counted each time.
    pub files_shared: u64,
    /// Bytes of shared files, in whole units.
    pub bytes_shared: u64,
    /// Groups of files that were shared one after the other.
    pub groups: u64,
    /// Refused adoptions, for lack of space or because of a file that cannot be shared.
    pub refusals: u64,
    /// Requests to the temporary file.
    pub windows: u64,
    /// Files that were read separately, because their content has no whole unit, or for lack of
    /// space.
    pub files_direct: u64,
    /// Files that had changed when their turn came, and were shared or read again.
    pub renewed: u64,
}
