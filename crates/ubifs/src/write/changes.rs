//! The writing side of the `vfs` contract.

use nandkit_units::Payload;
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, FileSystem, FsError, InodeNumber, Links, NewNode, OpenFiles,
    RenameFlags, Result, XattrChanges,
};

use super::buffers::{BASE_HEAD, DATA_HEAD};
use crate::mount::Ubifs;

impl Ubifs {
    /// Makes an inode durable: it and what the heads hold are written (Linux `ubifs_fsync`).
    fn sync_inode(&mut self, inode: InodeNumber) -> Result<()> {
        let number = self.number(inode)?;
        self.flush_pages(number)?;
        self.flush_inode(number, true)?;
        self.flush_head(DATA_HEAD)?;
        self.flush_head(BASE_HEAD)
    }

    /// Ends the changes: all is written, and the volume is clean. Errors: as [`Changes::sync`].
    pub fn unmount(&mut self) -> Result<()> {
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(()) };
        writer.retained.clear();
        for inode in writer.orphans.clone() {
            self.delete_orphan(inode)?;
        }
        Changes::sync(self, None)?;
        self.write_master(false)?;
        self.writer = None;
        self.lebs.writer()?.sync()
    }
}

impl Changes for Ubifs {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.make(directory, name, node).map(|number| InodeNumber(number.into()))
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        self.write_file(inode, offset, data)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        if *change != AttributeChange::default() {
            self.change(inode, change)?;
        }
        self.stat(inode)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.unlink(directory, name)
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.move_name(from, to, flags)
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        self.writer()?;
        match inode {
            Some(inode) => self.sync_inode(inode)?,
            // Linux commits when all is synced (`ubifs_sync_fs`).
            None if self.writer()?.is_changed => {
                self.flush_all_pages()?;
                self.commit()?;
            }
            None => {}
        }
        self.lebs.writer()?.sync()
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

impl Links for Ubifs {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.add_name(inode, directory, name)
    }
}

impl OpenFiles for Ubifs {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        let number = self.number(inode)?;
        self.inode(number)?;
        *self.writer()?.retained.entry(number).or_default() += 1;
        Ok(())
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let number = self.number(inode)?;
        let writer = self.writer()?;
        let Some(count) = writer.retained.get_mut(&number) else {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {number} is not retained")));
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        writer.retained.remove(&number);
        match writer.orphans.contains(&number) {
            true => self.delete_orphan(number),
            false => Ok(()),
        }
    }
}
