//! The volume as a file system.

use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;
use nandkit_vfs::{
    Attributes, Changes, DirectoryEntry, ErrorKind, Features, FileKind, FileSystem, FsError, InodeNumber, Result,
    Symlinks, Timestamp, VolumeStatus, Xattrs,
};

use crate::layout::{BLOCK_SIZE, Inode, Key, NAME_MAX, ROOT};
use crate::mount::Ubifs;
use crate::read::Entry;

/// Names with one hash that a cookie can tell apart.
const COLLISION_BITS: u32 = 20;

/// The kind of an entry's type (`UBIFS_ITYPE_*`).
pub(crate) fn kind_of(file_type: u8) -> Option<FileKind> {
    Some(match file_type {
        0 => FileKind::Regular,
        1 => FileKind::Directory,
        2 => FileKind::Symlink,
        3 => FileKind::BlockDevice,
        4 => FileKind::CharacterDevice,
        5 => FileKind::Fifo,
        6 => FileKind::Socket,
        _ => return None,
    })
}

/// Whether a file can have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

/// A device number as Linux encodes it in 32 or 64 bits.
fn device_number(data: &[u8]) -> u64 {
    let low = data.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    let (major, minor) = (low >> 8 & 0xFFF, low & 0xFF | low >> 12 & 0xF_FF00);
    major << 32 | minor
}

/// The kind of an inode. Errors: its mode is of none.
fn kind(number: u32, node: &Inode) -> Result<FileKind> {
    let mode = node.mode.get();
    let unknown = || FsError::new(ErrorKind::Corrupt, format!("inode {number}: mode {mode:#o} is of no kind"));
    FileKind::of_mode(mode).ok_or_else(unknown)
}

fn timestamp(seconds: u64, nanoseconds: u32) -> Timestamp {
    Timestamp((seconds as i64).saturating_mul(1_000_000_000).saturating_add(nanoseconds.into()))
}

impl Ubifs {
    /// The number of an inode on flash.
    pub(crate) fn number(&self, inode: InodeNumber) -> Result<u32> {
        let missing = || FsError::new(ErrorKind::NotFound, format!("no inode {}", inode.0));
        u32::try_from(inode.0).map_err(|_| missing())
    }

    /// The number of a directory. Errors: it is none, or its names are encrypted.
    pub(crate) fn directory(&self, inode: InodeNumber) -> Result<u32> {
        let number = self.number(inode)?;
        let (node, _) = self.inode(number)?;
        match kind(number, &node)? {
            FileKind::Directory => self.refuse_encrypted(number, &node).map(|()| number),
            kind => Err(FsError::new(ErrorKind::NotADirectory, format!("inode {number} is a {kind}"))),
        }
    }

    /// The number of a regular file, and its inode. Errors: it is none.
    pub(crate) fn regular(&self, inode: InodeNumber) -> Result<(u32, Inode)> {
        let number = self.number(inode)?;
        let (node, _) = self.inode(number)?;
        let kind = kind(number, &node)?;
        let refusal = match kind {
            FileKind::Regular => return Ok((number, node)),
            FileKind::Directory => ErrorKind::IsADirectory,
            _ => ErrorKind::InvalidArgument,
        };
        Err(FsError::new(refusal, format!("inode {number} is a {kind}")))
    }

    /// The entries of a directory in the order of their keys, with the cookie that continues after
    /// each, from `cookie` on. A damaged one is an error in its place.
    pub(crate) fn entries(&self, directory: u32, cookie: u64) -> impl Iterator<Item = (u64, Result<Entry>)> {
        let first = Key::name(directory, (cookie >> COLLISION_BITS) as u32, false);
        let keys = first..=Key::name(directory, u32::MAX, false);
        let done = cookie & ((1 << COLLISION_BITS) - 1);
        // The key that comes now, and how many entries of it there were.
        let (mut current, mut index) = (first, 0);
        let numbered = self.tree.range(keys).map(move |(key, place)| {
            index = if key == current { index + 1 } else { 1 };
            current = key;
            (index, key, place)
        });
        // A hostile directory has all names under one hash.
        let left =
            numbered.filter(move |(index, key, _)| *index < 1 << COLLISION_BITS && (*key != first || *index > done));
        left.map(|(index, key, place)| {
            let next = u64::from(key.low()) << COLLISION_BITS | index;
            (next, self.entry(key, place, false))
        })
    }

    /// Reads bytes of a file that has them.
    fn read_bytes(&self, inode: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        let size = u64::from(BLOCK_SIZE);
        let (mut at, mut rest, mut block) = (offset, into, [0; BLOCK_SIZE as usize]);
        while !rest.is_empty() {
            let column = (at % size) as usize;
            self.block(inode, at / size, &mut block)?;
            let (piece, tail) = rest.split_at_mut(rest.len().min(block.len() - column));
            if let Some(from) = block.get(column..column + piece.len()) {
                piece.copy_from_slice(from);
            }
            at += piece.len() as u64;
            rest = tail;
        }
        Ok(())
    }
}

impl FileSystem for Ubifs {
    fn root(&self) -> InodeNumber {
        InodeNumber(ROOT.into())
    }

    fn volume(&self) -> Result<VolumeStatus> {
        let bytes = u64::from(self.superblock.leb_count.get()) * u64::from(self.superblock.leb_size.get());
        let free = match &self.writer {
            Some(_) => self.reported_free(),
            None => self.master.free.get().saturating_add(self.master.dirty.get()),
        };
        let free = free.min(bytes);
        Ok(VolumeStatus {
            block_size: BLOCK_SIZE,
            blocks: bytes / u64::from(BLOCK_SIZE),
            blocks_free: free / u64::from(BLOCK_SIZE),
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
            file_size_max: (1 << 29) * u64::from(BLOCK_SIZE),
            features: Features { atomic_writes: false, posix_acls: false, ..Features::POSIX },
        })
    }

    fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let number = self.directory(directory)?;
        if name.len() > NAME_MAX {
            return Err(FsError::new(ErrorKind::NameTooLong, format!("a name of {} bytes", name.len())));
        }
        let missing = || FsError::new(ErrorKind::NotFound, format!("no '{}'", String::from_utf8_lossy(name)));
        let entry = self.entry_named(number, name, false)?.filter(|_| is_name(name)).ok_or_else(missing)?;
        Ok(InodeNumber(entry.inode.into()))
    }

    fn stat(&self, inode: InodeNumber) -> Result<Attributes> {
        let number = self.number(inode)?;
        let (node, data) = self.inode(number)?;
        let kind = kind(number, &node)?;
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice);
        let blocks = match (kind, Key::data(number, 0), Key::data(number, (1 << 29) - 1)) {
            (FileKind::Regular, Some(first), Some(last)) => {
                let waiting = self.pages.of(number, 0).filter(|(_, is_new)| *is_new);
                (self.tree.range(first..=last).count() + waiting.count()) as u64
            }
            _ => 0,
        };
        Ok(Attributes {
            inode,
            kind,
            mode: (node.mode.get() & 0o7777) as u16,
            links: node.links.get(),
            uid: node.uid.get(),
            gid: node.gid.get(),
            device: if is_device { device_number(&data) } else { 0 },
            size: if kind == FileKind::Symlink { data.len() as u64 } else { node.size.get() },
            allocated: blocks * u64::from(BLOCK_SIZE),
            accessed: timestamp(node.accessed_s.get(), node.accessed_ns.get()),
            modified: timestamp(node.modified_s.get(), node.modified_ns.get()),
            changed: timestamp(node.changed_s.get(), node.changed_ns.get()),
            created: None,
        })
    }

    fn read_dir(
        &self,
        directory: InodeNumber,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let number = self.directory(directory)?;
        let mut failed = None;
        for (next, entry) in self.entries(number, cookie) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            let Some(kind) = kind_of(entry.file_type).filter(|_| is_name(&entry.name)) else { continue };
            let inode = InodeNumber(entry.inode.into());
            if sink(DirectoryEntry { name: &entry.name, inode, kind, cookie: next }).is_break() {
                return Ok(());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn read(&self, inode: InodeNumber, offset: u64, into: ReadInto<'_>) -> Result<usize> {
        let (number, node) = self.regular(inode)?;
        self.refuse_encrypted(number, &node)?;
        let left = usize::try_from(node.size.get().saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = into.len().min(left);
        into.fill_by(length, |bytes| self.read_bytes(number, offset, bytes))?;
        Ok(length)
    }

    fn data_after(&self, inode: InodeNumber, offset: u64) -> Result<Option<Range<u64>>> {
        let (number, node) = self.regular(inode)?;
        let size = u64::from(BLOCK_SIZE);
        let (Some(first), Some(last)) = (Key::data(number, offset / size), Key::data(number, (1 << 29) - 1)) else {
            return Ok(None);
        };
        let mut written = self.tree.range(first..=last).map(|(key, _)| u64::from(key.low())).peekable();
        let new = self.pages.of(number, offset / size).filter(|(_, is_new)| *is_new);
        let mut waiting = new.map(|(block, _)| block).peekable();
        let mut blocks = std::iter::from_fn(|| match (written.peek(), waiting.peek()) {
            (Some(one), Some(other)) if other < one => waiting.next(),
            (None, _) => waiting.next(),
            _ => written.next(),
        });
        let Some(start) = blocks.next() else { return Ok(None) };
        let mut end = start + 1;
        for block in blocks {
            if block != end {
                break;
            }
            end += 1;
        }
        let range = (start * size).max(offset)..(end * size).min(node.size.get());
        Ok((!range.is_empty()).then_some(range))
    }

    fn changes(&mut self) -> Option<&mut dyn Changes> {
        self.writer.is_some().then_some(self)
    }

    fn symlinks(&self) -> Option<&dyn Symlinks> {
        Some(self)
    }

    fn xattrs(&self) -> Option<&dyn Xattrs> {
        Some(self)
    }
}

impl Symlinks for Ubifs {
    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let number = self.number(inode)?;
        let (node, data) = self.inode(number)?;
        let kind = kind(number, &node)?;
        if kind != FileKind::Symlink {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("inode {number} is a {kind}")));
        }
        self.refuse_encrypted(number, &node)?;
        Ok(data)
    }
}
