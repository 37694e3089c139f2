//! Changes since the last checkpoint that affect an fsync (f2fs-writing.md, "fsync").

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::NodeId;

/// Changes since the last checkpoint that roll-forward could not repeat, and copies that are not
/// yet durable.
#[derive(Debug)]
pub(crate) struct SinceCheckpoint {
    /// `fsync_mode=strict`: the lost name of any file counts, not only of a directory.
    strict: bool,
    /// Directories whose attributes changed.
    xattr_directories: BTreeSet<NodeId>,
    /// Files whose trees lost nodes that are on the device, or got blocks that the device shares:
    /// roll-forward learns of neither.
    pruned: BTreeSet<NodeId>,
    /// Directories that lost a name, and whether any of the names was a directory's.
    lost_names: BTreeMap<NodeId, bool>,
    /// Files whose durable content was copied to other blocks since the last flush, by the
    /// collector or out of the inode. The copies must be durable before the nodes that refer to
    /// them.
    copied: BTreeSet<NodeId>,
}

impl SinceCheckpoint {
    pub fn new(strict: bool) -> Self {
        let (xattr_directories, pruned, copied) = Default::default();
        Self { strict, xattr_directories, pruned, lost_names: BTreeMap::new(), copied }
    }

    /// Notes that a directory's attributes changed: an fsync of anything in it must be a
    /// checkpoint.
    pub fn xattrs_changed(&mut self, directory: NodeId) {
        self.xattr_directories.insert(directory);
    }

    /// Notes that a file's tree lost nodes that are on the device, or got shared blocks.
    pub fn pruned(&mut self, ino: NodeId) {
        self.pruned.insert(ino);
    }

    /// Notes that a directory lost a name, by rename or removal.
    pub fn lost_name(&mut self, directory: NodeId, name_of_directory: bool) {
        *self.lost_names.entry(directory).or_default() |= name_of_directory;
    }

    /// Notes that durable content of a file was copied to other blocks.
    pub fn copied(&mut self, ino: NodeId) {
        self.copied.insert(ino);
    }

    /// Whether a file has copies that must be flushed before its nodes are written.
    pub fn has_copies(&self, ino: NodeId) -> bool {
        self.copied.contains(&ino)
    }

    /// Whether an fsync of a file must be a checkpoint. `is_new`: the last checkpoint has no name
    /// of the file in `parent`. A checkpoint is also needed if the file may have a name that
    /// belongs to a directory in the last checkpoint: Linux's recovery would unlink that directory,
    /// whatever it contains.
    pub fn fsync_is_checkpoint(&self, ino: NodeId, parent: NodeId, is_new: bool) -> bool {
        let lost_name = || self.lost_names.get(&parent).is_some_and(|of_directory| *of_directory || self.strict);
        self.pruned.contains(&ino) || self.xattr_directories.contains(&parent) || is_new && lost_name()
    }

    /// Forgets a file that is gone, since its number may be reused.
    pub fn forget(&mut self, ino: NodeId) {
        self.pruned.remove(&ino);
    }

    /// Notes that the device was flushed, so that all copies are durable.
    pub fn flushed(&mut self) {
        self.copied.clear();
    }

    /// Forgets everything after a checkpoint.
    pub fn clear(&mut self) {
        *self = Self::new(self.strict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_roll_forward_cannot_repeat_needs_a_checkpoint() {
        let (file, other, directory) = (NodeId(4), NodeId(5), NodeId(3));
        let mut since = SinceCheckpoint::new(false);
        assert!(!since.fsync_is_checkpoint(file, directory, true));
        since.pruned(file);
        assert!(since.fsync_is_checkpoint(file, directory, false));
        assert!(!since.fsync_is_checkpoint(other, directory, false));
        since.forget(file);
        assert!(!since.fsync_is_checkpoint(file, directory, false));
        since.xattrs_changed(directory);
        assert!(since.fsync_is_checkpoint(other, directory, false));
        since.clear();
        assert!(!since.fsync_is_checkpoint(other, directory, false));
    }

    #[test]
    fn a_lost_name_counts_for_new_files_and_by_its_kind() {
        let (file, directory) = (NodeId(4), NodeId(3));
        for strict in [false, true] {
            let mut since = SinceCheckpoint::new(strict);
            since.lost_name(directory, false);
            assert_eq!(since.fsync_is_checkpoint(file, directory, true), strict);
            since.lost_name(directory, true);
            since.lost_name(directory, false);
            assert!(since.fsync_is_checkpoint(file, directory, true));
            assert!(!since.fsync_is_checkpoint(file, directory, false));
        }
    }

    #[test]
    fn a_flush_makes_copies_durable() {
        let mut since = SinceCheckpoint::new(false);
        since.copied(NodeId(4));
        assert!(since.has_copies(NodeId(4)));
        since.flushed();
        assert!(!since.has_copies(NodeId(4)));
    }
}
