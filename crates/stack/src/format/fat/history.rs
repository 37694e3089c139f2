//! Deleted files of a volume whose clusters are still there.

use nandkit_block::BlockDevice;
use nandkit_fat::{CONTENT_MAX, DeletedEntry, Fat};
use nandkit_units::ReadInto;
use nandkit_vfs::{ErrorKind, Extents, FileKind, FileSystem, FsError, InodeNumber, Result};

use crate::format::history::{DeletedContent, DeletedName, FileVersion, History, OldContent};

/// The contents of a path: deleted entries of that path, and the current file last, if it exists.
struct Contents {
    deleted: Vec<DeletedEntry>,
    present: Option<InodeNumber>,
}

/// All contents of the path of an inode.
fn contents<D: BlockDevice>(fat: &Fat<D>, inode: InodeNumber) -> Result<Contents> {
    let mut deleted = fat.deleted()?;
    let place = deleted.iter().find(|entry| entry.inode == inode && !entry.lives);
    let (path, present) = match place {
        // If the path is unknown, entries are identified only by their numbers.
        Some(entry) => (entry.path.clone(), None),
        None => {
            fat.stat(inode)?;
            (fat.path_of(inode), Some(inode))
        }
    };
    deleted.retain(|entry| {
        let is_of_path = path.is_some() && entry.path == path;
        !entry.lives && entry.kind == FileKind::Regular && (is_of_path || entry.inode == inode)
    });
    Ok(Contents { deleted, present })
}

fn absent(inode: InodeNumber, number: u64) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("no content {number} of inode {}", inode.0))
}

/// The content of an existing file.
fn present_content<D: BlockDevice>(fat: &Fat<D>, inode: InodeNumber, number: u64) -> Result<OldContent> {
    let attributes = fat.stat(inode)?;
    if attributes.size > CONTENT_MAX {
        let detail = format!("{} bytes; at most {CONTENT_MAX} can be read as a version", attributes.size);
        return Err(FsError::new(ErrorKind::FileTooBig, detail));
    }
    let mut bytes = vec![0; attributes.size as usize];
    let count = fat.read(inode, 0, ReadInto::Bytes(&mut bytes))?;
    bytes.truncate(count);
    let lost = ((count as u64) < attributes.size).then_some((count as u64, attributes.size)).into_iter().collect();
    Ok(OldContent { number, modified: attributes.modified, bytes, lost, doubt: None })
}

impl<D: BlockDevice> History for Fat<D> {
    fn versions(&self, inode: InodeNumber) -> Result<Vec<FileVersion>> {
        let Contents { deleted, present } = contents(self, inode)?;
        let mut versions: Vec<FileVersion> = (1..)
            .zip(&deleted)
            .map(|(number, entry)| FileVersion {
                number,
                at: entry.at,
                offset: 0,
                length: entry.size,
                size: entry.size,
                modified: entry.modified,
                intact: entry.readable == entry.size,
            })
            .collect();
        if let Some(inode) = present {
            let attributes = self.stat(inode)?;
            versions.push(FileVersion {
                number: versions.len() as u64 + 1,
                at: self.extent_after(inode, 0)?.map_or(0, |extent| extent.address.unwrap_or(0)),
                offset: 0,
                length: attributes.size,
                size: attributes.size,
                modified: attributes.modified,
                intact: true,
            });
        }
        Ok(versions)
    }

    fn content_at(&self, inode: InodeNumber, number: u64) -> Result<OldContent> {
        let Contents { deleted, present } = contents(self, inode)?;
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let index = index.ok_or_else(|| absent(inode, number))?;
        let Some(entry) = deleted.get(index) else {
            let present = present.filter(|_| index == deleted.len()).ok_or_else(|| absent(inode, number))?;
            return present_content(self, present, number);
        };
        let bytes = self.deleted_content(entry)?;
        let is_lost = entry.readable < entry.size;
        let lost = is_lost.then_some((entry.readable, entry.size)).into_iter().collect();
        let doubt = entry.doubt.map(|doubt| doubt.reason());
        Ok(OldContent { number, modified: entry.modified, bytes, lost, doubt })
    }

    fn deleted(&self) -> Result<Vec<DeletedName>> {
        let told = |entry: DeletedEntry| DeletedName {
            path: entry.path.map(String::into_bytes),
            name: entry.name.into_bytes(),
            parent: entry.parent,
            inode: entry.inode,
            kind: entry.kind,
            at: entry.at,
            deleted: None,
            content: (entry.kind == FileKind::Regular && !entry.lives).then(|| DeletedContent {
                size: entry.size,
                readable: entry.readable,
                doubt: entry.doubt.map(|doubt| doubt.reason()),
            }),
            lives: entry.lives,
        };
        Ok(Fat::deleted(self)?.into_iter().map(told).collect())
    }
}
