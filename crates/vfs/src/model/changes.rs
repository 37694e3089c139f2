//! The model's writing side.

use nandkit_units::Payload;

use super::content::{blocks_of, payload_bytes};
use super::node::{Node, Shape};
use super::{ModelFileSystem, ROOT};
use crate::{
    Allocation, AtomicWrites, AttributeChange, Attributes, Changes, ErrorKind, FileKind, FsError, Holes, InodeNumber,
    Links, NewNode, OpenFiles, RenameFlags, Result, XattrChanges,
};

impl ModelFileSystem {
    pub(super) fn directory_mut(&mut self, inode: InodeNumber) -> Result<&mut super::node::Directory> {
        match &mut self.node_mut(inode)?.shape {
            Shape::Directory(directory) => Ok(directory),
            _ => Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is no directory", inode.0))),
        }
    }

    /// Checks that a new name can be added: the directory exists, the name is valid and free.
    pub(super) fn check_new_name(&self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.directory(directory)?;
        self.options.check_name(name)?;
        if self.find(directory, name).is_ok() {
            let name = String::from_utf8_lossy(name);
            return Err(FsError::new(ErrorKind::Exists, format!("\"{name}\" is in directory {}", directory.0)));
        }
        self.check_alive(directory)
    }

    /// Refuses to add names to a directory that was removed but is still retained.
    pub(super) fn check_alive(&self, directory: InodeNumber) -> Result<()> {
        if directory.0 != ROOT && self.node(directory)?.names == 0 {
            return Err(FsError::new(ErrorKind::NotFound, format!("directory {} was removed", directory.0)));
        }
        Ok(())
    }

    /// Adds a checked name for an inode; a directory records its new parent.
    pub(super) fn add_name(&mut self, directory: InodeNumber, name: &[u8], inode: InodeNumber) -> Result<()> {
        let folded = self.options.folded(name);
        self.directory_mut(directory)?.insert(folded, name, inode.0);
        self.adopt(directory, inode)?;
        self.touch_directory(directory)
    }

    /// Counts a new name of `inode` in `directory`.
    pub(super) fn adopt(&mut self, directory: InodeNumber, inode: InodeNumber) -> Result<()> {
        let now = self.now();
        let node = self.node_mut(inode)?;
        node.names += 1;
        node.changed = now;
        if let Shape::Directory(child) = &mut node.shape {
            child.parent = Some(directory.0);
            self.directory_mut(directory)?.subdirectories += 1;
        }
        Ok(())
    }

    /// Counts a removed name of `inode` in `directory`.
    pub(super) fn abandon(&mut self, directory: InodeNumber, inode: InodeNumber) -> Result<()> {
        let now = self.now();
        let node = self.node_mut(inode)?;
        node.names -= 1;
        node.changed = now;
        if node.kind() == FileKind::Directory {
            self.directory_mut(directory)?.subdirectories -= 1;
        }
        Ok(())
    }

    /// Drops an inode that has no name and is not retained.
    pub(super) fn drop_if_unused(&mut self, inode: InodeNumber) {
        if self.nodes.get(&inode.0).is_some_and(|node| node.names == 0 && node.retained == 0) {
            self.drop_node(inode.0);
        }
    }

    /// Updates a directory's times after a change of its entries.
    pub(super) fn touch_directory(&mut self, directory: InodeNumber) -> Result<()> {
        let now = self.now();
        let node = self.node_mut(directory)?;
        node.modified = now;
        node.changed = now;
        self.charge(directory.0);
        Ok(())
    }

    fn new_shape(&self, directory: InodeNumber, node: &NewNode<'_>) -> Result<Shape> {
        let features = &self.options.features;
        let held = match node.kind {
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => features.symlinks,
            _ => features.device_nodes,
        };
        if !held {
            return Err(FsError::new(ErrorKind::NotSupported, format!("this volume holds no {}", node.kind)));
        }
        if node.kind == FileKind::Symlink {
            self.check_target(node.target)?;
        }
        Ok(match node.kind {
            FileKind::Regular => Shape::Regular(Default::default()),
            FileKind::Directory => Shape::directory(Some(directory.0)),
            FileKind::Symlink => Shape::Symlink(node.target.to_vec()),
            kind => Shape::Special(kind, node.device),
        })
    }

    fn check_target(&self, target: &[u8]) -> Result<()> {
        if target.is_empty() || target.contains(&0) {
            return Err(FsError::new(ErrorKind::InvalidArgument, "a link's target is empty or holds NUL"));
        }
        if target.len() > self.options.target_max as usize {
            let text = format!("a target of {} bytes, at most {} are held", target.len(), self.options.target_max);
            return Err(FsError::new(ErrorKind::NameTooLong, text));
        }
        Ok(())
    }

    fn check_size(&self, end: Option<u64>) -> Result<u64> {
        end.filter(|end| *end <= self.options.file_size_max).ok_or_else(|| {
            let max = self.options.file_size_max;
            FsError::new(ErrorKind::FileTooBig, format!("a file has at most {max} bytes on this volume"))
        })
    }

    /// The content of a regular file.
    pub(super) fn content(&self, inode: InodeNumber) -> Result<&super::content::FileContent> {
        match &self.node(inode)?.shape {
            Shape::Regular(content) => Ok(content),
            Shape::Directory(_) => {
                Err(FsError::new(ErrorKind::IsADirectory, format!("inode {} is a directory", inode.0)))
            }
            _ => Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {} is no regular file", inode.0))),
        }
    }

    /// Changes the content of a regular file, its times and its count of blocks.
    pub(super) fn change_content(
        &mut self,
        inode: InodeNumber,
        change: impl FnOnce(&mut super::content::FileContent, u32),
    ) -> Result<()> {
        let (now, block_size) = (self.now(), self.options.block_size);
        let node = self.node_mut(inode)?;
        if let Shape::Regular(content) = &mut node.shape {
            change(content, block_size);
        }
        node.modified = now;
        node.changed = now;
        self.charge(inode.0);
        Ok(())
    }

    /// Checks that a file can grow to this size; in a format without holes, growth takes blocks.
    fn check_resize(&self, inode: InodeNumber, size: u64) -> Result<()> {
        let content = self.content(inode)?;
        self.check_size(Some(size))?;
        if size > content.size && !self.options.features.holes {
            self.need_blocks(content.missing(blocks_of(0, size, self.options.block_size)))?;
        }
        Ok(())
    }

    /// How many of `length` bytes at `offset` fit, counting the gap before them.
    fn room(&self, inode: InodeNumber, offset: u64, length: u64) -> Result<u64> {
        let block_size = self.options.block_size;
        let content = self.content(inode)?;
        let mut free = self.free_blocks();
        if !self.options.features.holes && offset > content.size {
            let gap = content.missing(0..offset / u64::from(block_size));
            self.need_blocks(gap)?;
            free -= gap;
        }
        for block in blocks_of(offset, length, block_size) {
            let missing = content.missing(block..block + 1);
            if missing > free {
                return Ok((block * u64::from(block_size)).saturating_sub(offset));
            }
            free -= missing;
        }
        Ok(length)
    }
}

impl Changes for ModelFileSystem {
    fn create(&mut self, directory: InodeNumber, name: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
        self.check_new_name(directory, name)?;
        let shape = self.new_shape(directory, node)?;
        if self.options.inodes != 0 && self.nodes.len() as u64 >= self.options.inodes {
            return Err(FsError::new(ErrorKind::NoSpace, format!("all {} inodes are in use", self.options.inodes)));
        }
        let highest = self.options.features.owner_max;
        let mut new = Node::new(shape, node.mode, node.uid & highest, node.gid & highest, self.now());
        if node.kind == FileKind::Symlink {
            // POSIX leaves a link's mode open; Linux says 0777 always.
            new.mode = 0o777;
        }
        let growth = self.directory(directory)?.growth(name, &self.options);
        self.need_blocks(growth + new.blocks(&self.options))?;
        let inode = InodeNumber(self.next_inode);
        self.next_inode += 1;
        self.nodes.insert(inode.0, new);
        self.charge(inode.0);
        self.add_name(directory, name, inode)?;
        Ok(inode)
    }

    fn write(&mut self, inode: InodeNumber, offset: u64, data: Payload<'_>) -> Result<usize> {
        let length = data.len() as u64;
        let size = self.content(inode)?.size;
        self.expect_no_draft_of(inode)?;
        if length == 0 {
            return Ok(0);
        }
        self.check_size(offset.checked_add(length))?;
        let room = self.room(inode, offset, length)?;
        if room == 0 {
            return Err(FsError::new(ErrorKind::NoSpace, format!("no block is free for inode {}", inode.0)));
        }
        let holes = self.options.features.holes;
        self.change_content(inode, |content, block_size| {
            if !holes && offset > size {
                content.allocate(blocks_of(0, offset, block_size), block_size);
            }
            content.write(offset, &payload_bytes(&data)[..room as usize], block_size);
        })?;
        Ok(room as usize)
    }

    fn set_attributes(&mut self, inode: InodeNumber, change: &AttributeChange) -> Result<Attributes> {
        self.node(inode)?;
        let features = self.options.features;
        let wanted = *change != AttributeChange::default();
        let possible = change.size.is_some()
            || change.accessed.is_some()
            || change.modified.is_some()
            || (features.permissions && change.mode.is_some())
            || (features.owners && (change.uid.is_some() || change.gid.is_some()));
        if wanted && !possible {
            return Err(FsError::new(ErrorKind::NotSupported, "this volume holds neither owners nor permissions"));
        }
        if let Some(size) = change.size {
            self.expect_no_draft(inode)?;
            self.check_resize(inode, size)?;
            self.change_content(inode, |content, block_size| {
                content.resize(size, block_size);
                if !features.holes {
                    content.allocate(blocks_of(0, size, block_size), block_size);
                }
            })?;
        }
        let (accessed, modified) = (change.accessed.map(|t| self.step(t)), change.modified.map(|t| self.step(t)));
        let now = self.now();
        let node = self.node_mut(inode)?;
        node.mode = change.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.uid = change.uid.map_or(node.uid, |uid| uid & features.owner_max);
        node.gid = change.gid.map_or(node.gid, |gid| gid & features.owner_max);
        node.accessed = accessed.filter(|_| features.accessed_times).unwrap_or(node.accessed);
        node.modified = modified.unwrap_or(node.modified);
        if wanted {
            node.changed = now;
        }
        self.stat_of(inode)
    }

    fn remove(&mut self, directory: InodeNumber, name: &[u8]) -> Result<()> {
        self.directory(directory)?;
        self.options.check_name(name)?;
        let inode = self.find(directory, name)?;
        self.check_removable(inode)?;
        let folded = self.options.folded(name);
        self.directory_mut(directory)?.remove(&folded);
        self.abandon(directory, inode)?;
        self.touch_directory(directory)?;
        self.drop_if_unused(inode);
        Ok(())
    }

    fn rename(&mut self, from: (InodeNumber, &[u8]), to: (InodeNumber, &[u8]), flags: RenameFlags) -> Result<()> {
        self.rename_name(from, to, flags)
    }

    fn sync(&mut self, inode: Option<InodeNumber>) -> Result<()> {
        match inode {
            Some(inode) => self.node(inode).map(|_| ()),
            None => Ok(()),
        }
    }

    fn open_files(&mut self) -> Option<&mut dyn OpenFiles> {
        if self.options.open_files { Some(self) } else { None }
    }

    fn links(&mut self) -> Option<&mut dyn Links> {
        if self.options.features.hard_links { Some(self) } else { None }
    }

    fn xattr_changes(&mut self) -> Option<&mut dyn XattrChanges> {
        if self.options.features.xattrs { Some(self) } else { None }
    }

    fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        if self.options.allocation { Some(self) } else { None }
    }

    fn atomic_writes(&mut self) -> Option<&mut dyn AtomicWrites> {
        if self.options.features.atomic_writes { Some(self) } else { None }
    }

    fn holes(&mut self) -> Option<&mut dyn Holes> {
        if self.options.allocation && self.options.features.holes { Some(self) } else { None }
    }
}

impl ModelFileSystem {
    fn stat_of(&self, inode: InodeNumber) -> Result<Attributes> {
        Ok(self.attributes(inode.0, self.node(inode)?))
    }

    /// Returns `NotEmpty` for a directory with entries.
    pub(super) fn check_removable(&self, inode: InodeNumber) -> Result<()> {
        match &self.node(inode)?.shape {
            Shape::Directory(directory) if !directory.is_empty() => {
                Err(FsError::new(ErrorKind::NotEmpty, format!("directory {} has entries", inode.0)))
            }
            _ => Ok(()),
        }
    }
}
