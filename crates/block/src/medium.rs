//! What lies under a device in a file: the few operations of a file that the devices need, so that
//! tests can cut them off.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use nandkit_units::Lba;

use crate::{BlockError, ErrorKind, Operation, Result};

/// A file, or something like it. Reads may run in parallel.
///
/// **Promises of the implementer.** What was written reads back at once. After a crash any of the
/// changes since the last `sync` may be there or not, in whole or in part, in any combination;
/// those before it are all there.
pub trait Medium: Send + Sync {
    /// Fills the buffer from `offset` on; an error where the medium ends before.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes at `offset`, growing the medium as needed.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes it shorter, or longer with zeroes.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it holds nothing.
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
        // A seek also tells the size of a device node, whose metadata say 0.
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
    /// For reading and writing; nobody else may have it open.
    ReadWrite,
}

/// The operating system's refusal.
#[cold]
pub fn io_error(operation: Operation, at: Lba, what: impl Into<String>, source: io::Error) -> BlockError {
    BlockError::new(ErrorKind::Io, operation, at, what).caused_by(source)
}

/// A file that holds no device that can be opened.
#[cold]
pub fn corrupt(path: &Path, detail: impl std::fmt::Display) -> BlockError {
    BlockError::new(ErrorKind::Corrupt, Operation::Open, Lba(0), format!("{}: {detail}", path.display()))
}

/// Opens an existing plain file or block device and takes its advisory lock. A second writer is
/// refused, and so is a reader beside a writer.
pub fn open_locked(path: &Path, access: Access) -> Result<File> {
    let failed = |error| io_error(Operation::Open, Lba(0), format!("cannot open {}", path.display()), error);
    // Asked before the opening, which on a pipe would wait for its other end.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "this is no plain file")));
    }
    let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path).map_err(failed)?;
    lock(&file, path, access)?;
    Ok(file)
}

/// Makes a new file, locked; refuses an existing one.
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
        // Some network file systems know no locks; that is no reason to refuse.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => {
            Err(io_error(Operation::Open, Lba(0), format!("cannot lock {}", path.display()), error))
        }
    }
}
