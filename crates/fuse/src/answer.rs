//! Results of requests.

use fuser::Errno;
use nandkit_vfs::{ErrorKind, FsError};

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the file system, which the table translates to an error number.
    FileSystem(FsError),
    /// A refusal by this crate.
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
    /// Whether the file system does not support the operation.
    pub(crate) fn is_not_supported(&self) -> bool {
        matches!(self, Self::FileSystem(error) if error.kind == ErrorKind::NotSupported)
    }
}

/// The result of work under the lock.
pub(crate) type FaultResult<T> = Result<T, Fault>;

/// The answer to the kernel.
pub(crate) type Answer<T> = Result<T, Errno>;
