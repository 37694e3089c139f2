//! Reading and writing whole files by path, and removing whole trees.

use nandkit_units::{Payload, ReadInto};

use super::{CHUNK, Follow, Next, Step, resolve, resolve_parent, show, walk};
use crate::{AttributeChange, Changes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, NewNode, Result};

/// Reads a whole file of at most `bytes_max` bytes. Errors: `FileTooBig` for a longer one, and
/// those of `read`.
pub fn read_inode(fs: &dyn FileSystem, inode: InodeNumber, bytes_max: u64) -> Result<Vec<u8>> {
    let size = fs.stat(inode)?.size;
    if size > bytes_max {
        let text = format!("inode {} has {size} bytes, at most {bytes_max} are read whole", inode.0);
        return Err(FsError::new(ErrorKind::FileTooBig, text));
    }
    let mut content = Vec::new();
    loop {
        let done = content.len();
        content.resize(done + CHUNK, 0);
        let count = fs.read(inode, done as u64, ReadInto::Bytes(content.get_mut(done..).unwrap_or_default()))?;
        content.truncate(done + count.min(CHUNK));
        if count == 0 || content.len() as u64 > bytes_max {
            content.truncate(usize::try_from(bytes_max).unwrap_or(usize::MAX));
            return Ok(content);
        }
    }
}

/// Reads the whole file at `path`, of at most [`super::FILE_BYTES_MAX`] bytes.
pub fn read_file(fs: &dyn FileSystem, path: &[u8]) -> Result<Vec<u8>> {
    read_inode(fs, resolve(fs, path, Follow::Last)?, super::FILE_BYTES_MAX)
}

/// Writes all of `data` at `offset`. Errors: those of `write`, and `NoSpace` if only a part was
/// written.
pub fn write_inode(fs: &mut dyn Changes, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<()> {
    let mut rest = data;
    while !rest.is_empty() {
        let at = offset.saturating_add((data.len() - rest.len()) as u64);
        let count = fs.write(inode, at, Payload::Bytes(rest.get(..CHUNK).unwrap_or(rest)))?;
        if count == 0 {
            let text = format!("inode {}: no space after byte {at}", inode.0);
            return Err(FsError::new(ErrorKind::NoSpace, text));
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Makes `data` the whole content of the file at `path`. Creates the file as `node` if it does not
/// exist, otherwise truncates it first. A symbolic link at the end is followed.
pub fn write_file(fs: &mut dyn Changes, path: &[u8], node: &NewNode<'_>, data: &[u8]) -> Result<InodeNumber> {
    let inode = match resolve(fs, path, Follow::Last) {
        Ok(inode) => {
            fs.set_attributes(inode, &AttributeChange { size: Some(0), ..Default::default() })?;
            inode
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            let (directory, name) = resolve_parent(fs, path)?;
            fs.create(directory, name, node)?
        }
        Err(error) => return Err(error),
    };
    write_inode(fs, inode, 0, data)?;
    Ok(inode)
}

/// Creates the directory at `path` and all missing parents; existing directories stay as they are.
/// Errors: `NotADirectory` if a component is something else, and those of `create`.
pub fn make_directories(fs: &mut dyn Changes, path: &[u8], node: &NewNode<'_>) -> Result<InodeNumber> {
    let mut here = fs.root();
    for end in (0..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/')) {
        let prefix = path.get(..end).unwrap_or(path);
        here = match resolve(fs, prefix, Follow::Last) {
            Ok(inode) => inode,
            Err(error) if error.kind == ErrorKind::NotFound => {
                let (directory, name) = resolve_parent(fs, prefix)?;
                fs.create(directory, name, node)?
            }
            Err(error) => return Err(error),
        };
        if fs.stat(here)?.kind != FileKind::Directory {
            return Err(FsError::new(ErrorKind::NotADirectory, format!("{} is no directory", show(prefix))));
        }
    }
    Ok(here)
}

/// Removes a name and everything below it. Stops at the first error; what was removed before it
/// stays removed.
pub fn remove_tree(fs: &mut dyn Changes, directory: InodeNumber, name: &[u8]) -> Result<()> {
    let top = fs.lookup(directory, name)?;
    if fs.stat(top)?.kind == FileKind::Directory {
        // Names below the directory, each directory after its entries.
        let mut below: Vec<(InodeNumber, Vec<u8>)> = Vec::new();
        let mut parents = vec![top];
        walk(fs, top, &mut |step| {
            match step {
                Step::Entry { path, attributes } => {
                    let holder = parents.last().copied().unwrap_or(top);
                    if attributes.kind == FileKind::Directory {
                        parents.push(attributes.inode);
                    } else {
                        below.push((holder, last_name(path)));
                    }
                }
                Step::Leave { path, .. } => {
                    parents.pop();
                    below.push((parents.last().copied().unwrap_or(top), last_name(path)));
                }
                Step::Problem { path, error } => {
                    return Err(FsError::new(error.kind, format!("{}: {}", show(path), error.detail)));
                }
            }
            Ok(Next::Enter)
        })?;
        for (holder, name) in below {
            fs.remove(holder, &name)?;
        }
    }
    fs.remove(directory, name)
}

fn last_name(path: &[u8]) -> Vec<u8> {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_vec()
}
