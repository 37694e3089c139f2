//! Putting files and trees into a file system.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nandkit_vfs::path::{Follow, make_directories, resolve, resolve_parent, write_inode};
use nandkit_vfs::source::{SourceNode, SourceTree, path as path_of};
use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, FsError, InodeNumber, NewNode};
use rustix::fs::{AtFlags, Mode, OFlags};

use super::{Editor, at, clean, join};
use crate::directory::node_of;
use crate::{Note, Result, TreeError, host};

/// Bytes per write, and granularity at which zeroes are skipped.
const CHUNK: usize = 1 << 15;

/// A single file of the host.
#[derive(Debug)]
pub struct HostFile {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes.
    pub node: SourceNode,
    /// Its content.
    pub file: File,
}

/// Opens a regular file of the host; symbolic links are followed. Errors: `Host`; `Target` if it is
/// no regular file.
pub fn host_file(path: &Path, xattrs: bool) -> Result<HostFile> {
    let shown = path.display().to_string();
    let failed = |doing, error: rustix::io::Errno| TreeError::host(&shown, doing, error);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed("opening", error))?;
    let found = rustix::fs::statat(opened.as_fd(), "", AtFlags::EMPTY_PATH)
        .map_err(|error| failed("reading attributes", error))?;
    if FileKind::of_mode(found.st_mode) != Some(FileKind::Regular) {
        let what = "this is no regular file; expected one, or -r with a directory".to_owned();
        return Err(TreeError::Target { path: shown, what });
    }
    let mut node = node_of(&found, FileKind::Regular);
    let real = std::fs::canonicalize(path).map_err(|error| TreeError::host(&shown, "finding", error))?;
    if let (true, Some(parent), Some(name)) = (xattrs, real.parent(), real.file_name()) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent =
            rustix::fs::open(parent, flags, Mode::empty()).map_err(|error| failed("opening the folder of", error))?;
        node.xattrs = host::xattrs(parent.as_fd(), name.as_bytes())
            .map_err(|error| TreeError::host(&shown, "reading extended attributes", error))?;
    }
    let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes().to_vec();
    Ok(HostFile { name, node, file: File::from(opened) })
}

/// Reads content from an offset; returns the number of bytes read.
type Content<'c> = &'c mut dyn FnMut(u64, &mut [u8]) -> Result<usize>;

impl Editor<'_> {
    /// Puts a file called `name` at `path`, or inside it if it is a directory. An existing file
    /// keeps its inode and names; `node` provides attributes and times, with `keep` only for a new
    /// file. The file becomes as long as `content` delivers. Errors: `InvalidArgument` if the path
    /// is something other than a file; those of the file system; `Host`.
    pub fn put_file(
        &mut self,
        path: &[u8],
        name: &[u8],
        node: &SourceNode,
        keep: bool,
        content: &mut dyn Read,
    ) -> Result<()> {
        let path = if path.ends_with(b"/") || self.is_directory(path) { join(path, name) } else { clean(path) };
        self.check_owner(&path, node.uid, node.gid)?;
        self.wanted = self.wanted.saturating_add(node.size);
        let (inode, existed) = match resolve(self.fs, &path, Follow::Last) {
            Ok(inode) => {
                let kind = self.stat(&path, inode)?.kind;
                if kind != FileKind::Regular {
                    let error = FsError::new(
                        ErrorKind::InvalidArgument,
                        format!("this is a {kind:?}; expected a file, or a new name"),
                    );
                    return Err(TreeError::node(&path, error));
                }
                let empty = AttributeChange { size: Some(0), ..AttributeChange::default() };
                self.fs.set_attributes(inode, &empty).map_err(at(&path))?;
                (inode, true)
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                let (directory, name) = resolve_parent(self.fs, &path).map_err(at(&path))?;
                (self.fs.create(directory, name, &new_node(node)).map_err(at(&path))?, false)
            }
            Err(error) => return Err(TreeError::node(&path, error)),
        };
        let mut read = |_: u64, into: &mut [u8]| {
            let mut filled = 0;
            while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match content.read(rest) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(TreeError::host(crate::error::escaped(name), "reading", error)),
                }
            }
            Ok(filled)
        };
        let length = self.content(&path, inode, &mut read)?;
        if !(keep && existed) {
            let modes = if existed { (Some(node.mode), Some(node.uid), Some(node.gid)) } else { (None, None, None) };
            self.xattrs(&path, inode, node)?;
            self.finish(&path, inode, node, modes)?;
        }
        self.edit(if existed { "write" } else { "create" }, &path, format!("file, {length} bytes"));
        Ok(())
    }

    /// Puts the content of a tree into the directory at `path`, which is made if missing.
    /// Directories with the same name are merged and get the tree's attributes, except `path`
    /// itself; a symbolic link to a directory counts as that directory; anything else with the same
    /// name is replaced. Errors: those of the file system and of the tree, with the path.
    pub fn put_tree(&mut self, tree: &dyn SourceTree, path: &[u8]) -> Result<()> {
        let nodes = tree.nodes();
        let Some(root) = nodes.first() else { return Ok(()) };
        // `None` for nodes that the format cannot store.
        let mut made: Vec<Option<InodeNumber>> = Vec::with_capacity(nodes.len());
        let existed = self.is_directory(path);
        self.check_owner(path, root.uid, root.gid)?;
        let files = nodes.iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
        self.wanted = files.fold(self.wanted, |sum, node| sum.saturating_add(node.size));
        let top = make_directories(self.fs, path, &new_node(root)).map_err(at(path))?;
        if !existed {
            self.edit("create", path, "directory");
        }
        made.push(Some(top));
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let inside = join(path, &path_of(nodes, index));
            let parent = made.get(node.parent).copied().flatten().unwrap_or(top);
            let inode = self.put_node(tree, (index, node), parent, &inside, &made)?;
            made.push(inode);
        }
        // Only now, because each name that is made changes its directory's time.
        for (index, node) in nodes.iter().enumerate().rev().filter(|(_, node)| node.kind == FileKind::Directory) {
            let Some(inode) = made.get(index).copied().flatten().filter(|_| index > 0 || !existed) else { continue };
            let inside = join(path, &path_of(nodes, index));
            self.xattrs(&inside, inode, node)?;
            let before = self.stat(&inside, inode)?;
            let differs = |ours: u32, theirs: u32| (ours != theirs).then_some(ours);
            let mode = (node.mode != before.mode).then_some(node.mode);
            let owner = (differs(node.uid, before.uid), differs(node.gid, before.gid));
            self.finish(&inside, inode, node, (mode, owner.0, owner.1))?;
        }
        Ok(())
    }

    fn put_node(
        &mut self,
        tree: &dyn SourceTree,
        (index, node): (usize, &SourceNode),
        parent: InodeNumber,
        path: &[u8],
        made: &[Option<InodeNumber>],
    ) -> Result<Option<InodeNumber>> {
        if !self.holds(path, node.kind)? {
            let reason = format!("a {}, which this format does not hold", kind_word(node.kind));
            self.skipped.push(Note { path: clean(path), reason });
            return Ok(None);
        }
        let old = match self.fs.lookup(parent, &node.name) {
            Ok(inode) => Some(inode),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(TreeError::node(path, error)),
        };
        if let Some(old) = old {
            let kind = self.stat(path, old)?.kind;
            if node.kind == FileKind::Directory && self.is_directory(path) {
                return self.resolve(path, Follow::Last).map(Some);
            }
            if kind == FileKind::Directory {
                let detail = "a directory exists here, and only a directory can replace it; remove it with rm -r first";
                return Err(TreeError::node(path, FsError::new(ErrorKind::IsADirectory, detail)));
            }
            self.fs.remove(parent, &node.name).map_err(at(path))?;
        }
        let action = if old.is_some() { "replace" } else { "create" };
        if let (Some(first), true) = (node.hard_link_of, self.fs.links().is_some()) {
            return self.put_link(made.get(first).copied().flatten(), (parent, &node.name), path, action);
        }
        self.check_owner(path, node.uid, node.gid)?;
        let inode = self.fs.create(parent, &node.name, &new_node(node)).map_err(at(path))?;
        let mut detail = kind_word(node.kind).to_owned();
        if node.kind == FileKind::Regular {
            // Without links, each name gets its own file.
            let index = node.hard_link_of.unwrap_or(index);
            let mut read = |offset: u64, into: &mut [u8]| {
                let left = usize::try_from(node.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(into.len());
                tree.read(index, offset, into.get_mut(..left).unwrap_or_default()).map_err(at(path))
            };
            detail += &format!(", {} bytes", self.content(path, inode, &mut read)?);
        }
        if node.kind != FileKind::Directory {
            self.xattrs(path, inode, node)?;
            self.finish(path, inode, node, (None, None, None))?;
        }
        self.edit(action, path, detail);
        Ok(Some(inode))
    }

    /// Whether the format supports inodes of this kind.
    fn holds(&self, path: &[u8], kind: FileKind) -> Result<bool> {
        let features = self.fs.volume().map_err(at(path))?.features;
        Ok(match kind {
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => features.symlinks,
            _ => features.device_nodes,
        })
    }

    /// Adds a name for a node put earlier; does nothing if the format has no links.
    fn put_link(
        &mut self,
        first: Option<InodeNumber>,
        (parent, name): (InodeNumber, &[u8]),
        path: &[u8],
        action: &'static str,
    ) -> Result<Option<InodeNumber>> {
        if let (Some(inode), Some(links)) = (first, self.fs.links()) {
            links.link(inode, parent, name).map_err(at(path))?;
            self.edit(action, path, "another name of a file");
        }
        Ok(first)
    }

    /// Fills an empty file; returns its length.
    fn content(&mut self, path: &[u8], inode: InodeNumber, read: Content<'_>) -> Result<u64> {
        let holes = self.fs.volume().map_err(at(path))?.features.holes;
        let mut chunk = vec![0; CHUNK];
        let mut length = 0;
        loop {
            let count = read(length, &mut chunk)?.min(CHUNK);
            let bytes = chunk.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            self.bytes += count as u64;
            if !holes || !nandkit_units::is_zeroed(bytes) {
                write_inode(self.fs, inode, length, bytes).map_err(at(path))?;
            }
            length += count as u64;
        }
        if self.stat(path, inode)?.size != length {
            let size = AttributeChange { size: Some(length), ..AttributeChange::default() };
            self.fs.set_attributes(inode, &size).map_err(at(path))?;
        }
        Ok(length)
    }

    /// Sets extended attributes; one that the format cannot store is skipped alone.
    fn xattrs(&mut self, path: &[u8], inode: InodeNumber, node: &SourceNode) -> Result<()> {
        for (name, value) in &node.xattrs {
            let set = match self.fs.xattr_changes() {
                Some(changes) => changes.set_xattr(inode, name, value),
                None => Err(FsError::new(ErrorKind::NotSupported, "this file system holds none")),
            };
            match set {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotSupported => {
                    let reason = format!("extended attribute {}: {}", crate::error::escaped(name), error.detail);
                    self.skipped.push(Note { path: clean(path), reason });
                }
                Err(error) => return Err(TreeError::node(path, error)),
            }
        }
        Ok(())
    }

    /// Sets the times, which filling an inode has changed, and all other attributes that differ
    /// from those at its creation.
    fn finish(
        &mut self,
        path: &[u8],
        inode: InodeNumber,
        node: &SourceNode,
        (mode, uid, gid): (Option<u16>, Option<u32>, Option<u32>),
    ) -> Result<()> {
        let owners = self.fs.volume().map_err(at(path))?.features.owners;
        let (uid, gid) = (uid.filter(|_| owners), gid.filter(|_| owners));
        let (accessed, modified) = (Some(node.accessed), Some(node.modified));
        let change = AttributeChange { size: None, mode, uid, gid, accessed, modified };
        self.fs.set_attributes(inode, &change).map_err(at(path)).map(drop)
    }
}

fn new_node(node: &SourceNode) -> NewNode<'_> {
    let SourceNode { kind, mode, uid, gid, device, target, .. } = node;
    NewNode { kind: *kind, mode: *mode, uid: *uid, gid: *gid, device: *device, target }
}

const fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::BlockDevice | FileKind::CharacterDevice => "device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}
