//! The drafts of files that are being written atomically.

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
    /// The inode that holds the content until it is committed.
    pub(crate) inode: InodeNumber,
    /// The open file that began it: its end is the draft's.
    pub(crate) handle: FileHandle,
    /// The process that began it, where the host tells: when it dies, the draft goes before its
    /// locks do.
    pub(crate) process: Option<u32>,
}

impl Drafts {
    /// The number of a file that is opened now.
    pub(crate) const fn handle(&mut self, writes: bool) -> FileHandle {
        self.handles = self.handles.wrapping_add(2);
        FileHandle(self.handles | writes as u64)
    }

    /// Where a file's content is.
    pub(crate) fn content(&self, file: InodeNumber) -> InodeNumber {
        self.of.get(&file).map_or(file, |draft| draft.inode)
    }

    /// Nobody holds this inode any more.
    pub(crate) fn forget(&mut self, file: InodeNumber) {
        self.of.remove(&file);
    }
}
