//! Detects that a mapped file was shortened.
//!
//! A program that ignores the lock may shorten an image while it is mapped; reading the lost part
//! through the map then kills the process (SIGBUS). For long-lived maps, as under a mount, pages
//! are therefore read from the file, and before bytes are read through the map the file's length is
//! checked: the loss is then a device error, and the rest stays readable. In the microseconds
//! between check and access the file could still be shortened.
//! shortened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is mapped for a long time.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    /// Length of the map: that of the file when it was opened.
    length: u64,
}

impl Backing {
    /// Wraps a file. Errors: no descriptor is left.
    pub fn new(file: &File) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, length: file.metadata()?.len() })
    }

    /// Checks the file's length. Errors: the file is shorter than before. Cost: a system call.
    pub fn check(&self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length < self.length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "another program has shortened the file: it has {length} bytes, expected the {} that it had when it was opened",
                    self.length
                ),
            ));
        }
        Ok(())
    }

    /// Reads bytes of the file. Errors: the file is shorter than before, or a system error.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.check().err().unwrap_or(error),
            _ => error,
        })
    }
}
