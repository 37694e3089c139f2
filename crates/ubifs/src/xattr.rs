//! Extended attributes: each is an inode with the value as its inline data.

use nandkit_vfs::{ErrorKind, FsError, InodeNumber, Result, Xattrs};

use crate::layout::Key;
use crate::mount::Ubifs;

/// The attribute of encrypted inodes that Linux shows to nobody
/// (`UBIFS_XATTR_NAME_ENCRYPTION_CONTEXT`).
const ENCRYPTION_CONTEXT: &[u8] = b"c";

impl Xattrs for Ubifs {
    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>> {
        let number = self.number(inode)?;
        let Some(entry) = self.entry_named(number, name, true)? else {
            let detail = format!("inode {number} has no attribute '{}'", String::from_utf8_lossy(name));
            return Err(FsError::new(ErrorKind::NoAttribute, detail));
        };
        Ok(self.inode(entry.inode)?.1)
    }

    fn xattr_names(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let number = self.number(inode)?;
        let keys = Key::name(number, 0, true)..=Key::name(number, u32::MAX, true);
        let mut names = Vec::new();
        for (key, place) in self.tree.range(keys) {
            let name = self.entry(key, place, true)?.name;
            if name != ENCRYPTION_CONTEXT {
                names.push(name);
            }
        }
        Ok(names)
    }
}
