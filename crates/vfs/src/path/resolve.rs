//! From a path to an inode.

use crate::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

/// Most symbolic links on one path, as on Linux (namei.h, MAXSYMLINKS).
pub const SYMLINKS_MAX: u32 = 40;

/// Most components on one path, links' targets included.
pub const COMPONENTS_MAX: usize = 1 << 16;

/// Whether a symbolic link at the end of a path is followed; links on the way always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// The link itself is meant.
    Never,
    /// What it points at is meant.
    #[default]
    Last,
}

/// The inode at `path` (components between `/`; empty ones and `.` mean nothing, `..` is the
/// directory above, the root's is the root). Relative paths start at the root. Errors: those of
/// `lookup`, `NotADirectory` on the way, `TooManySymlinks`.
pub fn resolve(fs: &dyn FileSystem, path: &[u8], follow: Follow) -> Result<InodeNumber> {
    // Directories from the root down to where the walk stands, the last of which may be no
    // directory.
    let mut trail = vec![fs.root()];
    // Components still to go, the next one last.
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

/// The target of a symbolic link. Errors: those of `read_link`, and `Corrupt` where a file system
/// shows a link but has no such capability.
pub fn link_target(fs: &dyn FileSystem, inode: InodeNumber) -> Result<Vec<u8>> {
    let Some(symlinks) = fs.symlinks() else {
        let text = format!("inode {} is a symbolic link, but this file system reads none", inode.0);
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

/// A path's parent and its last name, with slashes at the end ignored. Errors: `InvalidArgument`
/// where there is no last name (the root, `.`, `..`).
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

/// The directory that holds the last name of `path`, and the name. The name need not exist.
pub fn resolve_parent<'a>(fs: &dyn FileSystem, path: &'a [u8]) -> Result<(InodeNumber, &'a [u8])> {
    let (parent, name) = split(path)?;
    let directory = resolve(fs, parent, Follow::Last)?;
    expect_directory(fs, directory, parent)?;
    Ok((directory, name))
}
