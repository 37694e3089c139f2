//! The in-memory model file system: the reference that all others are compared with.
//!
//! It is simple and complete rather than fast: each rule of the contract stands in one place.
//! [`ModelOptions`] removes what a format cannot store, so that one model judges FAT, JFFS2 and
//! F2FS. A clone is a snapshot: original and clone change independently.

mod atomic;
mod capabilities;
mod changes;
mod content;
mod names;
mod node;
mod options;
mod rename;

pub use options::{ModelOptions, NameRule};

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use nandkit_units::{Clock, ReadInto};

use crate::{
    Attributes, Changes, DirectoryEntry, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result, Symlinks,
    Timestamp, VolumeStatus, Xattrs,
};
use node::{Node, Shape};

/// A file system in memory with full POSIX behaviour, except what its options remove.
#[derive(Clone, Debug)]
pub struct ModelFileSystem {
    options: ModelOptions,
    clock: Clock,
    nodes: BTreeMap<u64, Node>,
    next_inode: u64,
    used_blocks: u64,
    /// Each draft and the file it belongs to.
    drafts: BTreeMap<u64, u64>,
}

const ROOT: u64 = 1;

impl ModelFileSystem {
    /// An empty file system whose time stamps come from `clock`.
    pub fn new(options: ModelOptions, clock: Clock) -> Self {
        let (nodes, drafts) = (BTreeMap::new(), BTreeMap::new());
        let mut model = Self { options, clock, nodes, next_inode: ROOT + 1, used_blocks: 0, drafts };
        let root = Node::new(Shape::directory(None), 0o755, 0, 0, model.now());
        model.nodes.insert(ROOT, root);
        model.charge(ROOT);
        model
    }

    /// The options given at creation.
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// The clock that its time stamps come from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Acts as an unmount and a mount: drops all retains, and with them the inodes without a name.
    pub fn remount(&mut self) {
        let orphans: Vec<u64> =
            self.nodes.iter().filter(|(number, node)| node.names == 0 && **number != ROOT).map(|(n, _)| *n).collect();
        for number in orphans {
            self.drop_node(number);
        }
        for node in self.nodes.values_mut() {
            node.retained = 0;
        }
    }

    fn now(&self) -> Timestamp {
        self.step(Timestamp(i64::try_from(self.clock.unix_ns()).unwrap_or(i64::MAX)))
    }

    /// Rounds a time down to the format's resolution.
    fn step(&self, time: Timestamp) -> Timestamp {
        let step = i64::try_from(self.options.features.modified_step_ns.max(1)).unwrap_or(i64::MAX);
        Timestamp(time.0 - time.0.rem_euclid(step))
    }

    fn node(&self, inode: InodeNumber) -> Result<&Node> {
        self.nodes.get(&inode.0).ok_or_else(|| stale(inode))
    }

    fn node_mut(&mut self, inode: InodeNumber) -> Result<&mut Node> {
        self.nodes.get_mut(&inode.0).ok_or_else(|| stale(inode))
    }

    fn directory(&self, inode: InodeNumber) -> Result<&node::Directory> {
        match &self.node(inode)?.shape {
            Shape::Directory(directory) => Ok(directory),
            _ => Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is no directory", inode.0))),
        }
    }

    fn find(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.directory(directory)?.find(&self.options.folded(name)).map(|entry| InodeNumber(entry.inode)).ok_or_else(
            || {
                let name = String::from_utf8_lossy(name);
                FsError::new(ErrorKind::NotFound, format!("no name \"{name}\" in directory {}", directory.0))
            },
        )
    }

    /// Updates the volume's count of used blocks to what the inode occupies now.
    fn charge(&mut self, number: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let blocks = node.blocks(&self.options);
        self.used_blocks = self.used_blocks - node.charged_blocks + blocks;
        node.charged_blocks = blocks;
    }

    fn drop_node(&mut self, number: u64) {
        self.drop_draft_of(number);
        self.drafts.remove(&number);
        if let Some(node) = self.nodes.remove(&number) {
            self.used_blocks -= node.charged_blocks;
        }
    }

    fn free_blocks(&self) -> u64 {
        self.options.capacity_blocks.saturating_sub(self.used_blocks)
    }

    /// Returns `NoSpace` unless this many more blocks are free.
    fn need_blocks(&self, blocks: u64) -> Result<()> {
        let free = self.free_blocks();
        if blocks <= free {
            return Ok(());
        }
        Err(FsError::new(ErrorKind::NoSpace, format!("{blocks} more blocks are needed, {free} are free")))
    }

    fn attributes(&self, number: u64, node: &Node) -> Attributes {
        let features = &self.options.features;
        let fixed_mode = if node.kind() == FileKind::Directory { 0o755 } else { 0o644 };
        Attributes {
            inode: InodeNumber(number),
            kind: node.kind(),
            mode: if features.permissions { node.mode } else { fixed_mode },
            links: node.links(),
            uid: if features.owners { node.uid } else { 0 },
            gid: if features.owners { node.gid } else { 0 },
            device: node.device(),
            size: node.size(),
            allocated: node.charged_blocks.saturating_mul(u64::from(self.options.block_size)),
            accessed: node.accessed,
            modified: node.modified,
            changed: node.changed,
            created: Some(node.created),
        }
    }
}

fn stale(inode: InodeNumber) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("inode {} does not exist, or not any more", inode.0))
}

impl FileSystem for ModelFileSystem {
    fn root(&self) -> InodeNumber {
        InodeNumber(ROOT)
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let options = &self.options;
        Ok(VolumeStatus {
            block_size: options.block_size,
            blocks: options.capacity_blocks,
            blocks_free: self.free_blocks(),
            inodes: options.inodes,
            inodes_free: options.inodes.saturating_sub(self.nodes.len() as u64),
            name_max: options.name_max,
            file_size_max: options.file_size_max,
            features: options.features,
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.directory(directory)?;
        self.options.check_name(name)?;
        self.find(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        Ok(self.attributes(inode.0, self.node(inode)?))
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for (cookie, entry) in self.directory(directory)?.after(cookie) {
            let inode = InodeNumber(entry.inode);
            let kind = self.node(inode)?.kind();
            if sink(DirectoryEntry { name: &entry.name, inode, kind, cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        Ok(self.content(inode)?.read(offset, into, self.options.block_size))
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        Ok(self.content(inode)?.data_after(offset, self.options.block_size))
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        Some(self)
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        self.options.features.symlinks.then_some(self as &dyn Symlinks)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        self.options.features.xattrs.then_some(self as &dyn Xattrs)
    }
}

#[cfg(test)]
mod tests;
