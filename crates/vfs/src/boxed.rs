//! [`FileSystem`](crate::FileSystem) for boxed file systems.

use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;

use crate::{
    Attributes, Changes, DirectoryEntry, Extents, FileSystem, InodeNumber, Result, Symlinks, VolumeStatus, Xattrs,
};

impl<F: FileSystem + ?Sized> FileSystem for Box<F> {
    fn root(&self) -> InodeNumber {
        (**self).root()
    }

    fn volume(&self) -> Result<VolumeStatus> {
        (**self).volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        (**self).lookup(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        (**self).stat(inode)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        (**self).read_dir(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        (**self).read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        (**self).data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        (**self).changes()
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        (**self).symlinks()
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        (**self).xattrs()
    }

    fn extents(&self) -> Option<&dyn Extents> {
        (**self).extents()
    }
}
