//! A mounted file system as a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use nandkit_units::ReadInto;
use nandkit_vfs::source::{SourceNode, SourceTree, TreeBuilder, same_inode};
use nandkit_vfs::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber};
use rayon::prelude::*;

use crate::Note;
use crate::error::escaped;

/// How much is taken from a file system, which may be damaged or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLimits {
    /// Largest file: an image of a few kilobytes can claim 2^63 bytes of holes.
    pub file_bytes_max: u64,
    /// Bytes of all files together.
    pub bytes_max: u64,
    /// Names in all.
    pub names_max: usize,
    /// Directories within each other.
    pub depth_max: usize,
}

impl Default for MountLimits {
    fn default() -> Self {
        Self { file_bytes_max: 1 << 36, bytes_max: 1 << 40, names_max: 1 << 24, depth_max: 4096 }
    }
}

/// All names, attributes, link targets and extended attributes of a mounted file system, read at once and by several threads; contents are read when asked for.
///
/// What no tree holds is left out and noted: names with `/` or NUL, empty ones, `.` and `..`; a name twice in one directory; a directory with a second name,
/// which may be a loop; what is beyond the limits. So is what cannot be read.
pub struct MountedTree<'a> {
    fs: &'a dyn FileSystem,
    nodes: Vec<SourceNode>,
    inodes: Vec<InodeNumber>,
    refused: Vec<Note>,
    damaged: Vec<Note>,
}

impl std::fmt::Debug for MountedTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = (self.nodes.len(), &self.refused, &self.damaged);
        f.debug_tuple("MountedTree").field(&fields.0).field(fields.1).field(fields.2).finish()
    }
}

/// One name of a directory, with all that is to be known of its inode.
struct Found {
    name: Vec<u8>,
    inode: InodeNumber,
    node: Result<SourceNode, FsError>,
    links: u32,
    /// What of the inode could not be read.
    damaged: Vec<String>,
}

/// One directory's names in order, and why there are no more.
struct Listing {
    path: Vec<u8>,
    entries: Vec<Found>,
    error: Option<FsError>,
}

impl<'a> MountedTree<'a> {
    /// Reads all names and attributes below `start`. Errors: those of `stat` of `start`, and `NotADirectory`.
    pub fn read(fs: &'a dyn FileSystem, start: InodeNumber, limits: &MountLimits) -> nandkit_vfs::Result<Self> {
        let attributes = fs.stat(start)?;
        if attributes.kind != FileKind::Directory {
            let detail = format!("inode {} is a {:?}", start.0, attributes.kind);
            return Err(FsError::new(ErrorKind::NotADirectory, detail));
        }
        let (root, damaged) = node(fs, &attributes);
        let missing = SourceNode::new(FileKind::Directory, 0o755);
        let mut scan = Scan {
            builder: TreeBuilder::new(root, missing),
            limits,
            names: 0,
            bytes: 0,
            first: BTreeMap::new(),
            entered: BTreeSet::from([start]),
            refused: Vec::new(),
            damaged: Vec::new(),
        };
        scan.damaged.extend(damaged.into_iter().map(|reason| Note { path: Vec::new(), reason }));
        let mut level = vec![(Vec::new(), start)];
        for depth in 0.. {
            let listings: Vec<Listing> =
                level.into_par_iter().map(|(path, inode)| list(fs, path, inode, limits.names_max)).collect();
            level = listings.into_iter().flat_map(|listing| scan.take(listing)).collect();
            if depth >= limits.depth_max {
                let reason = format!("lies deeper than {} directories", limits.depth_max);
                scan.refused.extend(level.drain(..).map(|(path, _)| Note { path, reason: reason.clone() }));
            }
            if level.is_empty() {
                break;
            }
        }
        let built = scan.builder.finish();
        let inodes = built.contents.into_iter().map(|inode| inode.unwrap_or(start)).collect();
        let (mut refused, mut damaged) = (scan.refused, scan.damaged);
        refused.sort();
        damaged.sort();
        Ok(Self { fs, nodes: built.nodes, inodes, refused, damaged })
    }

    /// What was left out because no tree holds it, by path.
    pub fn refused(&self) -> &[Note] {
        &self.refused
    }

    /// What could not be read, by path.
    pub fn damaged(&self) -> &[Note] {
        &self.damaged
    }

    /// The inode of a node.
    pub fn inode(&self, node: usize) -> Option<InodeNumber> {
        self.inodes.get(same_inode(&self.nodes, node)).copied()
    }
}

impl SourceTree for MountedTree<'_> {
    fn nodes(&self) -> &[SourceNode] {
        &self.nodes
    }

    fn read(&self, node: usize, offset: u64, into: &mut [u8]) -> nandkit_vfs::Result<usize> {
        let (Some(found), Some(inode)) = (self.nodes.get(node), self.inode(node)) else {
            return Err(FsError::new(ErrorKind::NotFound, format!("no node {node}")));
        };
        if found.kind != FileKind::Regular {
            return Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is a {:?}", found.kind)));
        }
        let asked = into.len();
        Ok(self.fs.read(inode, offset, ReadInto::Bytes(into))?.min(asked))
    }
}

/// The node of an inode, and what of it could not be read.
fn node(fs: &dyn FileSystem, attributes: &Attributes) -> (SourceNode, Vec<String>) {
    let mut damaged = Vec::new();
    let mut node = SourceNode::new(attributes.kind, attributes.mode & 0o7777).owned_by(attributes.uid, attributes.gid);
    (node.modified, node.accessed, node.changed) = (attributes.modified, attributes.accessed, attributes.changed);
    match attributes.kind {
        FileKind::Regular => node.size = attributes.size,
        FileKind::BlockDevice | FileKind::CharacterDevice => node.device = attributes.device,
        _ => {}
    }
    if let Some(xattrs) = fs.xattrs() {
        let names = xattrs.xattr_names(attributes.inode).unwrap_or_else(|error| {
            damaged.push(format!("extended attributes: {error}"));
            Vec::new()
        });
        for name in names {
            match xattrs.xattr(attributes.inode, &name) {
                Ok(value) => node.xattrs.push((name, value)),
                Err(error) => damaged.push(format!("extended attribute {}: {error}", escaped(&name))),
            }
        }
        node.xattrs.sort();
        node.xattrs.dedup_by(|(a, _), (b, _)| a == b);
    }
    (node, damaged)
}

/// Reads a directory and all inodes that it names. What was listed before an error is kept.
fn list(fs: &dyn FileSystem, path: Vec<u8>, directory: InodeNumber, names_max: usize) -> Listing {
    let mut names: Vec<(Vec<u8>, InodeNumber)> = Vec::new();
    let mut endless = false;
    let result = fs.read_dir(directory, 0, &mut |entry| {
        endless = names.len() >= names_max;
        if endless {
            return ControlFlow::Break(());
        }
        names.push((entry.name.to_vec(), entry.inode));
        ControlFlow::Continue(())
    });
    let mut error = result.err();
    if endless {
        error = Some(FsError::new(ErrorKind::Corrupt, format!("lists more than {names_max} names")));
    }
    names.sort();
    let entries = names.into_par_iter().with_min_len(64).map(|(name, inode)| find(fs, name, inode)).collect();
    Listing { path, entries, error }
}

fn find(fs: &dyn FileSystem, name: Vec<u8>, inode: InodeNumber) -> Found {
    let attributes = match fs.stat(inode) {
        Ok(attributes) => attributes,
        Err(error) => return Found { name, inode, node: Err(error), links: 0, damaged: Vec::new() },
    };
    let (mut node, damaged) = node(fs, &attributes);
    if attributes.kind == FileKind::Symlink {
        let target = fs.symlinks().map(|symlinks| symlinks.read_link(inode));
        let missing = || FsError::new(ErrorKind::NotSupported, "this file system holds no symbolic links");
        match target.unwrap_or_else(|| Err(missing())) {
            Ok(target) => (node.size, node.target) = (target.len() as u64, target),
            Err(error) => return Found { name, inode, node: Err(error), links: 0, damaged },
        }
    }
    Found { name, inode, node: Ok(node), links: attributes.links, damaged }
}

/// What has been taken so far.
struct Scan<'a> {
    builder: TreeBuilder<InodeNumber>,
    limits: &'a MountLimits,
    names: usize,
    bytes: u64,
    /// The first path of each inode that says it has several names, or that is no directory.
    first: BTreeMap<InodeNumber, Vec<u8>>,
    entered: BTreeSet<InodeNumber>,
    refused: Vec<Note>,
    damaged: Vec<Note>,
}

impl Scan<'_> {
    /// Takes a directory's names; returns the directories among them.
    fn take(&mut self, listing: Listing) -> Vec<(Vec<u8>, InodeNumber)> {
        let mut directories = Vec::new();
        let mut previous: Option<Vec<u8>> = None;
        for found in listing.entries {
            let mut path = listing.path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&found.name);
            let twice = previous.as_ref() == Some(&found.name);
            previous = Some(found.name.clone());
            if let Some(reason) = self.refusal(&found, twice) {
                self.refused.push(Note { path, reason });
                continue;
            }
            let (inode, links) = (found.inode, found.links);
            self.damaged.extend(found.damaged.into_iter().map(|reason| Note { path: path.clone(), reason }));
            let node = match found.node {
                Ok(node) => node,
                Err(error) => {
                    self.damaged.push(Note { path, reason: error.to_string() });
                    continue;
                }
            };
            let directory = node.kind == FileKind::Directory;
            let put = match self.first.get(&inode) {
                Some(first) => self.builder.link(&path, first),
                None => {
                    self.bytes = self.bytes.saturating_add(node.size);
                    if !directory && links > 1 {
                        self.first.insert(inode, path.clone());
                    }
                    self.builder.put(&path, node, Some(inode))
                }
            };
            self.names += 1;
            match put {
                Ok(()) if directory => {
                    self.entered.insert(inode);
                    directories.push((path, inode));
                }
                Ok(()) => {}
                Err(error) => self.refused.push(Note { path, reason: error.to_string() }),
            }
        }
        if let Some(error) = listing.error {
            self.damaged.push(Note { path: listing.path, reason: format!("names of the directory: {error}") });
        }
        directories
    }

    /// Why no tree holds a name, if none does.
    fn refusal(&self, found: &Found, twice: bool) -> Option<String> {
        let name = found.name.as_slice();
        let size = found.node.as_ref().map_or(0, |node| node.size);
        let directory = found.node.as_ref().is_ok_and(|node| node.kind == FileKind::Directory);
        if name.is_empty() || name == b"." || name == b".." {
            Some(format!("no file can have the name \"{}\"", escaped(name)))
        } else if name.contains(&b'/') || name.contains(&0) {
            Some(format!("the name \"{}\" holds \"/\" or NUL", escaped(name)))
        } else if twice {
            Some("the directory holds this name twice; the first one is kept".to_owned())
        } else if directory && self.entered.contains(&found.inode) {
            Some(format!("directory {} has another name already, perhaps above this one", found.inode.0))
        } else if self.names >= self.limits.names_max {
            Some(format!("is beyond the {} names that are taken", self.limits.names_max))
        } else if size > self.limits.file_bytes_max {
            Some(format!("has {size} bytes, more than the {} that are taken", self.limits.file_bytes_max))
        } else if self.bytes.saturating_add(size) > self.limits.bytes_max {
            Some(format!("is beyond the {} bytes that are taken in all", self.limits.bytes_max))
        } else {
            None
        }
    }
}
