//! The file-system contract for rescued files.

use std::ops::{ControlFlow, Range};

use nandkit_block::BlockDevice;
use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result,
    Symlinks, Timestamp, VolumeStatus, XattrPair, Xattrs,
};

use super::RescuedVolume;
use super::view::View;
use crate::blocks::Blocks;
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::NAME_MAX;
use crate::{read, xattr};

impl<D: BlockDevice> RescuedVolume<D> {
    /// A rescued inode and a view of its own nodes. Errors: `NotFound`, `Corrupt`, `Device`.
    fn found(&self, number: InodeNumber) -> Result<(View<'_, D>, Inode)> {
        let absent = || FsError::new(ErrorKind::NotFound, format!("no inode {}", number.0));
        let nid = u32::try_from(number.0).map(NodeId).map_err(|_| absent())?;
        if !self.inodes.contains_key(&nid) {
            return Err(absent());
        }
        let view = self.view(nid);
        let inode = view.inode()?;
        Ok((view, inode))
    }

    fn is_made_up(&self, number: InodeNumber) -> bool {
        let is_node = u32::try_from(number.0).is_ok_and(|nid| self.inodes.contains_key(&NodeId(nid)));
        !is_node && self.directories.contains_key(&number.0)
    }

    fn regular(&self, number: InodeNumber) -> Result<(View<'_, D>, Inode)> {
        if self.is_made_up(number) {
            return Err(FsError::new(ErrorKind::IsADirectory, format!("inode {} is a directory", number.0)));
        }
        let (view, inode) = self.found(number)?;
        match inode.kind {
            FileKind::Regular => Ok((view, inode)),
            FileKind::Directory => {
                Err(FsError::new(ErrorKind::IsADirectory, format!("inode {} is a directory", number.0)))
            }
            kind => Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {} is a {kind}", number.0))),
        }
    }

    /// The names in a directory. Errors: `NotADirectory`, `NotFound`.
    fn names(&self, directory: InodeNumber) -> Result<Option<&std::collections::BTreeMap<Vec<u8>, u64>>> {
        let attributes = self.stat(directory)?;
        match attributes.kind {
            FileKind::Directory => Ok(self.directories.get(&directory.0)),
            kind => Err(FsError::new(ErrorKind::NotADirectory, format!("inode {} is a {kind}", directory.0))),
        }
    }
}

/// The attributes of a directory that this program invented.
fn made_up(number: InodeNumber) -> Attributes {
    Attributes {
        inode: number,
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
    }
}

impl<D: BlockDevice> FileSystem for RescuedVolume<D> {
    fn root(&self) -> InodeNumber {
        InodeNumber(u64::from(NodeId::ROOT.0))
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let geometry = self.scan.blocks.geometry();
        Ok(VolumeStatus {
            block_size: geometry.block_size() as u32,
            blocks: geometry.block_count,
            blocks_free: 0,
            inodes: self.inodes.len() as u64,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
            file_size_max: u64::MAX,
            features: Features::POSIX,
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let found = self.names(directory)?.and_then(|names| names.get(name));
        found.map(|number| InodeNumber(*number)).ok_or_else(|| {
            let shown = String::from_utf8_lossy(name);
            FsError::new(ErrorKind::NotFound, format!("no {shown} in directory {}", directory.0))
        })
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        if inode == self.root() && !self.has_root() || self.is_made_up(inode) {
            return Ok(made_up(inode));
        }
        let (view, found) = self.found(inode)?;
        let mut attributes = found.attributes(view.geometry());
        attributes.size = view.size(&found);
        if attributes.kind != FileKind::Directory {
            attributes.links = self.links.get(&inode.0).copied().unwrap_or(1);
        }
        Ok(attributes)
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let Some(names) = self.names(directory)? else { return Ok(()) };
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        for ((name, number), cookie) in names.iter().skip(skip).zip(cookie.saturating_add(1)..) {
            let inode = InodeNumber(*number);
            let known = u32::try_from(*number).ok().and_then(|nid| self.inodes.get(&NodeId(nid)));
            let kind = known.map_or(FileKind::Directory, |found| found.kind);
            if sink(DirectoryEntry { name, inode, kind, cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, inode: InodeNumber, offset: u64, mut into: ReadInto<'_>) -> Result<usize> {
        let (view, found) = self.regular(inode)?;
        let left = view.size(&found).saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        match &mut into {
            ReadInto::Bytes(bytes) => {
                read::read(&view, &self.clusters, &found, offset, bytes.get_mut(..length).unwrap_or_default())?;
            }
            ReadInto::Content { content, .. } => {
                read::read(&view, &self.clusters, &found, offset, content.set_bytes(length))?;
            }
            ReadInto::Nothing { .. } => {}
        }
        Ok(length)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let (view, found) = self.regular(inode)?;
        view.data_after(&found, offset)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        None
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }
}

impl<D: BlockDevice> Symlinks for RescuedVolume<D> {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let (view, found) = self.found(inode)?;
        if found.kind != FileKind::Symlink {
            let detail = format!("inode {} is a {}", inode.0, found.kind);
            return Err(FsError::new(ErrorKind::InvalidArgument, detail));
        }
        let (size, most) = (found.head.size.get(), view.geometry().block_size() as u64);
        let mut target = vec![0; size.min(most) as usize];
        read::read(&view, &self.clusters, &found, 0, &mut target)?;
        if target.is_empty() || size > most || target.contains(&0) {
            let detail = format!("inode {} is a link whose target of {size} bytes is lost", inode.0);
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        Ok(target)
    }
}

impl<D: BlockDevice> Xattrs for RescuedVolume<D> {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        let (view, found) = self.found(inode)?;
        xattr::one(&view, &found, name)
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        Ok(self.all_xattrs(inode)?.into_iter().map(|(name, _)| name).collect())
    }

    fn all_xattrs(&self, inode: InodeNumber) -> Result<Vec<XattrPair>> {
        if self.is_made_up(inode) {
            return Ok(Vec::new());
        }
        // The attributes before any damage; the doubts report the rest.
        let (view, found) = self.found(inode)?;
        Ok(xattr::all(&view, &found).map_or_else(|_| Vec::new(), |(pairs, _)| pairs))
    }
}
