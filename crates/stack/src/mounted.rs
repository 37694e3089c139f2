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

/// A file system that can be unmounted.
pub trait MountedFileSystem: FileSystem {
    /// Losses found by the mount, a sentence each; those explained by an unfinished change are left
    /// out.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes all changes durable and leaves a volume that needs no repair.
    fn unmount(&mut self) -> nandkit_vfs::Result<()>;
}

impl MountedFileSystem for ModelFileSystem {
    /// The model file system is lost at the end of the run.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Ok(())
    }
}
