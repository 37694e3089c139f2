//! Inodes and directories of the model.

use std::collections::BTreeMap;

use super::ModelOptions;
use super::content::FileContent;
use crate::{FileKind, Timestamp};

/// An inode of the model.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) shape: Shape,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) created: Timestamp,
    /// The number of directory entries that name the inode; 0 for the root.
    pub(super) names: u32,
    /// How often the inode is retained.
    pub(super) retained: u64,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The blocks charged for the inode in the volume's count of used blocks.
    pub(super) charged_blocks: u64,
}

/// An inode's type, with the data of that type.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Regular(FileContent),
    Directory(Directory),
    Symlink(Vec<u8>),
    /// A device, FIFO or socket, and its device number.
    Special(FileKind, u64),
}

/// A directory: entries in the order of their cookies, and an index by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// The parent directory; `None` for the root and for removed directories.
    pub(super) parent: Option<u64>,
    entries: BTreeMap<u64, Entry>,
    index: BTreeMap<Vec<u8>, u64>,
    last_cookie: u64,
    /// The number of subdirectories.
    pub(super) subdirectories: u32,
    /// Bytes that the entries take, measured by [`entry_bytes`].
    bytes: u64,
}

/// One name in a directory.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) inode: u64,
}

/// The bytes that a name takes in its directory: the size of an ext2 entry. Any measure would do
/// for a volume that fills up.
pub(super) fn entry_bytes(name: &[u8]) -> u64 {
    8 + name.len() as u64
}

impl Node {
    pub(super) fn new(shape: Shape, mode: u16, uid: u32, gid: u32, now: Timestamp) -> Self {
        Self {
            shape,
            mode: mode & 0o7777,
            uid,
            gid,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            names: 0,
            retained: 0,
            xattrs: BTreeMap::new(),
            charged_blocks: 0,
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        match &self.shape {
            Shape::Regular(_) => FileKind::Regular,
            Shape::Directory(_) => FileKind::Directory,
            Shape::Symlink(_) => FileKind::Symlink,
            Shape::Special(kind, _) => *kind,
        }
    }

    pub(super) fn links(&self) -> u32 {
        match &self.shape {
            // The directory's name, its ".", and ".." of each subdirectory; a removed one has none.
            Shape::Directory(directory) if self.names > 0 || directory.parent.is_none() => 2 + directory.subdirectories,
            _ => self.names,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match &self.shape {
            Shape::Regular(content) => content.size,
            Shape::Directory(directory) => directory.bytes,
            Shape::Symlink(target) => target.len() as u64,
            Shape::Special(..) => 0,
        }
    }

    pub(super) fn device(&self) -> u64 {
        match self.shape {
            Shape::Special(FileKind::BlockDevice | FileKind::CharacterDevice, device) => device,
            _ => 0,
        }
    }

    /// The blocks that the inode occupies on the volume.
    pub(super) fn blocks(&self, options: &ModelOptions) -> u64 {
        let body = match &self.shape {
            Shape::Regular(content) => content.allocated_blocks(),
            Shape::Directory(_) | Shape::Symlink(_) => self.size().div_ceil(u64::from(options.block_size)),
            Shape::Special(..) => 0,
        };
        body + xattr_blocks(self.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum(), options)
    }
}

/// The blocks that this many bytes of extended attributes (names and values) occupy.
pub(super) fn xattr_blocks(bytes: usize, options: &ModelOptions) -> u64 {
    (bytes as u64).div_ceil(u64::from(options.block_size))
}

impl Shape {
    pub(super) fn directory(parent: Option<u64>) -> Self {
        Self::Directory(Directory { parent, ..Directory::default() })
    }
}

impl Directory {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn find(&self, folded: &[u8]) -> Option<&Entry> {
        self.entries.get(self.index.get(folded)?)
    }

    /// The entries after a cookie, each with its own cookie.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &Entry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.entries.range((Excluded(cookie), Unbounded)).map(|(cookie, entry)| (*cookie, entry))
    }

    /// Adds a name that does not exist yet.
    pub(super) fn insert(&mut self, folded: Vec<u8>, name: &[u8], inode: u64) {
        self.last_cookie += 1;
        self.bytes += entry_bytes(name);
        self.index.insert(folded, self.last_cookie);
        self.entries.insert(self.last_cookie, Entry { name: name.to_vec(), inode });
    }

    /// Makes an existing name refer to another inode; spelling and cookie stay.
    pub(super) fn redirect(&mut self, folded: &[u8], inode: u64) {
        if let Some(entry) = self.index.get(folded).and_then(|cookie| self.entries.get_mut(cookie)) {
            entry.inode = inode;
        }
    }

    pub(super) fn remove(&mut self, folded: &[u8]) {
        if let Some(entry) = self.index.remove(folded).and_then(|cookie| self.entries.remove(&cookie)) {
            self.bytes -= entry_bytes(&entry.name);
        }
    }

    /// The number of additional blocks that one more name would need.
    pub(super) fn growth(&self, name: &[u8], options: &ModelOptions) -> u64 {
        let size = u64::from(options.block_size);
        (self.bytes + entry_bytes(name)).div_ceil(size) - self.bytes.div_ceil(size)
    }
}
