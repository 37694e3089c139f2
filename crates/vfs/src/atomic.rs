//! Writes to a file that happen all or not at all, also across a power cut.

use crate::{InodeNumber, Result};

/// Atomic writes: a *draft* of a file takes them, and is committed or dropped (on Linux
/// F2FS_IOC_START_ATOMIC_WRITE and its sisters, which SQLite asks for).
///
/// A draft is an inode without a name that reads as the file did when it was begun, with what was
/// written to it since. [`crate::FileSystem::read`], [`crate::FileSystem::stat`] and
/// [`crate::Changes::write`] take its number, which only who began it knows; everybody else sees
/// the file. Nothing else changes a draft: a size, holes and space ahead are refused as
/// `NotSupported`. While a file has a draft, its own content and size are not changed
/// (`InvalidArgument`). A draft is gone when its file is, and with the mount.
pub trait AtomicWrites {
    /// Begins a draft of a regular file. Errors: `NotFound`, `IsADirectory`, `InvalidArgument`
    /// (another kind; the file has a draft, or is one), `NotSupported` (content that is not
    /// written), `NoSpace`, `Corrupt`, `Device`. Cost: an inode, and what of the file waits in
    /// memory.
    fn begin_atomic(&mut self, inode: InodeNumber) -> Result<InodeNumber>;

    /// The file is what its draft is, at once and durably; the draft is gone. Across a power cut
    /// before the end of this call the file is wholly old or wholly new, and new behind it. Errors:
    /// `NotFound` (the draft is gone), `InvalidArgument` (no draft), `NoSpace` (file and draft are
    /// as before), `Corrupt`, `Device`. Cost: what of the draft waits in memory, the file's nodes,
    /// and a flush.
    fn commit_atomic(&mut self, draft: InodeNumber) -> Result<()>;

    /// Drops a draft: the file is as it was. Errors: `NotFound`, `InvalidArgument` (no draft),
    /// `Corrupt`, `Device`. Cost: what giving back its space takes.
    fn abort_atomic(&mut self, draft: InodeNumber) -> Result<()>;
}
