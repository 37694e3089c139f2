//! The top of a stack: a file system, or a block device.

use nandkit_vfs::FileSystem;
use nandkit_vfs::model::ModelFileSystem;

use crate::device_handle::DeviceHandle;

/// The top of a stack.
pub enum Mounted {
    /// A file system.
    Files(Box<dyn MountedFileSystem>),
    /// A block device.
    Blocks(DeviceHandle),
}

/// A file system that knows an orderly end.
pub trait MountedFileSystem: FileSystem {
    /// What its mount found lost, or had to take away, that an unfinished change does not explain:
    /// a sentence each.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes everything durable and leaves the volume as one that needs no repair.
    fn unmount(&mut self) -> nandkit_vfs::Result<()>;
}

impl MountedFileSystem for ModelFileSystem {
    /// Nothing of it outlives the run.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Ok(())
    }
}
