//! Old versions still on the flash: superseded file content, and deleted names.
//!
//! They are not part of the volume, and exist until the collector erases their blocks.

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

/// Most bytes read at once.
const WHOLE_MAX: u32 = 256 << 20;

/// A node of an inode that is still on the flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version, which increases with each node of the inode.
    pub version: u32,
    /// Address of the node.
    pub at: NodeAddress,
    /// File offset of its data.
    pub offset: u32,
    /// Number of file bytes in it; 0 if it only has attributes.
    pub length: u32,
    /// Size of the file at that time.
    pub size: u32,
    /// Type and permissions at that time.
    pub mode: u32,
    /// Modification time at that time, in seconds since 1970.
    pub modified: u32,
    /// Whether its data are intact.
    pub intact: bool,
}

/// A file's content in an old version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldContent {
    /// The version with the attributes: the highest one still available, up to the requested one.
    pub version: u32,
    /// Type and permissions.
    pub mode: u32,
    /// Modification time in seconds since 1970.
    pub modified: u32,
    /// Size of the file in bytes, as far as nodes of that time still reach.
    pub size: u32,
    /// The requested content, or a symbolic link's target. Lost ranges are zeroes.
    pub bytes: Vec<u8>,
    /// Ranges without a remaining node, or with damaged nodes, as start and end. Holes written as
    /// such are not included.
    pub lost: Vec<(u32, u32)>,
}

/// A deleted name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedName {
    /// The directory that contained it.
    pub parent: Ino,
    /// The directory's path, if it still has one and all paths together are within
    /// [`nandkit_vfs::path::PathBudget`].
    pub parent_path: Option<Vec<u8>>,
    /// The name.
    pub name: Vec<u8>,
    /// The inode that had this name.
    pub inode: Ino,
    /// The inode's type as `st_mode >> 12`.
    pub kind: u8,
    /// Address of the node with the name.
    pub at: NodeAddress,
    /// Version of that node among the directory's nodes.
    pub version: u32,
    /// Time of the deletion in seconds since 1970, if a node still has it.
    pub deleted: Option<u32>,
    /// Whether the inode has another name now: it was renamed, or this was one of several.
    pub lives: bool,
}

/// Version, address, inode, kind and time of one directory entry.
type Said = (u32, NodeAddress, Ino, u8, u32);

impl<F: Flash> Jffs2<F> {
    /// An inode's nodes that are still on the flash, by version, including those of dead inodes.
    /// Errors: `NotFound` if there are none, `Device`.
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

    /// The whole content that [`Jffs2::content_within`] returns for a range. Errors: also
    /// `FileTooBig` if that exceeds 256 MiB.
    pub fn content_at(&self, inode: Ino, version: u32) -> Result<OldContent> {
        let content = self.content_within(inode, version, 0..WHOLE_MAX)?;
        if content.size > WHOLE_MAX {
            let detail = format!("inode {inode} had {} bytes, more than are read at once", content.size);
            return Err(FsError::new(ErrorKind::FileTooBig, detail));
        }
        Ok(content)
    }

    /// The content of a range of a file when the node with this version was its newest: applies the
    /// rules of a mount to the nodes up to that one. Errors: `NotFound` if nothing so old is left,
    /// `InvalidArgument` if it is neither a file nor a symbolic link, `Device`.
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
        // A range at the end without nodes is reported, not returned: a size alone proves nothing.
        let size = end.min(size);
        let mut bytes = vec![0; within.end.min(size).saturating_sub(within.start) as usize];
        let mut start = within.start;
        for page in bytes.chunks_mut(PAGE_SIZE as usize) {
            // The file may end at the limit of the numbers.
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

    /// Deleted names whose nodes are still on the flash, including those of dead directories, by
    /// directory and name. Errors: `Device`. Cost: reads every directory entry.
    pub fn deleted(&self) -> Result<Vec<DeletedName>> {
        let paths = Paths::of(&self.inodes);
        let mut budget = PathBudget::default();
        let mut deleted = Vec::new();
        for (parent, inode) in &self.inodes {
            // Once for all names in the directory.
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
            // A node listed by a summary may itself claim anything: it has not been examined since
            // the mount.
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
