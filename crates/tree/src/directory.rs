//! A host directory as a tree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nandkit_vfs::source::{SourceNode, SourceTree, TreeBuilder, components, path, same_inode};
use nandkit_vfs::{ErrorKind, FileKind, FsError};
use rayon::prelude::*;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::error::show;
use crate::{Note, Result, TreeError, host};

/// Options for reading a host directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Paths, relative to the directory, that are not accessed at all.
    pub exclude: Vec<Vec<u8>>,
    /// Ignores all extended attributes, including POSIX access control lists.
    pub no_xattrs: bool,
    /// Leaves out and reports what has disappeared or cannot be read, instead of failing: for a
    /// tree that is in use.
    pub keeps_going: bool,
}

/// A host directory as a tree. Names, attributes and extended attributes are read when it is
/// opened, contents on demand; a file that has changed since then is an error that names it.
/// Symbolic links are never followed, except in the path of the directory itself.
#[derive(Debug)]
pub struct HostDirectory {
    root: PathBuf,
    directory: OwnedFd,
    nodes: Vec<SourceNode>,
    identities: Vec<Option<Identity>>,
    left_out: Vec<Note>,
    open: Mutex<Vec<(usize, Arc<File>)>>,
}

/// Identifies a file version: device, inode, size, modification time.
pub(crate) type Identity = (u64, u64, u64, i64);

/// Most files kept open between reads.
const OPEN_MAX: usize = 16;

impl HostDirectory {
    /// Reads all names and attributes. Errors: `Host` with the unreadable path; `Node` for what no
    /// tree can contain.
    pub fn open(root: &Path, options: &DirectoryOptions) -> Result<Self> {
        let shown = root.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(root, flags, Mode::empty()).map_err(|e| TreeError::host(&shown, "opening", e))?;
        let found = rustix::fs::fstat(&directory).map_err(|e| TreeError::host(&shown, "reading attributes", e))?;
        let mut reader = Reader { root, options, exclude: Vec::new() };
        for excluded in &options.exclude {
            let names = components(excluded).map_err(|error| TreeError::node(excluded, error))?;
            reader.exclude.push(names.join(&b'/'));
        }
        let mut node = node_of(&found, FileKind::Directory);
        node.xattrs = reader.xattrs(directory.as_fd(), b"", b"")?;
        let mut scan = Scan {
            keeps_going: options.keeps_going,
            builder: TreeBuilder::new(node, SourceNode::new(FileKind::Directory, 0o755)),
            seen: BTreeMap::new(),
            left_out: Vec::new(),
        };
        let mut level = vec![Vec::new()];
        while !level.is_empty() {
            let listed: Vec<_> =
                level.into_par_iter().map(|path| (reader.directory(directory.as_fd(), &path), path)).collect();
            level = Vec::new();
            for (listing, path) in listed {
                scan.take(listing, path, &mut level)?;
            }
        }
        let Scan { builder, mut left_out, .. } = scan;
        left_out.sort();
        let built = builder.finish();
        Ok(Self {
            root: root.to_path_buf(),
            directory,
            nodes: built.nodes,
            identities: built.contents,
            left_out,
            open: Mutex::new(Vec::new()),
        })
    }

    /// Nodes left out because of [`DirectoryOptions::keeps_going`], by path.
    pub fn left_out(&self) -> &[Note] {
        &self.left_out
    }

    /// A node. Errors: it does not exist.
    pub(crate) fn nodes_at(&self, node: usize) -> nandkit_vfs::Result<&SourceNode> {
        self.nodes.get(node).ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("no node {node}")))
    }

    /// The identity of a regular file when the tree was read.
    pub(crate) fn identity(&self, node: usize) -> Option<Identity> {
        self.identities.get(node).copied().flatten()
    }

    /// Opens the current file of a node, whatever its type. Errors: it is gone, or is a symbolic
    /// link.
    pub(crate) fn open_now(&self, node: usize) -> io::Result<File> {
        let relative = path(&self.nodes, node);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        host::open_beneath(self.directory.as_fd(), &relative, flags).map(File::from)
    }

    /// The file of a node, from the cache of open files if possible.
    fn file(&self, node: usize, expected: Identity) -> nandkit_vfs::Result<Arc<File>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = open.iter().find(|(index, _)| *index == node) {
            return Ok(Arc::clone(file));
        }
        drop(open);
        let file =
            self.open_now(node).map_err(|error| FsError::device(format!("{}: opening", self.show(node)), error))?;
        let file = Arc::new(file);
        self.check(node, &file, expected)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push((node, Arc::clone(&file)));
        Ok(file)
    }

    fn check(&self, node: usize, file: &File, expected: Identity) -> nandkit_vfs::Result<()> {
        let found = rustix::fs::fstat(file).map_err(|error| {
            FsError::device(format!("{}: reading attributes", self.show(node)), io::Error::from(error))
        })?;
        if identity(&found) == expected {
            return Ok(());
        }
        let (size, now) = (expected.2, identity(&found).2);
        let detail = format!("{} was changed while it was read: {size} bytes before, {now} now", self.show(node));
        Err(FsError::new(ErrorKind::Corrupt, detail))
    }

    /// The host path of a node, for messages.
    pub(crate) fn show(&self, node: usize) -> String {
        format!("{}{}", self.root.display(), show(&path(&self.nodes, node)))
    }
}

impl SourceTree for HostDirectory {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        let node = same_inode(&self.nodes, node);
        let Some((found, identity)) = self.nodes.get(node).zip(self.identities.get(node)) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        let Some(identity) = identity.filter(|_| found.kind == FileKind::Regular) else {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is a {:?}", found.kind)));
        };
        let expected = found.size.saturating_sub(offset).min(into.len() as u64);
        if expected == 0 {
            return Ok(0);
        }
        let into = into.get_mut(..expected as usize).unwrap_or_default();
        let file = self.file(node, identity)?;
        let count = host::read_at(&file, into, offset)
            .map_err(|error| FsError::device(format!("{}: reading at {offset}", self.show(node)), error))?;
        if count as u64 != expected || offset.saturating_add(expected) == found.size {
            self.check(node, &file, identity)?;
        }
        if count as u64 != expected {
            let detail = format!("{}: {count} bytes at {offset}, expected {expected}", self.show(node));
            return Err(FsError::new(ErrorKind::Corrupt, detail));
        }
        Ok(count)
    }

    /// As reported by the host's file system (lseek(2), SEEK_DATA); if it reports no holes,
    /// everything is data.
    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        let node = same_inode(&self.nodes, node);
        let Some((found, identity)) = self.nodes.get(node).zip(self.identities.get(node)) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        let Some(identity) = identity.filter(|_| found.kind == FileKind::Regular && offset < found.size) else {
            return Ok(None);
        };
        let file = self.file(node, identity)?;
        let start = match rustix::fs::seek(&file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            // Only a hole follows, unless the file became shorter, which reads will report.
            Err(Errno::NXIO) => return self.check(node, &file, identity).map(|()| None),
            Err(_) => offset,
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap_or(found.size).min(found.size);
        Ok((start < end).then_some(start..end))
    }
}

/// A name in a directory with its attributes, or the error of reading them.
struct ExaminedEntry {
    name: Vec<u8>,
    path: Vec<u8>,
    looked: Result<(Stat, SourceNode)>,
}

/// Reads several directories in parallel.
struct Reader<'a> {
    root: &'a Path,
    options: &'a DirectoryOptions,
    exclude: Vec<Vec<u8>>,
}

impl Reader<'_> {
    fn failed(&self, path: &[u8], doing: &'static str, error: impl Into<io::Error>) -> TreeError {
        TreeError::host(format!("{}{}", self.root.display(), show(path)), doing, error)
    }

    fn xattrs(&self, directory: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        if self.options.no_xattrs {
            return Ok(Vec::new());
        }
        host::xattrs(directory, name).map_err(|error| self.failed(path, "reading extended attributes", error))
    }

    /// The sorted names of one directory.
    fn directory(&self, root: BorrowedFd<'_>, path: &[u8]) -> Result<Vec<ExaminedEntry>> {
        let opened = host::open_beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|error| self.failed(path, "opening", error))?;
        let listing = rustix::fs::Dir::read_from(&opened).map_err(|error| self.failed(path, "listing", error))?;
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|error| self.failed(path, "listing", error))?;
            let name = entry.file_name().to_bytes();
            let below = if path.is_empty() { name.to_vec() } else { [path, name].join(&b'/') };
            if !matches!(name, b"." | b"..") && !self.exclude.contains(&below) {
                names.push((entry.ino(), name.to_vec(), below));
            }
        }
        // File systems store inodes in the order of their numbers, not names.
        names.sort();
        let look = |(_, name, path): (u64, Vec<u8>, Vec<u8>)| ExaminedEntry {
            looked: self.look(opened.as_fd(), &name, &path),
            name,
            path,
        };
        let mut found: Vec<ExaminedEntry> = names.into_par_iter().with_min_len(64).map(look).collect();
        // Hard links refer to the first of their paths: the same on every host.
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn look(&self, directory: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<(Stat, SourceNode)> {
        let found = rustix::fs::statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed(path, "reading attributes", error))?;
        let Some(kind) = FileKind::of_mode(found.st_mode) else {
            let error = FsError::new(ErrorKind::NotSupported, format!("mode {:o} is of no known kind", found.st_mode));
            return Err(TreeError::node(path, error));
        };
        let mut node = node_of(&found, kind);
        if kind == FileKind::Symlink {
            let target = rustix::fs::readlinkat(directory, OsStr::from_bytes(name), Vec::new())
                .map_err(|error| self.failed(path, "reading the link", error))?;
            node.target = target.into_bytes();
            node.size = node.target.len() as u64;
        }
        node.xattrs = self.xattrs(directory, name, path)?;
        Ok((found, node))
    }
}

/// The tree read so far.
struct Scan {
    keeps_going: bool,
    builder: TreeBuilder<Identity>,
    /// The first path of each inode with several names.
    seen: BTreeMap<(u64, u64), Vec<u8>>,
    left_out: Vec<Note>,
}

impl Scan {
    /// Adds the names of a directory; appends its subdirectories to `next`.
    fn take(&mut self, listing: Result<Vec<ExaminedEntry>>, path: Vec<u8>, next: &mut Vec<Vec<u8>>) -> Result<()> {
        let found = match listing {
            Ok(found) => found,
            Err(error) => return self.leave_out(path, error),
        };
        for ExaminedEntry { path, looked, .. } in found {
            match looked.and_then(|(stat, node)| self.entry(&path, &stat, node)) {
                Ok(true) => next.push(path),
                Ok(false) => {}
                Err(error) => self.leave_out(path, error)?,
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, path: Vec<u8>, error: TreeError) -> Result<()> {
        // Without the root nothing would be left.
        if !self.keeps_going || path.is_empty() {
            return Err(error);
        }
        self.left_out.push(Note { path, reason: error.reason() });
        Ok(())
    }

    /// Adds one name; returns whether it is a directory.
    fn entry(&mut self, path: &[u8], found: &Stat, node: SourceNode) -> Result<bool> {
        let is_directory = node.kind == FileKind::Directory;
        let inode = (found.st_dev, found.st_ino);
        if !is_directory && found.st_nlink > 1 {
            if let Some(first) = self.seen.get(&inode) {
                return self.builder.link(path, first).map(|()| false).map_err(|error| TreeError::node(path, error));
            }
            self.seen.insert(inode, path.to_vec());
        }
        self.builder.put(path, node, Some(identity(found))).map_err(|error| TreeError::node(path, error))?;
        Ok(is_directory)
    }
}

pub(crate) fn identity(found: &Stat) -> Identity {
    let modified = host::timestamp(found.st_mtime, found.st_mtime_nsec as i64);
    (found.st_dev, found.st_ino, u64::try_from(found.st_size).unwrap_or(0), modified.0)
}

pub(crate) fn node_of(found: &Stat, kind: FileKind) -> SourceNode {
    let mut node = SourceNode::new(kind, (found.st_mode & 0o7777) as u16).owned_by(found.st_uid, found.st_gid);
    if matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
        let (major, minor) = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
        node.device = u64::from(major) << 32 | u64::from(minor);
    }
    if kind == FileKind::Regular {
        node.size = u64::try_from(found.st_size).unwrap_or(0);
    }
    node.modified = host::timestamp(found.st_mtime, found.st_mtime_nsec as i64);
    node.accessed = host::timestamp(found.st_atime, found.st_atime_nsec as i64);
    node.changed = host::timestamp(found.st_ctime, found.st_ctime_nsec as i64);
    node
}
