//! A file system seen from one of its directories, so that each further run on an existing volume
//! works in a directory of its own.

use std::ops::{ControlFlow, Range};

use nandkit_units::{Payload, ReadInto};
use nandkit_vfs::{
    Adopt, Allocation, AtomicWrites, AttributeChange, Attributes, Changes, DirectoryEntry, ErrorKind, Extents,
    FileSystem, Holes, Housekeeping, InodeNumber, Links, NewNode, OpenFiles, RenameFlags, Result, Symlinks,
    VolumeStatus, XattrChanges, Xattrs,
};

use crate::mounted::MountedFileSystem;

/// A file system whose root is the directory `root`.
struct InDirectory<F> {
    fs: F,
    root: InodeNumber,
}

/// Returns the file system itself if its root is empty, otherwise with a new directory `run-2`,
/// `run-3`, ... as its root. Files of earlier runs are kept.
pub(crate) fn for_next_run<F: MountedFileSystem + Changes + 'static>(mut fs: F) -> Result<Box<dyn MountedFileSystem>> {
    let root = fs.root();
    let mut is_empty = true;
    fs.read_dir(root, 0, &mut |_| {
        is_empty = false;
        ControlFlow::Break(())
    })?;
    if is_empty {
        return Ok(Box::new(fs));
    }
    let mut run = 2_u32;
    loop {
        let name = format!("run-{run}");
        match fs.create(root, name.as_bytes(), &NewNode::DIRECTORY) {
            Ok(directory) => return Ok(Box::new(InDirectory { fs, root: directory })),
            Err(error) if error.kind == ErrorKind::Exists && run < u32::MAX => run += 1,
            Err(error) => return Err(error),
        }
    }
}

impl<F: MountedFileSystem + Changes> MountedFileSystem for InDirectory<F> {
    fn unmount(&mut self) -> Result<()> {
        self.fs.unmount()
    }
}

impl<F: Changes> FileSystem for InDirectory<F> {
    fn root(&self) -> InodeNumber {
        self.root
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.fs.volume()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.fs.lookup(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        self.fs.stat(inode)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.fs.read_dir(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.fs.read(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        self.fs.data_after(inode, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        if self.fs.changes().is_some() { Some(self) } else { None }
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.fs.symlinks()
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.fs.xattrs()
    }

    fn extents(&self) -> Option<&dyn Extents> {
        self.fs.extents()
    }
}

impl<F: Changes> Changes for InDirectory<F> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.fs.create(directory, name, node)
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.fs.write(inode, offset, data)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        self.fs.set_attributes(inode, change)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.remove(directory, name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.fs.rename(from, to, flags)
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        self.fs.sync(inode)
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        self.fs.open_files()
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        self.fs.links()
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        self.fs.xattr_changes()
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        self.fs.allocation()
    }

    fn holes(&mut self) -> Option<&mut dyn Holes> {
        self.fs.holes()
    }

    fn adopt(&mut self) -> Option<&mut dyn Adopt> {
        self.fs.adopt()
    }

    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        self.fs.atomic_writes()
    }

    fn housekeeping(&mut self) -> Option<&mut dyn Housekeeping> {
        self.fs.housekeeping()
    }
}
