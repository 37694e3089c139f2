//! The doors of `vfs` to all this.

use nandkit_flash::Flash;
use nandkit_units::Payload;
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, FileSystem, FsError, InodeNumber, Links, NewNode, OpenFiles,
    RenameFlags, Result, XattrChanges,
};

use super::allocate::Urgency;
use super::device;
use super::directory::number;
use crate::volume::Jffs2;

impl<F: Flash> Changes for Jffs2<F> {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.make(directory, name, node).map(|inode| InodeNumber(u64::from(inode)))
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.write_file(number(inode)?, offset, data)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        if *change != AttributeChange::default() {
            self.change(number(inode)?, change, Urgency::Normal)?;
        }
        self.stat(inode)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.unlink(directory, name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.move_name(from, to, flags)
    }

    fn sync(&mut self, _inode: Option<InodeNumber>) -> Result<()> {
        // One log: what an inode needs is not told apart from the rest.
        self.flush_all()?;
        self.medium.sync().map_err(device)
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
        self.add_name(inode, directory, name)
    }
}

impl<F: Flash> XattrChanges for Jffs2<F> {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        self.put_xattr(number(inode)?, name, value)
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.take_xattr(number(inode)?, name)
    }
}

impl<F: Flash> OpenFiles for Jffs2<F> {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let number = number(inode)?;
        self.body_mut(number)?;
        let inode = self.inode_mut(number)?;
        inode.retained = inode.retained.saturating_add(1);
        Ok(())
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let number = number(inode)?;
        let found = self.inode_mut(number)?;
        let left = found.retained.checked_sub(1);
        let Some(left) = left else {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("nobody retains inode {number}")));
        };
        found.retained = left;
        if left == 0 && found.links == 0 && number != crate::layout::ROOT {
            self.bury(number);
        }
        Ok(())
    }
}
