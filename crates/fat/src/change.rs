//! Creating and removing names, and changing attributes.

use nandkit_block::BlockDevice;
use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, FsError, NewNode, Result};

use crate::inode::{Inode, ROOT};
use crate::layout::{ShortEntry, attribute};
use crate::names::Name;
use crate::patch::{Patch, Phase};
use crate::time;
use crate::volume::MountedVolume;

impl<D: BlockDevice> MountedVolume<D> {
    /// The slot and inode of a name.
    pub fn lookup(&mut self, directory: u64, name: &[u8]) -> Result<(u32, u64)> {
        let not_found = || {
            let detail = format!("no {:?} in directory {directory}", String::from_utf8_lossy(name));
            FsError::new(ErrorKind::NotFound, detail)
        };
        self.directory(directory)?;
        let name = Name::new(name)?;
        let index = self.directory(directory)?;
        let slot = index.find(&name.key()).ok_or_else(not_found)?;
        let inode = index.entries.get(&slot).map(|entry| entry.inode).ok_or_else(not_found)?;
        Ok((slot, inode))
    }

    /// Makes a file or directory.
    pub fn create(&mut self, directory: u64, name: &[u8], node: &NewNode<'_>) -> Result<u64> {
        self.live_directory(directory)?;
        let name = Name::new(name)?;
        if self.directory(directory)?.find(&name.key()).is_some() {
            return Err(FsError::new(ErrorKind::Exists, format!("{:?} exists", name.text)));
        }
        let is_directory = match node.kind {
            FileKind::Regular => false,
            FileKind::Directory => true,
            kind => return Err(FsError::new(ErrorKind::NotSupported, format!("FAT holds no {kind}"))),
        };
        let slots = self.find_entry_slots(directory, &name, u32::from(is_directory), None)?;
        let now = self.now();
        let attributes = if is_directory { attribute::DIRECTORY } else { attribute::ARCHIVE };
        let mut raw = ShortEntry { name: slots.short, attributes, ..ShortEntry::default() };
        if node.mode & 0o222 == 0 {
            raw.attributes |= attribute::READ_ONLY;
        }
        time::set_created(&mut raw, now);
        time::set_modified(&mut raw, now);
        time::set_accessed(&mut raw, now);
        let mut inode = Inode::new(directory, slots.first + slots.long, raw, None);
        if is_directory {
            let clusters = self.allocate(1, None)?;
            for &cluster in &clusters {
                inode.raw.set_cluster(cluster);
                inode.chain.get_or_insert_default().push(cluster);
                self.fresh_directory(cluster, directory, &inode.raw)?;
            }
        } else {
            inode.chain = Some(Default::default());
        }
        let number = self.add_inode(inode);
        self.put_entry(directory, slots, &name, number)?;
        self.moved.push(number);
        self.names_changed(directory)?;
        Ok(number)
    }

    /// Updates a directory's own entry after a change of its names, as fs/fat/namei_vfat.c does;
    /// the root has no entry. Times have steps of two seconds, so few of many changes are written.
    pub fn names_changed(&mut self, directory: u64) -> Result<()> {
        if directory == ROOT {
            return Ok(());
        }
        let now = self.now();
        let inode = self.inode_mut(directory)?;
        time::set_modified(&mut inode.raw, now);
        time::set_accessed(&mut inode.raw, now);
        self.update_entry(directory)
    }

    /// The cluster number that ".." has in a subdirectory of this directory: 0 for the root, by the
    /// specification.
    pub fn parent_cluster(&self, directory: u64) -> Result<u32> {
        Ok(if directory == ROOT { 0 } else { self.inode(directory)?.raw.cluster() })
    }

    fn fresh_directory(&mut self, cluster: u32, parent: u64, raw: &ShortEntry) -> Result<()> {
        self.fresh_cluster(cluster);
        let (lba, _) = self.cluster_sectors(cluster);
        let mut dot = ShortEntry { name: *b".          ", ..*raw };
        dot.attributes = attribute::DIRECTORY;
        self.sectors.patch(lba, Patch::new(0, &dot.bytes(), Phase::Prepare))?;
        dot.name = *b"..         ";
        dot.set_cluster(self.parent_cluster(parent)?);
        self.sectors.patch(lba, Patch::new(32, &dot.bytes(), Phase::Prepare))
    }

    /// Checks that an inode is a directory with a name (or the root, which has none).
    pub fn live_directory(&mut self, number: u64) -> Result<()> {
        self.directory(number)?;
        if number != ROOT && !self.inode(number)?.linked {
            return Err(FsError::new(ErrorKind::NotFound, format!("directory {number} was removed")));
        }
        Ok(())
    }

    /// Removes a name, and its inode unless that is retained.
    pub fn remove(&mut self, directory: u64, name: &[u8]) -> Result<()> {
        let (slot, number) = self.lookup(directory, name)?;
        let inode = self.inode(number)?;
        let (is_directory, raw) = (inode.raw.is_directory(), inode.raw);
        if is_directory {
            self.check_empty(number)?;
        }
        // Errors of the chain must come before the first change.
        self.ensure_chain(number)?;
        let phase = if is_directory { Phase::Unpublish } else { Phase::Publish };
        self.erase_entry(directory, slot, &raw, phase)?;
        self.names_changed(directory)?;
        self.unlink(number)
    }

    /// Checks that a directory has no entries.
    pub fn check_empty(&mut self, number: u64) -> Result<()> {
        let entries = self.directory(number)?.entries.len();
        if entries > 0 {
            return Err(FsError::new(ErrorKind::NotEmpty, format!("directory {number} holds {entries} entries")));
        }
        Ok(())
    }

    /// Handles the loss of an inode's name.
    pub fn unlink(&mut self, number: u64) -> Result<()> {
        let inode = self.inode_mut(number)?;
        inode.linked = false;
        let cluster = inode.raw.cluster();
        if inode.raw.is_directory() && self.directory_starts.get(&cluster) == Some(&number) {
            self.directory_starts.remove(&cluster);
        }
        self.drop_if_unused(number)
    }

    /// Changes attributes of an inode.
    pub fn set_attributes(&mut self, number: u64, change: &AttributeChange) -> Result<()> {
        let directory = self.inode(number)?.raw.is_directory();
        if let Some(size) = change.size {
            self.resize(number, size)?;
        }
        let useful =
            change.size.or(change.mode.map(u64::from)).is_some() || change.modified.or(change.accessed).is_some();
        if !useful && change.uid.or(change.gid).is_some() {
            return Err(FsError::new(ErrorKind::NotSupported, "FAT holds no owners"));
        }
        if number == ROOT && change.size.is_none() && useful {
            // The root has no entry to store them.
            return Ok(());
        }
        let inode = self.inode_mut(number)?;
        if let Some(mode) = change.mode.filter(|_| !directory) {
            inode.raw.attributes &= !attribute::READ_ONLY;
            if mode & 0o222 == 0 {
                inode.raw.attributes |= attribute::READ_ONLY;
            }
        }
        if let Some(modified) = change.modified {
            time::set_modified(&mut inode.raw, modified);
        }
        if let Some(accessed) = change.accessed {
            time::set_accessed(&mut inode.raw, accessed);
        }
        self.update_entry(number)
    }
}
