//! Resolving a path to an inode.

use crate::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

/// Most symbolic links that one path may lead through, as on Linux (namei.h, MAXSYMLINKS).
pub const SYMLINKS_MAX: u32 = 40;

/// Most components of one path, including those of link targets.
pub const COMPONENTS_MAX: usize = 1 << 16;

/// Whether a symbolic link at the end of a path is followed; links on the way always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Returns the link itself.
    Never,
    /// Returns the link's target.
    #[default]
    Last,
}

/// The inode at `path`. Components are separated by `/`; empty ones and `.` are ignored, `..` is
/// the parent (the root's is the root). Relative paths start at the root. Errors: those of
/// `lookup`, `NotADirectory` on the way, `TooManySymlinks`.
pub fn resolve(fs: &dyn FileSystem, path: &[u8], follow: Follow) -> Result<InodeNumber> {
    // The directories from the root to the current position; the last inode may be no directory.
    let mut trail = vec![fs.root()];
    // The remaining components, the next one last.
    let mut ahead: Vec<Vec<u8>> = Vec::new();
    let mut taken = 0;
    let mut links = 0;
    let must_be_directory = path.ends_with(b"/") || path.ends_with(b"/.");
    push_components(&mut ahead, path, &mut taken)?;
    while let Some(name) = ahead.pop() {
        let here = trail.last().copied().unwrap_or(fs.root());
        if name == b".." {
            expect_directory(fs, here, &name)?;
            if trail.len() > 1 {
                trail.pop();
            }
            continue;
        }
        let inode = fs.lookup(here, &name)?;
        let is_last = ahead.is_empty();
        let follows = !is_last || follow == Follow::Last || must_be_directory;
        if follows && fs.stat(inode)?.kind == FileKind::Symlink {
            links += 1;
            if links > SYMLINKS_MAX {
                let text = format!("{}: more than {SYMLINKS_MAX} symbolic links", super::show(path));
                return Err(FsError::new(ErrorKind::TooManySymlinks, text));
            }
            let target = link_target(fs, inode)?;
            if target.is_empty() {
                return Err(FsError::new(ErrorKind::NotFound, "a symbolic link has an empty target"));
            }
            if target.starts_with(b"/") {
                trail.truncate(1);
            }
            push_components(&mut ahead, &target, &mut taken)?;
        } else {
            trail.push(inode);
        }
    }
    let end = trail.last().copied().unwrap_or(fs.root());
    if must_be_directory {
        expect_directory(fs, end, path)?;
    }
    Ok(end)
}

/// The target of a symbolic link. Errors: those of `read_link`, and `Corrupt` if the file system
/// shows a link but has no symlink capability.
pub fn link_target(fs: &dyn FileSystem, inode: InodeNumber) -> Result<Vec<u8>> {
    let Some(symlinks) = fs.symlinks() else {
        let text = format!("inode {} is a symbolic link, which this file system cannot read", inode.0);
        return Err(FsError::new(ErrorKind::Corrupt, text));
    };
    symlinks.read_link(inode)
}

fn expect_directory(fs: &dyn FileSystem, inode: InodeNumber, name: &[u8]) -> Result<()> {
    match fs.stat(inode)?.kind {
        FileKind::Directory => Ok(()),
        _ => Err(FsError::new(ErrorKind::NotADirectory, format!("before or at \"{}\"", String::from_utf8_lossy(name)))),
    }
}

fn push_components(ahead: &mut Vec<Vec<u8>>, path: &[u8], taken: &mut usize) -> Result<()> {
    for name in path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty() && *name != b".") {
        *taken += 1;
        if *taken > COMPONENTS_MAX {
            let text = format!("a path, with its symbolic links, has at most {COMPONENTS_MAX} components");
            return Err(FsError::new(ErrorKind::NameTooLong, text));
        }
        ahead.push(name.to_vec());
    }
    Ok(())
}

/// Splits a path into its parent and its last name, ignoring trailing slashes. Errors:
/// `InvalidArgument` if there is no last name (the root, `.`, `..`).
pub fn split(path: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let trimmed = path.get(..end).unwrap_or(path);
    let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (parent, name) = trimmed.split_at_checked(start).unwrap_or((trimmed, b""));
    match name {
        b"" | b"." | b".." => {
            Err(FsError::new(ErrorKind::InvalidArgument, format!("{} does not end in a name", super::show(path))))
        }
        name => Ok((parent, name)),
    }
}

/// Resolves the directory that holds the last name of `path`, and returns it with the name. The
/// name need not exist.
pub fn resolve_parent<'a>(fs: &dyn FileSystem, path: &'a [u8]) -> Result<(InodeNumber, &'a [u8])> {
    let (parent, name) = split(path)?;
    let directory = resolve(fs, parent, Follow::Last)?;
    expect_directory(fs, directory, parent)?;
    Ok((directory, name))
}
