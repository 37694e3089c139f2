//! What a request comes to.

use fuser::Errno;
use nandkit_vfs::{ErrorKind, FsError};

/// Why a request fails.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file system refused; the table says with which number.
    FileSystem(FsError),
    /// The door itself refused.
    Door(Errno),
}

impl From<FsError> for Fault {
    fn from(error: FsError) -> Self {
        Self::FileSystem(error)
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Door(errno)
    }
}

impl Fault {
    /// Whether the file system says that it cannot do that at all.
    pub(crate) fn is_not_supported(&self) -> bool {
        matches!(self, Self::FileSystem(error) if error.kind == ErrorKind::NotSupported)
    }
}

/// What work under the lock comes to.
pub(crate) type FaultResult<T> = Result<T, Fault>;

/// What the kernel is told.
pub(crate) type Answer<T> = Result<T, Errno>;
