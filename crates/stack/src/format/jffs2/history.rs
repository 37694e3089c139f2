//! Old versions of files and deleted names whose nodes are still on the flash.

use nandkit_flash::Flash;
use nandkit_jffs2::{Ino, Jffs2, versions};
use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, Result, Timestamp};

use crate::format::history::{DeletedName, FileVersion, History, OldContent};

fn inode_of(inode: InodeNumber) -> Result<Ino> {
    u32::try_from(inode.0).map(Ino).map_err(|_| FsError::new(ErrorKind::NotFound, format!("no inode {}", inode.0)))
}

fn seconds(seconds: u32) -> Timestamp {
    Timestamp(i64::from(seconds) * 1_000_000_000)
}

impl<F: Flash> History for Jffs2<F> {
    fn versions(&self, inode: InodeNumber) -> Result<Vec<FileVersion>> {
        let told = |version: versions::Version| FileVersion {
            number: version.version.into(),
            at: version.at.0.into(),
            offset: version.offset.into(),
            length: version.length.into(),
            size: version.size.into(),
            modified: seconds(version.modified),
            intact: version.intact,
        };
        Ok(Jffs2::versions(self, inode_of(inode)?)?.into_iter().map(told).collect())
    }

    fn content_at(&self, inode: InodeNumber, number: u64) -> Result<OldContent> {
        let number = u32::try_from(number)
            .map_err(|_| FsError::new(ErrorKind::NotFound, format!("versions end at {}", u32::MAX)))?;
        let content = Jffs2::content_at(self, inode_of(inode)?, number)?;
        let wide = |(start, end): (u32, u32)| (u64::from(start), u64::from(end));
        Ok(OldContent {
            number: content.version.into(),
            modified: seconds(content.modified),
            bytes: content.bytes,
            lost: content.lost.into_iter().map(wide).collect(),
            doubt: None,
        })
    }

    fn deleted(&self) -> Result<Vec<DeletedName>> {
        let told = |found: versions::DeletedName| DeletedName {
            path: found.parent_path.map(|parent| {
                let mut path = parent.strip_prefix(b"/").unwrap_or(&parent).to_vec();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(&found.name);
                path
            }),
            name: found.name,
            parent: found.parent.into(),
            inode: found.inode.into(),
            kind: FileKind::of_dirent(found.kind).unwrap_or(FileKind::Regular),
            at: found.at.0.into(),
            deleted: found.deleted.map(seconds),
            content: None,
            lives: found.lives,
        };
        Ok(Jffs2::deleted(self)?.into_iter().map(told).collect())
    }
}
