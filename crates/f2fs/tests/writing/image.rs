//! Empty volumes in their own images, and helpers for names.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use nandkit_block::{BlockDevice, FileDevice};
use nandkit_f2fs::layout::Features;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, InodeNumber, NewNode};

use super::{assert_sound, mount, unmount};
use crate::made::{clock, new_image};

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// An empty volume in its own image.
pub struct Image {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Image {
    pub fn new(bytes: u64, features: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let features = features_named(features).unwrap();
        let encoding = features.has(Features::CASEFOLD).then_some(false);
        let options = MkfsOptions { features, encoding, ..MkfsOptions::default() };
        let tree = EmptyTree::new(&options);
        Mkfs::new(&tree, options).unwrap().write(&mut new_image(&path, bytes), &clock(), &|_| {}).unwrap();
        Self { _folder: folder, path }
    }

    /// The image with its volume, mounted, and the root.
    pub fn mounted(bytes: u64, features: &str) -> (Self, WritableVolume<FileDevice>, InodeNumber) {
        let image = Self::new(bytes, features);
        let volume = image.mount();
        let root = volume.root();
        (image, volume, root)
    }

    pub fn mount(&self) -> WritableVolume<FileDevice> {
        mount(&self.path, WriteOptions::default())
    }

    /// Unmounts, has both judges look, and mounts again.
    pub fn remount(&self, volume: WritableVolume<FileDevice>, context: &str) -> WritableVolume<FileDevice> {
        drop(unmount(volume));
        assert_sound(&self.path, context);
        self.mount()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The names of a directory; checks that each occurs once.
pub fn names<D: BlockDevice>(volume: &WritableVolume<D>, directory: InodeNumber) -> BTreeMap<Vec<u8>, InodeNumber> {
    let mut found = BTreeMap::new();
    let mut sink = |entry: nandkit_vfs::DirectoryEntry<'_>| {
        assert!(found.insert(entry.name.to_vec(), entry.inode).is_none(), "twice");
        ControlFlow::Continue(())
    };
    volume.read_dir(directory, 0, &mut sink).unwrap();
    found
}

/// Makes an empty file.
pub fn file<D: BlockDevice>(volume: &mut WritableVolume<D>, directory: InodeNumber, name: &[u8]) -> InodeNumber {
    volume.create(directory, name, &NewNode::FILE).unwrap()
}

/// Makes a directory.
pub fn folder<D: BlockDevice>(volume: &mut WritableVolume<D>, directory: InodeNumber, name: &[u8]) -> InodeNumber {
    volume.create(directory, name, &NewNode::DIRECTORY).unwrap()
}

/// An inode's link count.
pub fn links<D: BlockDevice>(volume: &WritableVolume<D>, inode: InodeNumber) -> u32 {
    volume.stat(inode).unwrap().links
}

/// The F2FS number of an inode.
pub fn nid(inode: InodeNumber) -> NodeId {
    NodeId(inode.0 as u32)
}

/// The kind of error for which something was refused.
pub fn kind<T>(result: nandkit_vfs::Result<T>) -> ErrorKind {
    result.err().expect("this must be refused").kind
}
