//! What was, as far as it is still on the flash: superseded content of files, and names that were
//! taken away.
//!
//! Nothing of this is part of the volume. It lasts until the collector erases its blocks.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nandkit_flash::Flash;
use nandkit_units::Cause;
use nandkit_vfs::path::PathBudget;
use nandkit_vfs::{ErrorKind, FsError, Result};

use crate::check::Paths;
use crate::inode::Body;
use crate::layout::format;
use crate::layout::{Header, INODE_SIZE, PAGE_SIZE, node_type, padded};
use crate::load::{Piece, choose, fragments_of};
use crate::scan::node;
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};

/// The most that is read at once.
const WHOLE_MAX: u32 = 256 << 20;

/// A node of an inode that is still on the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Counts up with each node of the inode.
    pub version: u32,
    /// Where the node stands.
    pub at: NodeAddress,
    /// First byte of the file that it holds.
    pub offset: u32,
    /// Bytes of the file that it holds; 0 where it gives attributes only.
    pub length: u32,
    /// Bytes of the file at that time.
    pub size: u32,
    /// Type and permissions at that time.
    pub mode: u32,
    /// Time of modification, seconds since 1970.
    pub modified: u32,
    /// Whether its data are whole.
    pub intact: bool,
}

/// A file's content as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldContent {
    /// The version that gave the attributes: the highest one asked for that is still there.
    pub version: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Time of modification, seconds since 1970.
    pub modified: u32,
    /// Bytes of the file, as far as nodes of that time still reach.
    pub size: u32,
    /// The content that was asked for, or a symbolic link's target. Ranges that are lost are
    /// zeroes.
    pub bytes: Vec<u8>,
    /// Ranges of which no node is left or whose nodes are damaged: start and the byte behind. Holes
    /// that were written as such are none.
    pub lost: Vec<(u32, u32)>,
}

/// A name that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedName {
    /// The directory that held it.
    pub parent: Ino,
    /// The directory's path, where it still has one and the paths of all names together have not
    /// taken more than [`nandkit_vfs::path::PathBudget`] allows.
    pub parent_path: Option<Vec<u8>>,
    /// The name.
    pub name: Vec<u8>,
    /// The inode that was so called.
    pub inode: Ino,
    /// `st_mode >> 12` of that inode.
    pub kind: u8,
    /// Where the node that says so stands.
    pub at: NodeAddress,
    /// Its version among the directory's nodes.
    pub version: u32,
    /// When the name was taken away, seconds since 1970, where a node still tells.
    pub deleted: Option<u32>,
    /// The inode has another name now: it was renamed, or this was one of several.
    pub lives: bool,
}

/// What a directory's nodes say of one name: version, address, inode, kind, time.
type Said = (u32, NodeAddress, Ino, u8, u32);

impl<F: Flash> Jffs2<F> {
    /// An inode's nodes that are still on the flash, dead inodes' included, by version. Errors:
    /// `NotFound` where there are none, `Device`.
    pub fn versions(&self, inode: Ino) -> Result<Vec<Version>> {
        let pieces = self.pieces(inode)?;
        let mut versions = Vec::new();
        for piece in &pieces {
            let bytes =
                self.bytes_at(piece.at, INODE_SIZE.saturating_add(piece.node.compressed_size), Cause::UserData)?;
            versions.push(Version {
                version: piece.node.version,
                at: piece.at,
                offset: piece.node.offset,
                length: piece.size(),
                size: piece.node.file_size,
                mode: piece.node.mode,
                modified: piece.node.modified,
                intact: node::data(&piece.node, &bytes).is_ok(),
            });
        }
        versions.sort_by_key(|version| (version.version, version.at));
        Ok(versions)
    }

    /// All that [`Jffs2::content_within`] tells. Errors: also `FileTooBig` where that would be more
    /// than 256 MiB.
    pub fn content_at(&self, inode: Ino, version: u32) -> Result<OldContent> {
        let content = self.content_within(inode, version, 0..WHOLE_MAX)?;
        if content.size > WHOLE_MAX {
            let detail = format!("inode {inode} had {} bytes, more than are read at once", content.size);
            return Err(FsError::new(ErrorKind::FileTooBig, detail));
        }
        Ok(content)
    }

    /// What a file held in a range when the node with this version was its newest: the rules of a
    /// mount, applied to the nodes up to that one. Errors: `NotFound` where nothing so old is left,
    /// `InvalidArgument` where it is neither a file nor a symbolic link, `Device`.
    pub fn content_within(&self, inode: Ino, version: u32, within: Range<u32>) -> Result<OldContent> {
        let pieces = self.pieces(inode)?.into_iter().filter(|piece| piece.node.version <= version).collect();
        let mut read = |at, length| self.bytes_as_read(at, length, Cause::UserData);
        let chosen = choose(pieces, &mut read)?;
        let nothing = || {
            FsError::new(
                ErrorKind::NotFound,
                format!("inode {inode}: no whole node of version {version} or before is left"),
            )
        };
        let latest = chosen.valid.first().copied().ok_or_else(nothing)?;
        let node = latest.node;
        let size = match node.mode & 0o170_000 {
            format::REGULAR => node.file_size,
            format::SYMLINK => node.data_size,
            _ => {
                return Err(FsError::new(
                    ErrorKind::InvalidArgument,
                    format!("inode {inode} is neither a file nor a link"),
                ));
            }
        };
        let mut body = Body { mode: node.mode, fragments: fragments_of(&chosen), ..Body::default() };
        body.fragments.clear(size, u32::MAX, &mut Vec::new());
        let mut lost = Vec::new();
        let mut end = 0;
        for fragment in body.fragments.all() {
            if fragment.start > end {
                lost.push((end, fragment.start));
            }
            end = fragment.end;
        }
        if end < size {
            lost.push((end, size));
        }
        // What no node holds at the end is told, not delivered: a size alone may be anything.
        let size = end.min(size);
        let mut bytes = vec![0; within.end.min(size).saturating_sub(within.start) as usize];
        let mut start = within.start;
        for page in bytes.chunks_mut(PAGE_SIZE as usize) {
            // The file may end where the numbers do.
            let next = start.saturating_add(page.len() as u32);
            match self.read_range(inode, &body, start, page, Cause::UserData) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Corrupt => lost.push((start, next)),
                Err(error) => return Err(error),
            }
            start = next;
        }
        lost.sort_unstable();
        Ok(OldContent { version: node.version, mode: node.mode, modified: node.modified, size, bytes, lost })
    }

    /// Names that were taken away and whose nodes are still on the flash, dead directories'
    /// included; by directory and name. Errors: `Device`. Cost: reads every directory entry.
    pub fn deleted(&self) -> Result<Vec<DeletedName>> {
        let paths = Paths::of(&self.inodes);
        let mut budget = PathBudget::default();
        let mut deleted = Vec::new();
        for (parent, inode) in &self.inodes {
            // Once for all names in it.
            let path = OnceCell::new();
            let mut names: BTreeMap<Vec<u8>, Vec<Said>> = BTreeMap::new();
            for at in &inode.nodes {
                let bytes = self.node_bytes(*at, Cause::Metadata)?;
                let order = self.medium.order();
                let header = Header::decode(order, &bytes).filter(|header| header.check(order).is_ok());
                let Some(header) = header.filter(|header| header.node_type == node_type::DIRENT) else { continue };
                let Ok((dirent, name)) = node::dirent(order, &bytes, header.total_length) else { continue };
                let said = (name.version, *at, name.inode, name.kind, dirent.made);
                names.entry(name.name.into_vec()).or_default().push(said);
            }
            for (name, mut said) in names {
                said.sort_unstable();
                let now = inode.entries.as_ref().and_then(|entries| entries.inode(&name));
                let now = now.filter(|_| inode.links > 0);
                let mut seen = BTreeSet::new();
                for (place, (version, at, target, kind, _)) in said.iter().enumerate().rev() {
                    if *target == Ino::NONE || Some(*target) == now || !seen.insert(*target) {
                        continue;
                    }
                    let after = said.get(place + 1).filter(|next| next.4 != 0);
                    let path = path.get_or_init(|| paths.path(*parent).filter(|_| inode.links > 0)).as_ref();
                    let path = path.filter(|path| budget.take((path.len() + name.len()) as u64));
                    deleted.push(DeletedName {
                        parent: *parent,
                        parent_path: path.cloned(),
                        name: name.clone(),
                        inode: *target,
                        kind: *kind,
                        at: *at,
                        version: *version,
                        deleted: after.map(|next| next.4),
                        lives: self.inodes.get(target).is_some_and(|inode| inode.links > 0),
                    });
                }
            }
        }
        Ok(deleted)
    }

    fn pieces(&self, inode: Ino) -> Result<Vec<Piece>> {
        let found = self.inodes.get(&inode);
        let found =
            found.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("no node of inode {inode} is left")))?;
        let order = self.medium.order();
        let mut pieces = Vec::new();
        for at in &found.nodes {
            let (bytes, soundness) = self.bytes_as_read(*at, INODE_SIZE, Cause::Metadata)?;
            let header = Header::decode(order, &bytes).filter(|header| header.check(order).is_ok());
            // A node that a summary told of may say of itself what it likes: nobody has looked at
            // it since the mount.
            let length = self.catalogue.node(*at).map_or(0, |node| node.length);
            let is_it = |header: &Header| header.node_type == node_type::INODE && padded(header.total_length) == length;
            let Some(header) = header.filter(is_it) else { continue };
            if let Ok(node) = node::inode(order, &bytes, header.total_length) {
                pieces.push(Piece { at: *at, node, soundness });
            }
        }
        Ok(pieces)
    }
}
