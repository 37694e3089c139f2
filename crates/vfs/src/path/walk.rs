//! Trees in sorted order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

/// Deepest directory that is entered.
pub const DEPTH_MAX: usize = 4096;

/// Most entries that are taken from one directory.
pub const ENTRIES_MAX: usize = 1 << 24;

/// Bytes of the paths of all entries together that a walk meets, and [`PATH_BYTES_EACH`] more for each entry: a directory 4,096 levels down whose n names have 250 bytes each would have n MiB
/// of them in an image of 100 n bytes.
pub const PATH_BYTES_MAX: u64 = 1 << 26;

/// Bytes of its path that every entry may have without any limit.
pub const PATH_BYTES_EACH: u64 = 256;

/// One entry of a directory, by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode.
    pub inode: InodeNumber,
    /// What it is.
    pub kind: FileKind,
}

/// What a walk meets. Paths are relative to the start of the walk, without a leading `/`.
#[derive(Debug)]
pub enum Step<'a> {
    /// A name and its inode.
    Entry {
        /// Where.
        path: &'a [u8],
        /// What.
        attributes: &'a Attributes,
    },
    /// All below a directory that was entered has been met, or it could not be listed, which is a problem just before.
    Leave {
        /// Where.
        path: &'a [u8],
        /// The directory.
        inode: InodeNumber,
    },
    /// Something that could not be read or cannot be; the walk goes on behind it.
    Problem {
        /// Where.
        path: &'a [u8],
        /// What.
        error: &'a FsError,
    },
}

/// How a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Into this directory, if it is one.
    Enter,
    /// Behind this entry.
    Skip,
    /// Not at all.
    Stop,
}

/// All entries of a directory, sorted by name. Errors: those of `read_dir`, and `Corrupt` where a listing is endless.
pub fn sorted_entries(fs: &dyn FileSystem, directory: InodeNumber) -> Result<Vec<OwnedEntry>> {
    let mut entries = Vec::new();
    fs.read_dir(directory, 0, &mut |entry| {
        if entries.len() > ENTRIES_MAX {
            return ControlFlow::Break(());
        }
        entries.push(OwnedEntry { name: entry.name.to_vec(), inode: entry.inode, kind: entry.kind });
        ControlFlow::Continue(())
    })?;
    if entries.len() > ENTRIES_MAX {
        let text = format!("directory {} lists more than {ENTRIES_MAX} entries", directory.0);
        return Err(FsError::new(ErrorKind::Corrupt, text));
    }
    entries.sort();
    Ok(entries)
}

/// A directory that the walk is in.
struct Level {
    inode: InodeNumber,
    path_length: usize,
    /// Entries still to go, the next one last.
    rest: Vec<OwnedEntry>,
}

/// Meets everything below `start`, each directory before its entries, entries sorted by name. Symbolic links are met, not followed. A directory that was met before
/// (a loop, or two names of one directory), a name that cannot be and one name twice are problems of kind `Corrupt`. Where the paths take more than [`PATH_BYTES_MAX`], that
/// is the last problem, and the walk ends.
///
/// Errors: those of `visit`, and of reading `start` itself.
pub fn walk(fs: &dyn FileSystem, start: InodeNumber, visit: &mut dyn FnMut(Step<'_>) -> Result<Next>) -> Result<()> {
    let mut path = Vec::new();
    let mut entered = BTreeSet::from([start]);
    let mut levels = vec![Level { inode: start, path_length: 0, rest: reversed(sorted_entries(fs, start)?) }];
    let mut previous: Option<Vec<u8>> = None;
    let mut path_bytes_left = PATH_BYTES_MAX;
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_length);
        let Some(entry) = level.rest.pop() else {
            let inode = level.inode;
            levels.pop();
            if !levels.is_empty() && visit(Step::Leave { path: &path, inode })? == Next::Stop {
                return Ok(());
            }
            // The entered directory's own name is the one before its next sibling's; a sibling of the same name was seen when it was entered.
            previous = path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
            continue;
        };
        let twice = previous.as_deref() == Some(&entry.name) && !entry.name.is_empty();
        append(&mut path, &entry.name);
        match (path_bytes_left + PATH_BYTES_EACH).checked_sub(path.len() as u64) {
            Some(left) => path_bytes_left = left,
            None => {
                let text = "the walk ends here: the paths so far take all the bytes that they may take";
                visit(Step::Problem { path: &path, error: &FsError::new(ErrorKind::Corrupt, text) })?;
                return Ok(());
            }
        }
        let next = match check(fs, &entry, twice, &entered, levels.len()) {
            Ok(attributes) => (visit(Step::Entry { path: &path, attributes: &attributes })?, attributes.kind),
            Err(error) => (skip_unless_stop(visit(Step::Problem { path: &path, error: &error })?), entry.kind),
        };
        previous = Some(entry.name);
        match next {
            (Next::Stop, _) => return Ok(()),
            (Next::Enter, FileKind::Directory) => match sorted_entries(fs, entry.inode) {
                Ok(entries) => {
                    entered.insert(entry.inode);
                    levels.push(Level { inode: entry.inode, path_length: path.len(), rest: reversed(entries) });
                    previous = None;
                }
                Err(error) => {
                    let stops = |next| next == Next::Stop;
                    // It was entered all the same, and whoever counts levels has to hear that it is left.
                    if stops(visit(Step::Problem { path: &path, error: &error })?)
                        || stops(visit(Step::Leave { path: &path, inode: entry.inode })?)
                    {
                        return Ok(());
                    }
                }
            },
            _ => {}
        }
    }
    Ok(())
}

fn skip_unless_stop(next: Next) -> Next {
    if next == Next::Stop { Next::Stop } else { Next::Skip }
}

fn reversed(mut entries: Vec<OwnedEntry>) -> Vec<OwnedEntry> {
    entries.reverse();
    entries
}

fn append(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

fn check(
    fs: &dyn FileSystem,
    entry: &OwnedEntry,
    twice: bool,
    entered: &BTreeSet<InodeNumber>,
    depth: usize,
) -> Result<Attributes> {
    let corrupt = |why: String| Err(FsError::new(ErrorKind::Corrupt, why));
    if entry.name.is_empty() || entry.name == b"." || entry.name == b".." {
        return corrupt("a directory holds an empty or reserved name".into());
    }
    if entry.name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return corrupt("a name holds \"/\" or NUL".into());
    }
    if twice {
        return corrupt("the directory holds this name twice".into());
    }
    let attributes = fs.stat(entry.inode)?;
    if attributes.kind == FileKind::Directory {
        if entered.contains(&entry.inode) {
            return corrupt(format!("directory {} has a second name, or holds itself", entry.inode.0));
        }
        if depth >= DEPTH_MAX {
            return corrupt(format!("directories are more than {DEPTH_MAX} deep"));
        }
    }
    Ok(attributes)
}
