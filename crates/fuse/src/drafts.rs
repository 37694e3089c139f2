//! Drafts of atomic writes.

use std::collections::BTreeMap;

use fuser::FileHandle;
use nandkit_vfs::InodeNumber;

/// Drafts by their files.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    pub(crate) of: BTreeMap<InodeNumber, Draft>,
    handles: u64,
}

/// One file's draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    /// The inode that holds the new content until the commit.
    pub(crate) inode: InodeNumber,
    /// The open file that began it; closing it drops the draft.
    pub(crate) handle: FileHandle,
    /// The process that began it, if known; when it exits, the draft is dropped before its locks.
    pub(crate) process: Option<u32>,
}

impl Drafts {
    /// A new handle number for a file being opened.
    pub(crate) const fn handle(&mut self, writes: bool) -> FileHandle {
        self.handles = self.handles.wrapping_add(2);
        FileHandle(self.handles | writes as u64)
    }

    /// The inode that holds a file's content.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.of.get(&file).map_or(file, |draft| draft.inode)
    }

    /// Removes an inode that the kernel no longer holds.
    pub(crate) fn forget(&mut self, file: InodeNumber) {
        self.of.remove(&file);
    }
}
