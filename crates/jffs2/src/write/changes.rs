//! The writing side of the `vfs` contract.

use nandkit_flash::Flash;
use nandkit_units::Payload;
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, FileSystem, FsError, InodeNumber, Links, NewNode, OpenFiles,
    RenameFlags, Result, XattrChanges,
};

use super::allocate::Urgency;
use super::device;
use crate::volume::Jffs2;

impl<F: Flash> Jffs2<F> {
    /// Makes a change, and publishes the counters.
    fn counted<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = change(self);
        if let Some(writer) = self.writer.as_deref() {
            writer.publish();
        }
        result
    }
}

impl<F: Flash> Changes for Jffs2<F> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.counted(|fs| fs.make(directory, name, node)).map(InodeNumber::from)
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.counted(|fs| {
            let number = fs.living(inode)?;
            fs.write_file(number, offset, data)
        })
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        if *change != AttributeChange::default() {
            self.counted(|fs| {
                let number = fs.living(inode)?;
                fs.change(number, change, Urgency::Normal)
            })?;
        }
        self.stat(inode)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.counted(|fs| fs.unlink(directory, name))
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.counted(|fs| fs.move_name(from, to, flags))
    }

    fn sync(&mut self, _inode: Option<InodeNumber>) -> Result<()> {
        // There is a single log: an inode's changes cannot be separated from the rest.
        self.counted(|fs| {
            fs.flush_all()?;
            fs.medium.sync().map_err(device)
        })
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        Some(self)
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        Some(self)
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        Some(self)
    }
}

impl<F: Flash> Links for Jffs2<F> {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.counted(|fs| fs.add_name(inode, directory, name))
    }
}

impl<F: Flash> XattrChanges for Jffs2<F> {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        self.counted(|fs| {
            let number = fs.living(inode)?;
            fs.put_xattr(number, name, value)
        })
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.counted(|fs| {
            let number = fs.living(inode)?;
            fs.take_xattr(number, name)
        })
    }
}

impl<F: Flash> OpenFiles for Jffs2<F> {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let number = self.living(inode)?;
        self.body_mut(number)?;
        let inode = self.inode_mut(number)?;
        inode.retained = inode.retained.saturating_add(1);
        Ok(())
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let number = self.living(inode)?;
        let found = self.inode_mut(number)?;
        let left = found.retained.checked_sub(1);
        let Some(left) = left else {
            return Err(FsError::new(
                ErrorKind::InvalidArgument,
                format!("inode {number} is released more often than retained"),
            ));
        };
        found.retained = left;
        if left == 0 && found.links == 0 && number != crate::layout::ROOT {
            self.bury(number);
        }
        Ok(())
    }
}
