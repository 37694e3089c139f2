//! The temporary file. Its name is removed at once, so that the mount after a crash frees it.

use nandkit_vfs::{AttributeChange, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, NewNode, Result};

/// Its name, which exists only briefly, or for its whole life on file systems without nameless
/// files.
const NAME: &[u8] = b".nandkit-remap-temporary";

/// Its mode. A file of this name without any permission was left by a crash.
const MODE: u16 = 0;

/// The temporary file.
#[derive(Debug)]
pub struct Temporary {
    pub inode: InodeNumber,
    is_named: bool,
}

fn read_only() -> FsError {
    FsError::new(ErrorKind::ReadOnly, "the volume is mounted for reading; expected one that can be changed")
}

impl Temporary {
    /// Creates the file. Errors: those of making and removing a file; another file has the name.
    pub fn create(fs: &mut dyn FileSystem) -> Result<Self> {
        let root = fs.root();
        remove_left(fs, root)?;
        let changes = fs.changes().ok_or_else(read_only)?;
        let node = NewNode { mode: MODE, ..NewNode::FILE };
        let inode = changes.create(root, NAME, &node)?;
        let Some(files) = changes.open_files() else { return Ok(Self { inode, is_named: true }) };
        files.retain(inode)?;
        changes.remove(root, NAME)?;
        Ok(Self { inode, is_named: false })
    }

    /// Removes all content; its space is free after the sync.
    pub fn empty(&self, fs: &mut dyn FileSystem) -> Result<()> {
        let changes = fs.changes().ok_or_else(read_only)?;
        changes.set_attributes(self.inode, &AttributeChange { size: Some(0), ..AttributeChange::default() })?;
        changes.sync(None)
    }

    pub fn delete(self, fs: &mut dyn FileSystem) -> Result<()> {
        let root = fs.root();
        let changes = fs.changes().ok_or_else(read_only)?;
        if self.is_named {
            return changes.remove(root, NAME);
        }
        changes.open_files().map_or(Ok(()), |files| files.release(self.inode))
    }
}

/// Removes a file left by a crash before its name was removed.
fn remove_left(fs: &mut dyn FileSystem, root: InodeNumber) -> Result<()> {
    let left = match fs.lookup(root, NAME) {
        Ok(inode) => fs.stat(inode)?,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if left.kind != FileKind::Regular || left.mode & 0o7777 != MODE {
        let detail = format!(
            "/{} is not a temporary file of nandkit; expected no file of this name",
            String::from_utf8_lossy(NAME)
        );
        return Err(FsError::new(ErrorKind::Exists, detail));
    }
    fs.changes().ok_or_else(read_only)?.remove(root, NAME)
}
