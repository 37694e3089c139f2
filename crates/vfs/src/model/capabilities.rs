//! The model's capabilities: links of both kinds, open files, extended attributes, allocation.

use super::content::blocks_of;
use super::node::Shape;
use super::node::xattr_blocks;
use super::{ModelFileSystem, ROOT};
use crate::{
    Allocation, ErrorKind, FileKind, FsError, Holes, InodeNumber, Links, OpenFiles, Result, Symlinks, XattrChanges,
    Xattrs, acl,
};

/// Longest name of an extended attribute on Linux (limits.h, XATTR_NAME_MAX).
const XATTR_NAME_MAX: usize = 255;

/// The name spaces that take any name (xattr(7)).
const XATTR_PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Symlinks for ModelFileSystem {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match &self.node(inode)?.shape {
            Shape::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {} is no symbolic link", inode.0))),
        }
    }
}

impl OpenFiles for ModelFileSystem {
    fn retain(&mut self, inode: InodeNumber) -> Result<()> {
        self.node_mut(inode)?.retained += 1;
        Ok(())
    }

    fn release(&mut self, inode: InodeNumber) -> Result<()> {
        let node = self.node_mut(inode)?;
        node.retained = node
            .retained
            .checked_sub(1)
            .ok_or_else(|| FsError::new(ErrorKind::InvalidArgument, format!("inode {} is not retained", inode.0)))?;
        // The root has no name and stays.
        if inode.0 != ROOT {
            self.drop_if_unused(inode);
        }
        Ok(())
    }
}

impl Links for ModelFileSystem {
    fn link(&mut self, inode: InodeNumber, directory: InodeNumber, name: &[u8]) -> Result<()> {
        let node = self.node(inode)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::new(ErrorKind::IsADirectory, "directories have no second name"));
        }
        if node.names == 0 {
            return Err(FsError::new(ErrorKind::NotFound, "an inode that has lost its last name cannot get another"));
        }
        if node.names >= self.options.links_max {
            return Err(FsError::new(ErrorKind::TooManyLinks, format!("inode {} has {} names", inode.0, node.names)));
        }
        self.check_new_name(directory, name)?;
        self.need_blocks(self.directory(directory)?.growth(name, &self.options))?;
        self.add_name(directory, name, inode)
    }
}

/// Checks that an inode of this kind can have this access control list.
fn check_list(kind: FileKind, name: &[u8], value: &[u8]) -> Result<()> {
    match kind {
        FileKind::Symlink => {
            return Err(FsError::new(ErrorKind::NotSupported, "a symbolic link has no access control list"));
        }
        FileKind::Directory => {}
        _ if name == acl::DEFAULT => {
            return Err(FsError::new(ErrorKind::InvalidArgument, "only a directory has a default list"));
        }
        _ => {}
    }
    acl::parse(value).map(|_| ())
}

fn no_attribute(name: &[u8]) -> FsError {
    FsError::new(ErrorKind::NoAttribute, format!("no attribute \"{}\"", String::from_utf8_lossy(name)))
}

impl Xattrs for ModelFileSystem {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        self.node(inode)?.xattrs.get(name).cloned().ok_or_else(|| no_attribute(name))
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.node(inode)?.xattrs.keys().cloned().collect())
    }
}

impl XattrChanges for ModelFileSystem {
    fn set_xattr(&mut self, inode: InodeNumber, name: &[u8], value: &[u8]) -> Result<()> {
        let node = self.node(inode)?;
        if name.len() > XATTR_NAME_MAX {
            return Err(FsError::new(
                ErrorKind::NameTooLong,
                format!("attribute names have at most {XATTR_NAME_MAX} bytes"),
            ));
        }
        if self.options.features.posix_acls && (name == acl::ACCESS || name == acl::DEFAULT) {
            check_list(node.kind(), name, value)?;
        } else if !XATTR_PREFIXES.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix)) {
            let name = String::from_utf8_lossy(name);
            return Err(FsError::new(ErrorKind::NotSupported, format!("\"{name}\": no known name space")));
        }
        if value.len() > self.options.xattr_value_max as usize {
            return Err(FsError::new(ErrorKind::NoSpace, format!("a value of {} bytes is too long", value.len())));
        }
        let others = node.xattrs.iter().filter(|(other, _)| other.as_slice() != name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        let before: usize = node.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let after = xattr_blocks(bytes + name.len() + value.len(), &self.options);
        self.need_blocks(after.saturating_sub(xattr_blocks(before, &self.options)))?;
        let now = self.now();
        let node = self.node_mut(inode)?;
        node.xattrs.insert(name.to_vec(), value.to_vec());
        node.changed = now;
        self.charge(inode.0);
        Ok(())
    }

    fn remove_xattr(&mut self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        let now = self.now();
        let node = self.node_mut(inode)?;
        node.xattrs.remove(name).ok_or_else(|| no_attribute(name))?;
        node.changed = now;
        self.charge(inode.0);
        Ok(())
    }
}

impl Allocation for ModelFileSystem {
    fn allocate(&mut self, inode: InodeNumber, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.expect_no_draft(inode)?;
        let content = self.content(inode)?;
        let end = check_range(offset, length, self.options.file_size_max)?;
        // Without holes, everything before the range must be allocated too.
        let start = if self.options.features.holes { offset } else { content.size.min(offset) };
        let range = blocks_of(start, end - start, self.options.block_size);
        self.need_blocks(content.missing(range.clone()))?;
        self.change_content(inode, |content, block_size| {
            content.allocate(range, block_size);
            if !keep_size {
                content.size = content.size.max(end);
            }
        })
    }
}

impl Holes for ModelFileSystem {
    fn punch_hole(&mut self, inode: InodeNumber, offset: u64, length: u64) -> Result<()> {
        self.content(inode)?;
        self.expect_no_draft(inode)?;
        check_range(offset, length, u64::MAX)?;
        self.change_content(inode, |content, block_size| content.punch(offset, length, block_size))
    }
}

/// Checks that a range is not empty and within the largest file, and returns its end.
fn check_range(offset: u64, length: u64, size_max: u64) -> Result<u64> {
    if length == 0 {
        return Err(FsError::new(ErrorKind::InvalidArgument, "the range is empty"));
    }
    offset.checked_add(length).filter(|end| *end <= size_max).ok_or_else(|| {
        FsError::new(ErrorKind::FileTooBig, format!("a file has at most {size_max} bytes on this volume"))
    })
}
