//! Deleted files of a volume whose blocks are still there.

use nandkit_f2fs::{Blocks as _, DeletedInode, NodeId};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

use super::past::path_of;
use super::recovery::Mounted;
use crate::format::history::{DeletedName, FileVersion, History, OldContent};

/// The version number of a deleted file, which has only one.
const ONLY: u64 = 1;

fn absent(inode: InodeNumber) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("no inode {}", inode.0))
}

impl Mounted {
    /// Finds a deleted inode by its number. Errors: `NotFound`, and those of the scan.
    fn deleted_inode(&self, inode: InodeNumber) -> Result<Option<DeletedInode>> {
        let deleted = self.past.found()?.deleted(&self.volume)?;
        Ok(deleted.into_iter().find(|found| u64::from(found.nid.0) == inode.0))
    }

    fn byte_of(&self, at: nandkit_f2fs::BlockAddress) -> u64 {
        u64::from(at.0) * self.volume.geometry().block_size() as u64
    }
}

impl History for Mounted {
    fn versions(&self, inode: InodeNumber) -> Result<Vec<FileVersion>> {
        let Some(found) = self.deleted_inode(inode)? else {
            // An existing file has only its current content.
            self.volume.stat(inode)?;
            return Ok(Vec::new());
        };
        let is_intact = match found.kind {
            FileKind::Regular => self.past.found()?.deleted_content(&self.volume, found.nid)?.is_intact,
            _ => true,
        };
        Ok(vec![FileVersion {
            number: ONLY,
            at: self.byte_of(found.at),
            offset: 0,
            length: found.size,
            size: found.size,
            modified: found.modified,
            intact: is_intact,
        }])
    }

    fn content_at(&self, inode: InodeNumber, number: u64) -> Result<OldContent> {
        let found = self.deleted_inode(inode)?.filter(|_| number == ONLY).ok_or_else(|| absent(inode))?;
        let content = self.past.found()?.deleted_content(&self.volume, found.nid)?;
        Ok(OldContent {
            number,
            modified: found.modified,
            bytes: content.bytes,
            lost: content.lost.into_iter().map(|range| (range.start, range.end)).collect(),
            doubt: None,
        })
    }

    fn deleted(&self) -> Result<Vec<DeletedName>> {
        let deleted = self.past.found()?.deleted(&self.volume)?;
        let told = |found: DeletedInode| {
            let above = path_of(&self.volume, found.parent);
            let path = above.map(|above| if above.is_empty() { Vec::new() } else { [&above[..], b"/"].concat() });
            DeletedName {
                path: path.map(|above| [above, found.name.clone()].concat()),
                name: found.name,
                parent: number(found.parent),
                inode: number(found.nid),
                kind: found.kind,
                at: self.byte_of(found.at),
                deleted: None,
                content: None,
                lives: false,
            }
        };
        Ok(deleted.into_iter().map(told).collect())
    }
}

fn number(nid: NodeId) -> InodeNumber {
    InodeNumber(nid.0.into())
}
