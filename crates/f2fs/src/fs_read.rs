//! The file-system contract for reading.

use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Extents, Features, FileExtent, FileKind, FileSystem, FsError,
    InodeNumber, Result, Symlinks, VolumeStatus, XattrPair, Xattrs,
};

use crate::blocks::{Blocks, Nodes};
use crate::directory::Directory;
use crate::findings::{Defect, FindingKind};
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::NAME_MAX;
use crate::layout::TreeShape;
use crate::volume::{Access, MountedVolume};
use crate::{read, xattr};

/// Linux limits the file size to what the nodes below an inode hold, without the inode's own
/// addresses (super.c, `max_file_blocks`).
const NOT_IN_INODE: u16 = 0;

/// Bytes per read when the content is thrown away.
const NOWHERE_PIECE: usize = 1 << 20;

impl<B: Blocks + Send, W: Access<B>> MountedVolume<B, W> {
    pub(crate) fn directory(&self, number: InodeNumber) -> Result<Inode> {
        let inode = self.inode(number)?;
        match inode.kind {
            FileKind::Directory => Ok(inode),
            kind => Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is a {kind}", number.0))),
        }
    }

    pub(crate) fn regular(&self, number: InodeNumber) -> Result<Inode> {
        let inode = self.inode(number)?;
        match inode.kind {
            FileKind::Regular => Ok(inode),
            FileKind::Directory => {
                Err(FsError::new(ErrorKind::IsADirectory, format!("inode {} is a directory", number.0)))
            }
            kind => Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {} is a {kind}", number.0))),
        }
    }

    /// The kind of an entry: its own type, or the inode's kind if the type is invalid.
    fn kind_of_entry(&self, kind: Option<FileKind>, ino: NodeId) -> FileKind {
        kind.or_else(|| self.inode_at(ino).ok().map(|inode| inode.kind)).unwrap_or(FileKind::Regular)
    }

    /// Reads and discards bytes, for timing only. It reads in pieces, since a hostile image may
    /// give any size.
    fn read_nowhere(&self, inode: &Inode, offset: u64, length: usize) -> Result<()> {
        let mut piece = vec![0; length.min(NOWHERE_PIECE)];
        let mut done = 0;
        while done < length {
            let step = piece.len().min(length - done);
            W::read(self, inode, offset + done as u64, piece.get_mut(..step).unwrap_or_default())?;
            done += step;
        }
        Ok(())
    }

    fn status(&self) -> Result<VolumeStatus> {
        let (geometry, counts) = (self.geometry(), W::counts(self));
        let blocks = counts.user_blocks;
        // As Linux's statfs: no more inodes than blocks (super.c, `f2fs_statfs`).
        let inodes = geometry.nid_end().saturating_sub(u64::from(NodeId::ROOT.0)).min(blocks);
        let pages = TreeShape::new(geometry, NOT_IN_INODE, 1).pages();
        Ok(VolumeStatus {
            block_size: geometry.block_size() as u32,
            blocks,
            blocks_free: blocks.saturating_sub(counts.valid_blocks),
            inodes,
            inodes_free: inodes.saturating_sub(counts.valid_nodes),
            name_max: NAME_MAX as u32,
            file_size_max: pages * geometry.block_size() as u64,
            features: Features::POSIX,
        })
    }

    fn look_up(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let inode = self.directory(directory)?;
        if name.len() > NAME_MAX {
            let detail = format!("a name of {} bytes; at most {NAME_MAX}", name.len());
            return Err(FsError::new(ErrorKind::NameTooLong, detail));
        }
        let found =
            if name == b"." || name == b".." { None } else { Directory { volume: self, inode: &inode }.find(name)? };
        let Some(found) = found else {
            let shown = String::from_utf8_lossy(name);
            return Err(FsError::new(ErrorKind::NotFound, format!("no {shown} in directory {}", directory.0)));
        };
        let nid = NodeId(found.entry.ino.get());
        if nid < NodeId::ROOT || self.entry(nid)?.is_free() {
            let shown = String::from_utf8_lossy(name);
            let detail = format!("the entry {shown} refers to inode {}, which does not exist", nid.0);
            return Err(Defect::new(FindingKind::Dentry, detail).of(inode.nid).into_error());
        }
        Ok(InodeNumber(u64::from(nid.0)))
    }

    fn list(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let inode = self.directory(directory)?;
        Directory { volume: self, inode: &inode }.list(cookie, &mut |shown| {
            sink(DirectoryEntry {
                name: shown.name,
                inode: InodeNumber(u64::from(shown.ino.0)),
                kind: self.kind_of_entry(shown.kind, shown.ino),
                cookie: shown.cookie,
            })
        })
    }

    fn read_file(&self, inode: InodeNumber, offset: u64, mut into: ReadInto<'_>) -> Result<usize> {
        let inode = self.regular(inode)?;
        read::expect_readable(&inode)?;
        let left = inode.head.size.get().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        match &mut into {
            ReadInto::Bytes(bytes) => W::read(self, &inode, offset, bytes.get_mut(..length).unwrap_or_default())?,
            ReadInto::Content { content, .. } => W::read(self, &inode, offset, content.set_bytes(length))?,
            ReadInto::Nothing { .. } => self.read_nowhere(&inode, offset, length)?,
        }
        Ok(length)
    }

    fn target(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let inode = self.inode(inode)?;
        if inode.kind != FileKind::Symlink {
            let detail = format!("inode {} is a {}", inode.nid.0, inode.kind);
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        read::expect_readable(&inode)?;
        let (size, most) = (inode.head.size.get(), self.geometry().block_size() as u64);
        if size == 0 || size > most {
            let detail = format!("a symlink target of {size} bytes; expected 1 to {most}");
            return Err(Defect::new(FindingKind::Inode, detail).of(inode.nid).into_error());
        }
        let mut target = vec![0; size as usize];
        W::read(self, &inode, 0, &mut target)?;
        if target.contains(&0) {
            return Err(Defect::new(FindingKind::Inode, "a symlink target that contains NUL")
                .of(inode.nid)
                .into_error());
        }
        Ok(target)
    }
}

impl<B: Blocks + Send, W: Access<B>> FileSystem for MountedVolume<B, W> {
    fn root(&self) -> InodeNumber {
        InodeNumber(u64::from(NodeId::ROOT.0))
    }

    fn volume(&self) -> Result<VolumeStatus> {
        self.status()
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.look_up(directory, name)
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        Ok(W::attributes(&self.inode(inode)?, self.geometry()))
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.list(directory, cookie, sink)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        self.read_file(inode, offset, into)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        W::data_after(self, &self.regular(inode)?, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        W::changes(self)
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }

    fn extents(&self) -> Option<&dyn Extents> {
        Some(self)
    }
}

impl<B: Blocks + Send, W: Access<B>> Extents for MountedVolume<B, W> {
    fn extent_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<FileExtent>> {
        W::extent_after(self, &self.regular(inode)?, offset)
    }
}

impl<B: Blocks + Send, W: Access<B>> Symlinks for MountedVolume<B, W> {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.target(inode)
    }
}

impl<B: Blocks + Send, W: Access<B>> Xattrs for MountedVolume<B, W> {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        xattr::one(self, &self.inode(inode)?, name)
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.all_xattrs(inode)?.into_iter().map(|(name, _)| name).collect())
    }

    fn all_xattrs(&self, inode: InodeNumber) -> Result<Vec<XattrPair>> {
        let (pairs, fault) = xattr::all(self, &self.inode(inode)?)?;
        match fault {
            // A caller that asked for all attributes must learn that some are missing; those
            // before the damage can be read one by one.
            Some(fault) => Err(fault),
            None => Ok(pairs),
        }
    }
}
