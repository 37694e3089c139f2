//! An attached device as a file system: a directory with one file per volume.

use std::ops::ControlFlow;

use nandkit_flash::Flash;
use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result,
    Timestamp, VolumeStatus,
};

use crate::Leb;
use crate::attach::Ubi;
use crate::layout::NAME_MAX;
use crate::volume::Volume;

/// The directory.
const ROOT: InodeNumber = InodeNumber(1);
/// The inode number of volume 0.
const FIRST: u64 = 2;

fn inode_of(volume: &Volume) -> InodeNumber {
    InodeNumber(FIRST + u64::from(volume.number))
}

impl<F: Flash> Ubi<F> {
    fn file(&self, inode: InodeNumber) -> Result<&Volume> {
        if inode == ROOT {
            return Err(FsError::new(ErrorKind::IsADirectory, "inode 1 is the directory of volumes"));
        }
        let volume = self.volumes.iter().find(|volume| inode_of(volume) == inode);
        volume.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("no volume has inode {}", inode.0)))
    }

    /// Reads bytes of a volume, which must have them.
    fn read_volume(&self, volume: &Volume, offset: u64, into: &mut [u8]) -> Result<()> {
        let leb_size = u64::from(volume.leb_size.max(1));
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let Ok(leb) = u32::try_from(at / leb_size) else { return Ok(()) };
            let column = at % leb_size;
            let (piece, tail) = rest.split_at_mut(rest.len().min((leb_size - column) as usize));
            self.read_leb(volume, Leb(leb), column as u32, piece)?;
            at += piece.len() as u64;
            rest = tail;
        }
        Ok(())
    }

    fn needs_root(&self, inode: InodeNumber) -> Result<()> {
        if inode == ROOT {
            return Ok(());
        }
        self.file(inode)?;
        Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is a volume", inode.0)))
    }
}

impl<F: Flash> FileSystem for Ubi<F> {
    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let counts = &self.counts;
        Ok(VolumeStatus {
            block_size: self.geometry.leb_size(),
            blocks: u64::from(counts.total - counts.bad),
            blocks_free: u64::from(counts.free + counts.erased),
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
            file_size_max: u64::from(u32::MAX) * u64::from(self.geometry.leb_size()),
            features: Features { case_sensitive: true, ..Features::default() },
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.needs_root(directory)?;
        let volume = self.volumes.iter().find(|volume| volume.file_name.as_bytes() == name);
        let missing = || FsError::new(ErrorKind::NotFound, format!("no volume '{}'", String::from_utf8_lossy(name)));
        volume.map(inode_of).ok_or_else(missing)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let directory = Attributes {
            inode,
            kind: FileKind::Directory,
            mode: 0o755,
            links: 2,
            uid: 0,
            gid: 0,
            device: 0,
            size: 0,
            allocated: 0,
            accessed: Timestamp(0),
            modified: Timestamp(0),
            changed: Timestamp(0),
            created: None,
        };
        if inode == ROOT {
            return Ok(directory);
        }
        let volume = self.file(inode)?;
        let allocated = volume.mapped() as u64 * u64::from(self.geometry.peb_size);
        let size = volume.length();
        Ok(Attributes { kind: FileKind::Regular, mode: 0o644, links: 1, size, allocated, ..directory })
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.needs_root(directory)?;
        for volume in &self.volumes {
            let inode = inode_of(volume);
            let name = volume.file_name.as_bytes();
            let entry = DirectoryEntry { name, inode, kind: FileKind::Regular, cookie: inode.0 };
            if inode.0 > cookie && sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        let volume = self.file(inode)?;
        let left = usize::try_from(volume.length().saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = into.len().min(left);
        into.fill_by(length, |bytes| self.read_volume(volume, offset, bytes))?;
        Ok(length)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }
}
