//! The medium of a file-backed device: the few file operations that devices need, so that tests can
//! interrupt them.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use nandkit_units::Lba;

use crate::{BlockError, ErrorKind, Operation, Result};

/// A file or an equivalent. Reads may run in parallel.
///
/// **Promises of the implementer.** Written data read back at once. After a crash, each change
/// since the last `sync` may be present or not, in whole or in part, in any combination; all
/// earlier changes are present.
pub trait Medium: Send + Sync {
    /// Fills the buffer from `offset` on; an error if the medium ends before.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes at `offset`, growing the medium as needed.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the medium, or extends it with zeroes.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether its length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes every change durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn len(&self) -> io::Result<u64> {
        // A seek also returns the size of a device node, whose metadata say 0.
        io::Seek::seek(&mut &*self, io::SeekFrom::End(0))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading; several readers may have it open.
    ReadOnly,
    /// For reading and writing; no other process may have it open.
    ReadWrite,
}

/// An error of the operating system as a block error.
#[cold]
pub fn io_error(operation: Operation, at: Lba, what: impl Into<String>, source: io::Error) -> BlockError {
    BlockError::new(ErrorKind::Io, operation, at, what).caused_by(source)
}

/// The error for a file that holds no device that can be opened.
#[cold]
pub fn corrupt(path: &Path, detail: impl std::fmt::Display) -> BlockError {
    BlockError::new(ErrorKind::Corrupt, Operation::Open, Lba(0), format!("{}: {detail}", path.display()))
}

/// Opens an existing plain file or block device and takes its advisory lock. Refuses a second
/// writer, and a reader next to a writer.
pub fn open_locked(path: &Path, access: Access) -> Result<File> {
    let failed = |error| io_error(Operation::Open, Lba(0), format!("cannot open {}", path.display()), error);
    // Check before opening, which would block on a pipe until the other end opens.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "this is no plain file")));
    }
    let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path).map_err(failed)?;
    lock(&file, path, access)?;
    Ok(file)
}

/// Creates and locks a file; refuses an existing one.
pub fn create_locked(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| io_error(Operation::Open, Lba(0), format!("cannot create {}", path.display()), error))?;
    lock(&file, path, Access::ReadWrite)?;
    Ok(file)
}

fn lock(file: &File, path: &Path, access: Access) -> Result<()> {
    let locked = match access {
        Access::ReadOnly => file.try_lock_shared(),
        Access::ReadWrite => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let detail = format!("{} is in use: another process has it open", path.display());
            Err(BlockError::new(ErrorKind::Io, Operation::Open, Lba(0), detail))
        }
        // Some network file systems have no locks; that is no reason to refuse.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => {
            Err(io_error(Operation::Open, Lba(0), format!("cannot lock {}", path.display()), error))
        }
    }
}
