//! The reading side of the file-system contract.

use std::ops::{ControlFlow, Range};

use nandkit_flash::Flash;
use nandkit_units::{Cause, Payload, ReadInto};
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result,
    Symlinks, Timestamp, VolumeStatus, Xattrs,
};

use crate::Ino;
use crate::catalogue::{Owner, Queue, is_dirty};
use crate::fragments::Fragment;
use crate::inode::{Body, Entries, Entry, Inode};
use crate::layout::{INODE_SIZE, NAME_MAX, PAGE_SIZE, ROOT};
use crate::volume::Jffs2;

fn seconds(seconds: u32) -> Timestamp {
    Timestamp(i64::from(seconds) * 1_000_000_000)
}

impl<F: Flash> Jffs2<F> {
    fn existing(&self, inode: InodeNumber) -> Result<(Ino, &Inode)> {
        let missing = || FsError::new(ErrorKind::NotFound, format!("inode {} does not exist", inode.0));
        let number = u32::try_from(inode.0).map(Ino).map_err(|_| missing())?;
        let found = self.inodes.get(&number).filter(|inode| inode.links > 0 || inode.retained > 0);
        Ok((number, found.ok_or_else(missing)?))
    }

    /// The body of an existing inode with intact attributes.
    pub(crate) fn intact(&self, inode: InodeNumber) -> Result<(Ino, &Inode, &Body, FileKind)> {
        let (number, found) = self.existing(inode)?;
        let body = self.body(number)?;
        let lost = || FsError::new(ErrorKind::Corrupt, format!("inode {number}: no valid node gives its attributes"));
        Ok((number, found, body, FileKind::of_mode(body.mode).ok_or_else(lost)?))
    }

    /// Length in bytes of the nodes with a file's content. (Linux reports the size, as if holes
    /// took space.)
    fn allocated(&self, body: &Body) -> u64 {
        let mut last = None;
        let mut bytes = 0;
        for fragment in body.fragments.all() {
            // A node that was overwritten in the middle counts for each of its pieces: this is
            // rare, and a table would not pay off.
            if last != Some(fragment.node) {
                bytes += self.catalogue.node(fragment.node).map_or(0, |node| u64::from(node.length));
            }
            last = Some(fragment.node);
        }
        bytes
    }

    fn listing(&self, inode: InodeNumber) -> Result<(Option<&Entries>, &Body)> {
        let (number, found, body, kind) = self.intact(inode)?;
        if kind != FileKind::Directory {
            return Err(FsError::new(ErrorKind::NotADirectory, format!("inode {number} is a {kind}")));
        }
        Ok((found.entries.as_deref(), body))
    }

    /// The type of a directory entry: its own, else its inode's.
    fn entry_kind(&self, entry: &Entry) -> FileKind {
        let told = FileKind::of_mode(u32::from(entry.kind) << 12);
        told.or_else(|| self.body(entry.inode).ok().and_then(|body| FileKind::of_mode(body.mode)))
            .unwrap_or(FileKind::Regular)
    }

    /// Whether a fragment's node is a hole. An unreadable one is not: a read will report it.
    fn is_hole(&self, number: Ino, fragment: &Fragment) -> bool {
        let is_bare = self.catalogue.node(fragment.node).is_some_and(|node| node.length == INODE_SIZE);
        is_bare && self.node_content(number, fragment, Cause::UserData).is_ok_and(|content| content.is_empty())
    }

    /// Fills `into` with the content of file `number` from `from` on; zeroes past the end of its
    /// nodes. Errors: `Corrupt`, `Device`.
    pub(crate) fn read_range(&self, number: Ino, body: &Body, from: u32, into: &mut [u8], cause: Cause) -> Result<()> {
        let length = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let end = from.saturating_add(length);
        into.fill(0);
        let mut last = None;
        for fragment in body.fragments.within(from, end) {
            let content = match last.take() {
                Some((node, content)) if node == fragment.node => content,
                _ => self.node_content(number, fragment, cause)?,
            };
            let (start, stop) = (fragment.start.max(from), fragment.end.min(end));
            let source = (start - fragment.node_start) as usize..(stop - fragment.node_start) as usize;
            let target = (start - from) as usize..(stop - from) as usize;
            if let (Some(source), Some(target)) = (content.get(source), into.get_mut(target)) {
                target.copy_from_slice(source);
            }
            last = Some((fragment.node, content));
        }
        Ok(())
    }
}

/// Checks that an inode is a regular file. Errors: `IsADirectory`, and `InvalidArgument` for all
/// other types.
fn regular(number: Ino, kind: FileKind) -> Result<()> {
    match kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(FsError::new(ErrorKind::IsADirectory, format!("inode {number} is a directory"))),
        other => Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {number} is a {other}"))),
    }
}

impl<F: Flash> FileSystem for Jffs2<F> {
    fn root(&self) -> InodeNumber {
        ROOT.into()
    }

    /// Free space as in Linux: includes dirt, but not the collector's reserve (fs/jffs2/fs.c,
    /// `jffs2_statfs`).
    fn volume(&self) -> Result<VolumeStatus> {
        let sums = &self.catalogue.sums;
        let blocks = self.catalogue.blocks.len() as u64;
        let erase_size = u64::from(self.catalogue.erase_size);
        let kept = match self.writer.as_deref() {
            Some(writer) => u64::from(writer.levels().write) * erase_size,
            None => 0,
        };
        // Obsolete bytes in an open block count as dirty only when the block is closed.
        let opened =
            self.catalogue.on(Queue::Open).filter_map(|block| self.catalogue.block(block)).map(|block| block.wasted);
        let opened: u64 = opened.filter(|wasted| is_dirty(*wasted)).map(u64::from).sum();
        // Collecting a dirty block also frees its summary, which counts as used.
        let dirty = self.catalogue.on(Queue::Dirty).chain(self.catalogue.on(Queue::VeryDirty));
        let last = dirty.filter_map(|block| self.catalogue.block(block)?.nodes.last());
        let summaries = last.filter(|node| node.owner() == Owner::None && !node.is_obsolete());
        let summaries: u64 = summaries.map(|node| u64::from(node.length)).sum();
        Ok(VolumeStatus {
            block_size: PAGE_SIZE,
            blocks: blocks * erase_size / u64::from(PAGE_SIZE),
            blocks_free: (sums.dirty + opened + summaries + sums.free).saturating_sub(kept) / u64::from(PAGE_SIZE),
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
            file_size_max: u64::from(u32::MAX) >> 1,
            features: Features {
                owner_max: u16::MAX as u32,
                exchange: false,
                atomic_writes: false,
                modified_step_ns: 1_000_000_000,
                ..Features::POSIX
            },
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let (entries, body) = self.listing(directory)?;
        if name.len() > NAME_MAX {
            return Err(FsError::new(
                ErrorKind::NameTooLong,
                format!("a name of {} bytes; at most {NAME_MAX}", name.len()),
            ));
        }
        let entry = entries.and_then(|entries| entries.get(name)).filter(|entry| entry.inode != Ino::NONE);
        let entry = entry.filter(|entry| !body.dropped.contains_key(&entry.node));
        let entry = entry.ok_or_else(|| {
            FsError::new(
                ErrorKind::NotFound,
                format!("no {:?} in inode {}", String::from_utf8_lossy(name), directory.0),
            )
        })?;
        Ok(entry.inode.into())
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let (number, found, body, kind) = self.intact(inode)?;
        let links = if kind == FileKind::Directory {
            // Counted as in Linux (fs/jffs2/fs.c, `jffs2_iget`).
            let entries = found.entries.iter().flat_map(|entries| entries.iter());
            let inner = entries.filter(|(_, entry)| entry.inode != Ino::NONE && entry.kind == 4).count();
            u32::try_from(inner).unwrap_or(u32::MAX).saturating_add(2 + u32::from(number == ROOT))
        } else {
            found.links
        };
        Ok(Attributes {
            inode,
            kind,
            mode: (body.mode & 0o7777) as u16,
            links,
            uid: u32::from(body.uid),
            gid: u32::from(body.gid),
            device: body.device,
            size: u64::from(body.size),
            allocated: self.allocated(body),
            accessed: seconds(body.accessed),
            modified: seconds(body.modified),
            changed: seconds(body.changed),
            created: None,
        })
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (entries, body) = self.listing(directory)?;
        for (cookie, name, entry) in entries.into_iter().flat_map(|entries| entries.after(cookie)) {
            if body.dropped.contains_key(&entry.node) {
                continue;
            }
            let inode = entry.inode.into();
            if sink(DirectoryEntry { name, inode, kind: self.entry_kind(entry), cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, inode: InodeNumber, offset: u64, mut into: ReadInto<'_>) -> Result<usize> {
        let (number, _, body, kind) = self.intact(inode)?;
        regular(number, kind)?;
        let left = u64::from(body.size).saturating_sub(offset);
        let length = left.min(into.len() as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        // `offset` is less than the size, which has 32 bits.
        let from = offset as u32;
        match &mut into {
            ReadInto::Bytes(bytes) => {
                let Some(bytes) = bytes.get_mut(..length) else { return Ok(0) };
                self.read_range(number, body, from, bytes, Cause::UserData)?;
            }
            other => {
                let mut bytes = vec![0; length];
                self.read_range(number, body, from, &mut bytes, Cause::UserData)?;
                other.deliver(Payload::Bytes(&bytes));
            }
        }
        Ok(length)
    }

    /// Consecutive pieces in nodes are one range; hole nodes, and ranges without a node, are holes.
    /// Cost: as in the trait; for each hole node its 68 bytes are read.
    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let (number, _, body, kind) = self.intact(inode)?;
        regular(number, kind)?;
        let Some(from) = u32::try_from(offset).ok().filter(|from| *from < body.size) else { return Ok(None) };
        let mut data: Option<Range<u64>> = None;
        for fragment in body.fragments.within(from, body.size) {
            let (start, end) = (fragment.start.max(from).into(), fragment.end.min(body.size).into());
            let goes_on = data.as_ref().is_none_or(|data| data.end == start);
            let is_hole = !goes_on || self.is_hole(number, fragment);
            match &mut data {
                None if is_hole => {}
                None => data = Some(start..end),
                Some(_) if is_hole => break,
                Some(data) => data.end = end,
            }
        }
        Ok(data)
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        if self.writer.is_some() { Some(self) } else { None }
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }
}

impl<F: Flash> Symlinks for Jffs2<F> {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let (number, _, body, kind) = self.intact(inode)?;
        if kind != FileKind::Symlink {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {number} is a {kind}")));
        }
        Ok(body.target.clone())
    }
}
