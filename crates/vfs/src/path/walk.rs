//! Trees in sorted order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::source::{self, SourceNode};
use crate::{Attributes, ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Result};

/// Deepest directory that is entered.
pub const DEPTH_MAX: usize = 4096;

/// Most entries that are taken from one directory.
pub const ENTRIES_MAX: usize = 1 << 24;

/// Bytes of the paths of all entries together that a walk meets, and [`PATH_BYTES_EACH`] more for
/// each entry: a directory 4,096 levels down whose n names have 250 bytes each would have n MiB of
/// them in an image of 100 n bytes.
pub const PATH_BYTES_MAX: u64 = 1 << 26;

/// Bytes of its path that every entry may have without any limit.
pub const PATH_BYTES_EACH: u64 = 256;

/// What the paths of one list may still take: [`PATH_BYTES_MAX`] together, and [`PATH_BYTES_EACH`]
/// for each.
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
    /// The longest path that there is room for.
    pub const fn longest(&self) -> u64 {
        self.left + PATH_BYTES_EACH
    }

    /// Takes the room of a path of so many bytes, and all that is left where there is less; whether
    /// there was so much.
    pub const fn take(&mut self, length: u64) -> bool {
        let left = self.longest().checked_sub(length);
        self.left = match left {
            Some(left) => left,
            None => 0,
        };
        left.is_some()
    }
}

/// Whether those who read a tree of these nodes get all of it, whatever way they take through it:
/// no directory is [`DEPTH_MAX`] deep or more, and what paths have beyond [`PATH_BYTES_EACH`] bytes
/// each is no more than [`PATH_BYTES_MAX`] together. Error: `NameTooLong` with the first path for
/// which that does not hold, and the limit.
pub fn check_readable(nodes: &[SourceNode]) -> Result<()> {
    // Depth and bytes of each path.
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

/// The path of a node for messages, of a long one its end.
fn end_of_path(nodes: &[SourceNode], node: usize) -> String {
    let path = source::path(nodes, node);
    let start = path.len().saturating_sub(PATH_BYTES_EACH as usize);
    let shown = String::from_utf8_lossy(path.get(start..).unwrap_or_default()).escape_debug().to_string();
    if start == 0 { format!("/{shown}") } else { format!("/...{shown}") }
}

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
    /// All below a directory that was entered has been met, or it could not be listed, which is a
    /// problem just before.
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

/// All entries of a directory, sorted by name. Errors: those of `read_dir`, and `Corrupt` where a
/// listing is endless.
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

/// Meets everything below `start`, each directory before its entries, entries sorted by name.
/// Symbolic links are met, not followed. A directory that was met before (a loop, or two names of
/// one directory), a name that cannot be and one name twice are problems of kind `Corrupt`; a
/// directory [`DEPTH_MAX`] deep is one of kind `NameTooLong`. Where the paths take more than
/// [`PathBudget`] allows, that is the last problem, of the same kind, and the walk ends.
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
            // The entered directory's own name is the one before its next sibling's; a sibling of
            // the same name was seen when it was entered.
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
                    // It was entered all the same, and whoever counts levels has to hear that it is
                    // left.
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
