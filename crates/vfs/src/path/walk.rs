//! Walking trees in sorted order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::source::{self, SourceNode};
use crate::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

/// Depth in directories from which a walk enters no further ones.
pub const DEPTH_MAX: usize = 4096;

/// Most entries that are read from one directory.
pub const ENTRIES_MAX: usize = 1 << 24;

/// Most bytes of all paths of a walk together, beyond [`PATH_BYTES_EACH`] for each entry. Without
/// this limit, an image of 100 n bytes with n names of 250 bytes in a directory 4,096 levels deep
/// would yield n MiB of paths.
pub const PATH_BYTES_MAX: u64 = 1 << 26;

/// Bytes of each entry's path that do not count against [`PATH_BYTES_MAX`].
pub const PATH_BYTES_EACH: u64 = 256;

/// The remaining room for the paths of one list: [`PATH_BYTES_MAX`] together, and
/// [`PATH_BYTES_EACH`] for each.
#[derive(Clone, Copy, Debug)]
pub struct PathBudget {
    left: u64,
}

impl Default for PathBudget {
    fn default() -> Self {
        Self { left: PATH_BYTES_MAX }
    }
}

impl PathBudget {
    /// The longest path that still fits.
    pub const fn longest(&self) -> u64 {
        self.left + PATH_BYTES_EACH
    }

    /// Takes the room for a path of `length` bytes and returns whether it fits; if not, takes all
    /// that is left.
    pub const fn take(&mut self, length: u64) -> bool {
        let left = self.longest().checked_sub(length);
        self.left = match left {
            Some(left) => left,
            None => 0,
        };
        left.is_some()
    }
}

/// Checks that a tree of these nodes can be read completely by any walk: no directory is
/// [`DEPTH_MAX`] deep or more, and the bytes of paths beyond [`PATH_BYTES_EACH`] each are at most
/// [`PATH_BYTES_MAX`] together. Error: `NameTooLong` with the first path that breaks a limit, and
/// the limit.
pub fn check_readable(nodes: &[SourceNode]) -> Result<()> {
    // Depth and path length of each node.
    let mut places: Vec<(usize, u64)> = Vec::with_capacity(nodes.len());
    let mut beyond = 0_u64;
    for (index, node) in nodes.iter().enumerate() {
        let above = places.get(node.parent).copied().filter(|_| index > 0);
        let (depth, bytes) =
            above.map_or((0, 0), |(depth, bytes)| (depth + 1, bytes + u64::from(bytes > 0) + node.name.len() as u64));
        places.push((depth, bytes));
        beyond = beyond.saturating_add(bytes.saturating_sub(PATH_BYTES_EACH));
        let limit = if node.kind == FileKind::Directory && depth >= DEPTH_MAX {
            format!("is {depth} directories deep; expected at most {}, the deepest that nandkit reads", DEPTH_MAX - 1)
        } else if beyond > PATH_BYTES_MAX {
            format!(
                "has a path of {bytes} bytes, and all paths so far have {beyond} bytes beyond {PATH_BYTES_EACH} each; expected at most {PATH_BYTES_MAX} in all, the most that nandkit reads"
            )
        } else {
            continue;
        };
        return Err(FsError::new(ErrorKind::NameTooLong, format!("{} {limit}", end_of_path(nodes, index))));
    }
    Ok(())
}

/// A node's path for messages; only the end of a long one.
fn end_of_path(nodes: &[SourceNode], node: usize) -> String {
    let path = source::path(nodes, node);
    let start = path.len().saturating_sub(PATH_BYTES_EACH as usize);
    let shown = String::from_utf8_lossy(path.get(start..).unwrap_or_default()).escape_debug().to_string();
    if start == 0 { format!("/{shown}") } else { format!("/...{shown}") }
}

/// A directory entry that owns its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode.
    pub inode: InodeNumber,
    /// The file type of the entry.
    pub kind: FileKind,
}

/// One step of a walk. Paths are relative to the start of the walk, without a leading `/`.
#[derive(Debug)]
pub enum Step<'a> {
    /// A name and its inode.
    Entry {
        /// Path of the entry.
        path: &'a [u8],
        /// Attributes of the entry.
        attributes: &'a Attributes,
    },
    /// The walk leaves a directory that it entered. All entries below it were visited, or the step
    /// before reported that it cannot be listed.
    Leave {
        /// Path of the directory.
        path: &'a [u8],
        /// The directory.
        inode: InodeNumber,
    },
    /// Something unreadable or impossible; the walk continues after it.
    Problem {
        /// Path of the entry.
        path: &'a [u8],
        /// Why the entry cannot be read.
        error: &'a FsError,
    },
}

/// How the walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Enters this directory, if it is one.
    Enter,
    /// Skips what is below this entry.
    Skip,
    /// Ends the walk.
    Stop,
}

/// All entries of a directory, sorted by name. Errors: those of `read_dir`, and `Corrupt` if a
/// listing does not end.
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

/// A directory on the walk's current path.
struct Level {
    inode: InodeNumber,
    path_length: usize,
    /// The remaining entries, the next one last.
    rest: Vec<OwnedEntry>,
}

/// Visits everything below `start`: each directory before its entries, entries sorted by name.
///
/// Symbolic links are visited, not followed. A directory that was visited before (a loop, or two
/// names of one directory), an impossible name and a duplicate name are problems of kind `Corrupt`;
/// a directory [`DEPTH_MAX`] deep is one of kind `NameTooLong`. If the paths exceed [`PathBudget`],
/// the walk ends with a last problem of that kind.
///
/// Errors: those of `visit`, and of reading `start` itself.
pub fn walk(fs: &dyn FileSystem, start: InodeNumber, visit: &mut dyn FnMut(Step<'_>) -> Result<Next>) -> Result<()> {
    let mut path = Vec::new();
    let mut entered = BTreeSet::from([start]);
    let mut levels = vec![Level { inode: start, path_length: 0, rest: reversed(sorted_entries(fs, start)?) }];
    let mut previous: Option<Vec<u8>> = None;
    let mut budget = PathBudget::default();
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_length);
        let Some(entry) = level.rest.pop() else {
            let inode = level.inode;
            levels.pop();
            if !levels.is_empty() && visit(Step::Leave { path: &path, inode })? == Next::Stop {
                return Ok(());
            }
            // The last component of the entered path is the name before the next sibling's; a
            // sibling with the same name was detected on entry.
            previous = path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
            continue;
        };
        let twice = previous.as_deref() == Some(&entry.name) && !entry.name.is_empty();
        append(&mut path, &entry.name);
        if !budget.take(path.len() as u64) {
            let text = format!(
                "the walk ends here: the paths so far take all the bytes that they may take ({PATH_BYTES_EACH} each, and {PATH_BYTES_MAX} more), a limit of nandkit's and no damage"
            );
            visit(Step::Problem { path: &path, error: &FsError::new(ErrorKind::NameTooLong, text) })?;
            return Ok(());
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
                    // The directory was entered nevertheless, and a visitor that counts levels
                    // needs its `Leave`.
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
            let text =
                format!("{DEPTH_MAX} directories deep and more nothing is entered, a limit of nandkit's and no damage");
            return Err(FsError::new(ErrorKind::NameTooLong, text));
        }
    }
    Ok(attributes)
}
