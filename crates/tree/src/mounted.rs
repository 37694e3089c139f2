//! A mounted file system as a tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};

use nandkit_units::ReadInto;
use nandkit_vfs::path::{PATH_BYTES_EACH, PATH_BYTES_MAX};
use nandkit_vfs::source::{SourceNode, SourceTree, same_inode};
use nandkit_vfs::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber};
use rayon::prelude::*;

use crate::Note;
use crate::error::escaped;
use crate::large::{self, Holes};

/// Limits for reading a file system, which may be damaged or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountLimits {
    /// File size in bytes, including holes, beyond which the rules of [`large`] apply: an image of
    /// a few kilobytes can claim 2^63 bytes of holes.
    pub large_bytes: u64,
    /// How holes are treated.
    pub holes: Holes,
    /// Most bytes of all files together; of large ones only their data count.
    pub bytes_max: u64,
    /// Most names.
    pub names_max: usize,
    /// Deepest nesting of directories.
    pub depth_max: usize,
    /// Most bytes of all paths together, beyond [`PATH_BYTES_EACH`] for each name: a directory with
    /// n names of 250 bytes, 4,096 levels deep, has n MiB of paths in an image of 100 n bytes.
    pub path_bytes_max: u64,
}

/// Most extended attributes per inode: Linux lists no more names than fit in 64 KiB (limits.h,
/// `XATTR_LIST_MAX`).
pub(crate) const XATTRS_MAX: usize = 1 << 16;

/// Most bytes of paths in one list of notes; further notes are only counted.
const NOTES_BYTES_MAX: usize = 16 << 20;

impl Default for MountLimits {
    fn default() -> Self {
        Self {
            large_bytes: large::LARGE,
            holes: Holes::Kept,
            bytes_max: 1 << 40,
            names_max: 1 << 24,
            depth_max: 4096,
            path_bytes_max: PATH_BYTES_MAX,
        }
    }
}

/// All names, attributes, link targets and extended attributes of a mounted file system, read at
/// once by several threads; contents are read on demand.
///
/// Leaves out and reports what no tree can contain: names with `/` or NUL, empty ones, `.` and
/// `..`; duplicate names in a directory; a directory with a second name, which may be a loop;
/// whatever exceeds the limits; and whatever cannot be read.
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

/// A name in a directory with the data of its inode.
struct NamedNode {
    name: Vec<u8>,
    inode: InodeNumber,
    node: Result<SourceNode, FsError>,
    links: u32,
    /// Descriptions of unreadable parts of the inode.
    damaged: Vec<String>,
}

/// The names of one directory in order, and the error that ended the listing, if any.
struct Listing {
    directory: usize,
    entries: Vec<NamedNode>,
    error: Option<FsError>,
}

impl<'a> MountedTree<'a> {
    /// Reads all names and attributes below `start`. Errors: those of `stat` of `start`, and
    /// `NotADirectory`.
    pub fn read(fs: &'a dyn FileSystem, start: InodeNumber, limits: &MountLimits) -> nandkit_vfs::Result<Self> {
        let attributes = fs.stat(start)?;
        if attributes.kind != FileKind::Directory {
            let detail = format!("inode {} is a {:?}", start.0, attributes.kind);
            return Err(FsError::new(ErrorKind::NotADirectory, detail));
        }
        let (root, damaged) = node(fs, &attributes);
        let mut scan = Scan {
            fs,
            limits,
            large: BTreeMap::new(),
            taken: vec![Taken { node: root, inode: start, path_bytes: 0 }],
            bytes: 0,
            path_bytes: 0,
            first: BTreeMap::new(),
            entered: BTreeSet::from([start]),
            refused: Notes::default(),
            damaged: Notes::default(),
        };
        for reason in damaged {
            scan.damaged.add(&scan.taken, 0, b"", reason);
        }
        let mut level = vec![(0, start)];
        for depth in 0.. {
            let listings: Vec<Listing> =
                level.into_par_iter().map(|(directory, inode)| list(fs, directory, inode, limits.names_max)).collect();
            level = listings.into_iter().flat_map(|listing| scan.take(listing)).collect();
            if depth >= limits.depth_max {
                let reason = format!("lies deeper than the {} directories that nandkit enters", limits.depth_max);
                for (directory, _) in level.drain(..) {
                    scan.refused.add(&scan.taken, directory, b"", reason.clone());
                }
            }
            if level.is_empty() {
                break;
            }
        }
        let (refused, damaged) = (scan.refused.sorted(), scan.damaged.sorted());
        let (nodes, inodes) = depth_first(scan.taken);
        Ok(Self { fs, nodes, inodes, refused, damaged })
    }

    /// Nodes left out because no tree can contain them, by path.
    pub fn refused(&self) -> &[Note] {
        &self.refused
    }

    /// Unreadable nodes or parts, by path.
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

    fn data_after(&self, node: usize, offset: u64) -> nandkit_vfs::Result<Option<Range<u64>>> {
        match self.inode(node) {
            Some(inode) => self.fs.data_after(inode, offset),
            None => Err(FsError::new(ErrorKind::NotFound, format!("no node {node}"))),
        }
    }
}

/// The node of an inode, and descriptions of its unreadable parts.
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
        // All at once: a hostile inode may have very many.
        let mut all = xattrs.all_xattrs(attributes.inode).unwrap_or_else(|error| {
            damaged.push(format!("extended attributes: {error}"));
            Vec::new()
        });
        if all.len() > XATTRS_MAX {
            damaged.push(format!("extended attributes: {} of them, of which {XATTRS_MAX} are taken", all.len()));
            all.truncate(XATTRS_MAX);
        }
        for (name, value) in all {
            match value {
                Ok(value) => node.xattrs.push((name, value)),
                Err(error) => damaged.push(format!("extended attribute {}: {error}", escaped(&name))),
            }
        }
        node.xattrs.sort();
        node.xattrs.dedup_by(|(a, _), (b, _)| a == b);
    }
    (node, damaged)
}

/// Reads a directory and all inodes that it names. Names listed before an error are kept.
fn list(fs: &dyn FileSystem, directory: usize, inode: InodeNumber, names_max: usize) -> Listing {
    let mut names: Vec<(Vec<u8>, InodeNumber)> = Vec::new();
    let mut endless = false;
    let result = fs.read_dir(inode, 0, &mut |entry| {
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
    Listing { directory, entries, error }
}

fn find(fs: &dyn FileSystem, name: Vec<u8>, inode: InodeNumber) -> NamedNode {
    let attributes = match fs.stat(inode) {
        Ok(attributes) => attributes,
        Err(error) => return NamedNode { name, inode, node: Err(error), links: 0, damaged: Vec::new() },
    };
    let (mut node, damaged) = node(fs, &attributes);
    if attributes.kind == FileKind::Symlink {
        let target = fs.symlinks().map(|symlinks| symlinks.read_link(inode));
        let missing = || FsError::new(ErrorKind::NotSupported, "this file system holds no symbolic links");
        match target.unwrap_or_else(|| Err(missing())) {
            Ok(target) => (node.size, node.target) = (target.len() as u64, target),
            Err(error) => return NamedNode { name, inode, node: Err(error), links: 0, damaged },
        }
    }
    NamedNode { name, inode, node: Ok(node), links: attributes.links, damaged }
}

/// An accepted name: parents come before their entries, and the names of a directory are
/// consecutive and sorted.
struct Taken {
    /// `parent` and `hard_link_of` are indexes in the same list.
    node: SourceNode,
    inode: InodeNumber,
    /// Length of its path in bytes.
    path_bytes: usize,
}

/// Nodes and inodes in the order that a tree promises; the first name of an inode then becomes the
/// inode's node.
fn depth_first(taken: Vec<Taken>) -> (Vec<SourceNode>, Vec<InodeNumber>) {
    // The range of the names in each directory, which were added together.
    let mut within = vec![(0, 0); taken.len()];
    for (place, found) in taken.iter().enumerate().skip(1) {
        if let Some((first, end)) = within.get_mut(found.node.parent) {
            (*first, *end) = (if *end == 0 { place } else { *first }, place + 1);
        }
    }
    let mut taken: Vec<Option<Taken>> = taken.into_iter().map(Some).collect();
    let (mut nodes, mut inodes): (Vec<SourceNode>, Vec<InodeNumber>) = (Vec::new(), Vec::new());
    let mut first_names: HashMap<usize, usize> = HashMap::new();
    let mut next = vec![(0, 0)];
    while let Some((place, parent)) = next.pop() {
        let Some(Taken { mut node, inode, .. }) = taken.get_mut(place).and_then(Option::take) else { continue };
        let index = nodes.len();
        node.parent = parent;
        let first = *first_names.entry(node.hard_link_of.unwrap_or(place)).or_insert(index);
        node.hard_link_of = (first != index).then_some(first);
        nodes.push(node);
        inodes.push(inode);
        let (first, end) = within.get(place).copied().unwrap_or_default();
        next.extend((first..end).rev().map(|child| (child, index)));
    }
    (nodes, inodes)
}

/// Notes with a bound on path lengths: deep paths make many long ones from a small image.
#[derive(Default)]
struct Notes {
    list: Vec<Note>,
    bytes: usize,
    beyond: u64,
}

impl Notes {
    /// Adds a note about `name` in a directory; about the directory itself if `name` is empty.
    fn add(&mut self, taken: &[Taken], directory: usize, name: &[u8], reason: String) {
        let length = taken.get(directory).map_or(0, |found| found.path_bytes) + name.len() + 1;
        if self.bytes + length > NOTES_BYTES_MAX {
            self.beyond += 1;
            return;
        }
        self.bytes += length;
        let mut names = if name.is_empty() { Vec::new() } else { vec![name] };
        let mut at = directory;
        while let Some(found) = taken.get(at).filter(|found| at != 0 && found.node.parent < at) {
            names.push(&found.node.name);
            at = found.node.parent;
        }
        names.reverse();
        self.list.push(Note { path: names.join(&b'/'), reason });
    }

    fn sorted(mut self) -> Vec<Note> {
        self.list.sort();
        if self.beyond > 0 {
            let reason =
                format!("{} more are not named: the paths of the others take {} bytes", self.beyond, self.bytes);
            self.list.push(Note { path: Vec::new(), reason });
        }
        self.list
    }
}

/// The tree read so far.
struct Scan<'a> {
    fs: &'a dyn FileSystem,
    limits: &'a MountLimits,
    /// The data of large files: each is examined once, however many names it has.
    large: BTreeMap<InodeNumber, u64>,
    /// The root, then all accepted names, level by level.
    taken: Vec<Taken>,
    bytes: u64,
    path_bytes: u64,
    /// The first name of each inode that claims several names, or is no directory.
    first: BTreeMap<InodeNumber, usize>,
    entered: BTreeSet<InodeNumber>,
    refused: Notes,
    damaged: Notes,
}

impl Scan<'_> {
    /// Adds a directory's names; returns the directories among them.
    fn take(&mut self, listing: Listing) -> Vec<(usize, InodeNumber)> {
        let Listing { directory, entries, error } = listing;
        let above = self.taken.get(directory).map_or(0, |found| found.path_bytes + usize::from(directory != 0));
        let mut directories = Vec::new();
        let mut previous: Option<Vec<u8>> = None;
        for found in entries {
            let twice = previous.as_ref() == Some(&found.name);
            previous = Some(found.name.clone());
            let path_bytes = above + found.name.len();
            let refusal = self.refusal(&found, twice, path_bytes);
            let data = if refusal.is_none() { self.data_of(&found) } else { 0 };
            if let Some(reason) = refusal.or_else(|| self.too_much(&found, data)) {
                self.refused.add(&self.taken, directory, &found.name, reason);
                continue;
            }
            let NamedNode { name, inode, node, links, damaged } = found;
            for reason in damaged {
                self.damaged.add(&self.taken, directory, &name, reason);
            }
            let node = match node {
                Ok(node) => node,
                Err(error) => {
                    self.damaged.add(&self.taken, directory, &name, error.to_string());
                    continue;
                }
            };
            let place = self.taken.len();
            let is_directory = node.kind == FileKind::Directory;
            let first = self.first.get(&inode).and_then(|first| Some((*first, self.taken.get(*first)?)));
            let node = match first {
                Some((first, found)) => SourceNode { hard_link_of: Some(first), ..found.node.clone() },
                None => node,
            };
            if node.hard_link_of.is_none() {
                self.bytes = self.bytes.saturating_add(data);
            }
            if is_directory {
                self.entered.insert(inode);
                directories.push((place, inode));
            } else if links > 1 {
                self.first.entry(inode).or_insert(place);
            }
            self.path_bytes += path_bytes as u64;
            self.taken.push(Taken { node: SourceNode { parent: directory, name, ..node }, inode, path_bytes });
        }
        if let Some(error) = error {
            self.damaged.add(&self.taken, directory, b"", format!("names of the directory: {error}"));
        }
        directories
    }

    /// The bytes that a file costs.
    fn data_of(&mut self, found: &NamedNode) -> u64 {
        let size = found.node.as_ref().map_or(0, |node| node.size);
        if size <= self.limits.large_bytes {
            return size;
        }
        let (fs, large) = (self.fs, self.limits.large_bytes);
        *self.large.entry(found.inode).or_insert_with(|| large::taken_bytes(fs, found.inode, size, large))
    }

    /// Why no tree can contain a name, whatever its inode, if so.
    fn refusal(&self, found: &NamedNode, twice: bool, path_bytes: usize) -> Option<String> {
        let name = found.name.as_slice();
        let directory = found.node.as_ref().is_ok_and(|node| node.kind == FileKind::Directory);
        let path_bytes_max = self.limits.path_bytes_max.saturating_add(self.taken.len() as u64 * PATH_BYTES_EACH);
        if name.is_empty() || name == b"." || name == b".." {
            Some(format!("no file can have the name \"{}\"", escaped(name)))
        } else if name.contains(&b'/') || name.contains(&0) {
            Some(format!("the name \"{}\" holds \"/\" or NUL", escaped(name)))
        } else if twice {
            Some("the directory holds this name twice; the first one is kept".to_owned())
        } else if directory && self.entered.contains(&found.inode) {
            Some(format!("directory {} has another name already, perhaps above this one", found.inode.0))
        } else if self.taken.len() > self.limits.names_max {
            Some(format!("is beyond the {} names that are taken", self.limits.names_max))
        } else if self.path_bytes + path_bytes as u64 > path_bytes_max {
            Some(format!("is beyond the {path_bytes_max} bytes that all paths together may take, a limit of nandkit's"))
        } else {
            None
        }
    }

    /// Why a file with this much data is refused, if so.
    fn too_much(&self, found: &NamedNode, data: u64) -> Option<String> {
        let size = found.node.as_ref().map_or(0, |node| node.size);
        let beyond = || format!("is beyond the {} bytes that are taken in all", self.limits.bytes_max);
        large::refusal(size, data, self.limits.large_bytes, self.limits.holes)
            .or_else(|| (self.bytes.saturating_add(data) > self.limits.bytes_max).then(beyond))
    }
}
