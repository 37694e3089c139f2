//! The file behind a map, asked whether it still reaches as far as the map.
//!
//! A program that ignores the lock may shorten an image while it is mapped, and whoever reads the
//! lost part through the map is ended by the kernel (SIGBUS). Where a map lasts, as under a mount,
//! pages are read from the file instead, and where bytes have to come through the map the file's
//! length is asked first: the loss is an error of the device, and what is still there can be read.
//! Between the question and the bytes there are microseconds in which a file could still be
//! shortened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is mapped for long.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    /// Length of the map, which is the file's at its opening.
    length: u64,
}

impl Backing {
    /// Errors: no descriptor is left.
    pub fn new(file: &File) -> io::Result<Self> {
        Ok(Self { file: file.try_clone()?, length: file.metadata()?.len() })
    }

    /// Errors: the file is shorter than it was. Cost: a system call.
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

    /// Reads bytes of the file. Errors: the file is shorter than it was, or the system's own.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.check().err().unwrap_or(error),
            _ => error,
        })
    }
}
