//! Listing of directories in parts, with `.` and `..`.

use std::ops::ControlFlow;

use fuser::{Errno, FileAttr, FileType, INodeNo};
use nandkit_vfs::{FileKind, FileSystem, InodeNumber};

use crate::answer::{Answer, FaultResult};
use crate::served_volume::ServedVolume;
use crate::translate::{file_type, is_name};
use crate::{Operation, Volume};

/// Entries requested at a time.
const PART: usize = 64;
/// The cookies of `.` and `..` come before those of the file system.
const DOTS: u64 = 2;
/// Largest cookie: programs treat cookies as signed.
const COOKIE_MAX: u64 = i64::MAX as u64 - DOTS;

/// One entry.
pub(crate) struct Entry {
    pub inside: InodeNumber,
    pub inode: INodeNo,
    pub kind: FileType,
    pub name: Vec<u8>,
    /// The cookie to continue after it.
    pub cookie: u64,
}

/// A part of a directory.
struct Part {
    entries: Vec<Entry>,
    /// The file system's cookie of the next part; `None` at the end.
    next: Option<u64>,
}

impl<V: Volume> ServedVolume<V> {
    fn dots(&self, directory: INodeNo, from: u64) -> Vec<Entry> {
        let inside = self.inside(directory);
        let parent = self.nodes().parent(inside);
        let parent = self.outside(parent).unwrap_or(directory);
        let dots = [(inside, directory, &b"."[..]), (inside, parent, b"..")].into_iter().zip(1..);
        let entry = |((inside, inode, name), cookie): ((InodeNumber, INodeNo, &[u8]), u64)| Entry {
            inside,
            inode,
            kind: file_type(FileKind::Directory),
            name: name.to_vec(),
            cookie,
        };
        dots.map(entry).filter(|entry| entry.cookie > from).collect()
    }

    fn part(&self, fs: &dyn FileSystem, directory: InodeNumber, cookie: u64) -> FaultResult<Part> {
        let mut part = Part { entries: Vec::with_capacity(PART), next: None };
        let mut wrong = false;
        fs.read_dir(directory, cookie, &mut |entry| {
            if entry.cookie > COOKIE_MAX {
                wrong = true;
                return ControlFlow::Break(());
            }
            // Skip entries for which the kernel would drop the whole directory.
            let known = self.nodes().outside(entry.inode).filter(|_| is_name(entry.name));
            if let Some(inode) = known {
                part.entries.push(Entry {
                    inside: entry.inode,
                    inode,
                    kind: file_type(entry.kind),
                    name: entry.name.to_vec(),
                    cookie: entry.cookie + DOTS,
                });
            }
            part.next = Some(entry.cookie);
            if part.entries.len() < PART { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if part.entries.len() < PART {
            part.next = None;
        }
        if wrong { Err(Errno::EIO.into()) } else { Ok(part) }
    }

    /// Passes the entries of a directory to `take` until it is full or there are no more. With
    /// `told`, attributes are included, and the kernel gets references to these inodes.
    pub(crate) fn list(
        &self,
        directory: INodeNo,
        offset: u64,
        told: bool,
        mut take: impl FnMut(&Entry, Option<FileAttr>) -> bool,
    ) -> Answer<()> {
        let inside = self.inside(directory);
        self.read(Operation::List, |fs| {
            // Report a missing inode or one that is not a directory before listing the dots.
            let own = self.attributes(fs, inside)?;
            if own.kind != FileType::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            if offset < DOTS {
                for entry in self.dots(directory, offset) {
                    if take(&entry, told.then_some(FileAttr { ino: entry.inode, ..own })) {
                        return Ok(());
                    }
                }
            }
            let mut next = Some(offset.saturating_sub(DOTS));
            while let Some(cookie) = next {
                let part = self.part(fs, inside, cookie)?;
                for entry in &part.entries {
                    let attributes = told.then(|| self.attributes_of(fs, entry));
                    if take(entry, attributes) {
                        return Ok(());
                    }
                    if told {
                        self.nodes().told(entry.inside, inside);
                    }
                }
                next = part.next;
            }
            Ok(())
        })
    }

    /// An entry's attributes. If they cannot be read, they hold only what the entry says, and must
    /// not be cached.
    fn attributes_of(&self, fs: &dyn FileSystem, entry: &Entry) -> FileAttr {
        self.attributes(fs, entry.inside).unwrap_or_else(|_| unreadable(entry))
    }
}

/// Whether attributes hold only what the entry says.
pub(crate) fn is_unreadable(attributes: &FileAttr) -> bool {
    attributes.nlink == 0
}

fn unreadable(entry: &Entry) -> FileAttr {
    let time = std::time::UNIX_EPOCH;
    FileAttr {
        ino: entry.inode,
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: entry.kind,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
