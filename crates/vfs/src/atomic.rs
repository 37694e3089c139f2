//! Writes to a file that take effect as a whole or not at all, also across a power cut.

use crate::{InodeNumber, Result};

/// Atomic writes: a *draft* of a file collects writes, and is then committed or dropped (on Linux
/// F2FS_IOC_START_ATOMIC_WRITE and related calls, which SQLite uses).
///
/// A draft is an inode without a name. It starts with the file's content and shows what was written
/// to it since. [`crate::FileSystem::read`], [`crate::FileSystem::stat`] and
/// [`crate::Changes::write`] take its number, which only the caller that began it knows; all others
/// see the file unchanged. Nothing else changes a draft: setting a size, punching holes and
/// allocating ahead are refused with `NotSupported`. While a file has a draft, its own content and
/// size cannot change (`InvalidArgument`). A draft ends with its file, and with the mount.
pub trait AtomicWrites {
    /// Begins a draft of a regular file. Errors: `NotFound`, `IsADirectory`, `InvalidArgument`
    /// (another kind; the file has a draft or is one), `NotSupported` (content of this form cannot
    /// be written), `NoSpace`, `Corrupt`, `Device`. Cost: an inode, and writing the file's changes
    /// that wait in memory.
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber>;

    /// Replaces the file's content with the draft's, atomically and durably; the draft ends. A
    /// power cut before this call returns leaves the file wholly old or wholly new; after it, the
    /// file is new. Errors: `NotFound` (the draft is gone), `InvalidArgument` (no draft), `NoSpace`
    /// (file and draft are as before), `Corrupt`, `Device`. Cost: the draft's changes that wait in
    /// memory, the file's nodes, and a flush.
    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()>;

    /// Drops a draft and leaves the file as it was. Errors: `NotFound`, `InvalidArgument` (no
    /// draft), `Corrupt`, `Device`. Cost: that of giving back the draft's space.
    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()>;
}
