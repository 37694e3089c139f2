//! Making volumes from trees.

use std::path::Path;

use nandkit_vfs::Timestamp;
use nandkit_vfs::source::SourceTree;

use super::fact::Fact;
use crate::StackError;

/// A volume to make: a format with all its options.
pub trait BuildVolume {
    /// Refuses invalid options before anything is read or written.
    fn check(&self) -> Result<(), StackError>;

    /// Overwrites an existing regular file with a volume that holds the tree, or with an empty
    /// volume. `progress` is called with the number of file bytes written. Errors: an invalid
    /// option; a tree that the format cannot hold (names the path); a volume that is too small, or
    /// larger than its device; errors of the tree and of the file.
    fn build(
        &self,
        tree: Option<&dyn SourceTree>,
        path: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Built, StackError>;

    /// Whether the volume can hold this time exactly.
    fn holds_time(&self, _time: Timestamp) -> bool {
        true
    }

    /// The times that it cannot hold, in words.
    fn times_not_held(&self) -> &'static str {
        ""
    }
}

/// The result of making a volume.
pub struct Built {
    /// A summary in one line.
    pub line: String,
    /// The summary as JSON members.
    pub facts: Vec<Fact>,
}
