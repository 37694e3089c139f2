//! Volumes that are made from trees.

use std::path::Path;

use nandkit_vfs::Timestamp;
use nandkit_vfs::source::SourceTree;

use super::fact::Fact;
use crate::StackError;

/// A volume that is to be made: a format with all its options.
pub trait BuildVolume {
    /// Refuses options that cannot be, before anything is read or written.
    fn check(&self) -> Result<(), StackError>;

    /// Makes an existing plain file, whatever it holds, a volume with a tree, or an empty one.
    /// `progress` hears how many bytes of files are done. Errors: an option that cannot be, a tree
    /// that the format cannot hold (which path), a volume that is too small, or larger than its
    /// device; then what the tree and the file say.
    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError>;

    /// Whether the volume holds this time as it is.
    fn holds_time(&self, _time: Timestamp) -> bool {
        true
    }

    /// Which times it does not hold, in words.
    fn times_not_held(&self) -> &'static str {
        ""
    }
}

/// A volume that was made.
pub struct Built {
    /// What it came to, in a line.
    pub line: String,
    /// The same for programs.
    pub facts: Vec<Fact>,
}
