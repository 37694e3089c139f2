//! A file system that lists whatever a test gives it.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result,
    Symlinks, Timestamp, VolumeStatus,
};

/// One inode.
#[derive(Clone, Debug)]
pub enum Inode {
    /// The names in the order in which they are listed, and whether the listing ends with an error.
    Directory(Vec<(Vec<u8>, u64)>, bool),
    /// The content, and the range of bytes that cannot be read.
    File(Vec<u8>, Range<u64>),
    /// A file of this size that consists of a hole.
    Huge(u64),
    Symlink(Vec<u8>),
}

/// The inodes by number; inode 1 is the root. An inode that is listed but absent is damaged.
#[derive(Clone, Debug, Default)]
pub struct Planted(pub BTreeMap<u64, Inode>);

impl Planted {
    fn find(&self, inode: InodeNumber) -> Result<&Inode> {
        self.0.get(&inode.0).ok_or_else(|| FsError::new(ErrorKind::Corrupt, format!("inode {} is torn", inode.0)))
    }
}

impl FileSystem for Planted {
    fn root(&self) -> InodeNumber {
        InodeNumber(1)
    }

    fn volume(&self) -> Result<VolumeStatus> {
        Ok(VolumeStatus {
            block_size: 4096,
            blocks: 1,
            blocks_free: 0,
            inodes: 0,
            inodes_free: 0,
            name_max: 255,
            file_size_max: u64::MAX,
            features: Features { case_sensitive: true, hard_links: true, ..Features::default() },
        })
    }

    fn lookup(&self, _: InodeNumber, _: &[u8]) -> Result<InodeNumber> {
        Err(FsError::new(ErrorKind::NotFound, "nobody looks here"))
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let (kind, size) = match self.find(inode)? {
            Inode::Directory(..) => (FileKind::Directory, 0),
            Inode::File(content, _) => (FileKind::Regular, content.len() as u64),
            Inode::Huge(size) => (FileKind::Regular, *size),
            Inode::Symlink(target) => (FileKind::Symlink, target.len() as u64),
        };
        let time = Timestamp(1_000_000_000);
        Ok(Attributes {
            inode,
            kind,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            device: 0,
            size,
            allocated: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: None,
        })
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        _: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let Inode::Directory(entries, torn) = self.find(directory)? else {
            return Err(FsError::new(ErrorKind::NotADirectory, "no directory"));
        };
        for (cookie, (name, inode)) in entries.iter().enumerate() {
            let entry =
                DirectoryEntry { name, inode: InodeNumber(*inode), kind: FileKind::Regular, cookie: cookie as u64 + 1 };
            if sink(entry).is_break() {
                return Ok(());
            }
        }
        if *torn { Err(FsError::new(ErrorKind::Corrupt, "the list is torn")) } else { Ok(()) }
    }

    fn read(&self, inode: InodeNumber, offset: u64, mut into: ReadInto<'_>) -> Result<usize> {
        let Inode::File(content, bad) = self.find(inode)? else {
            return Err(FsError::new(ErrorKind::InvalidArgument, "no file"));
        };
        let count = content.len().saturating_sub(offset as usize).min(into.len());
        let end = offset + count as u64;
        if offset < bad.end && bad.start < end {
            return Err(FsError::new(ErrorKind::Corrupt, format!("node of bytes {bad:?} has a wrong checksum")));
        }
        if let ReadInto::Bytes(bytes) = &mut into {
            bytes[..count].copy_from_slice(&content[offset as usize..end as usize]);
        }
        Ok(count)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        Ok(match self.find(inode)? {
            Inode::File(content, _) => Some(offset..content.len() as u64).filter(|run| !run.is_empty()),
            _ => None,
        })
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        Some(self)
    }
}

impl Symlinks for Planted {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        match self.find(inode)? {
            Inode::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::new(ErrorKind::InvalidArgument, "no link")),
        }
    }
}
