//! A view that changes nothing.

use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;

use crate::{
    Attributes, Changes, DirectoryEntry, Extents, FileSystem, InodeNumber, Result, Symlinks, VolumeStatus, Xattrs,
};

/// A file system without its writing side.
#[derive(Clone, Debug)]
pub struct ReadOnly<F>(
    /// The whole file system.
    pub F,
);

impl<F: FileSystem> FileSystem for ReadOnly<F> {
    fn root(&self) -> InodeNumber {
        self.0.root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.0.volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.0.lookup(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        self.0.stat(inode)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.0.read_dir(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.0.read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        self.0.data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.0.symlinks()
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.0.xattrs()
    }

    fn extents(&self) -> Option<&dyn Extents> {
        self.0.extents()
    }
}
