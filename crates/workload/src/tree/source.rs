//! Where the files of `tree:DIR` come from; [`HostTree`] is the one part of this crate that reads
//! directories of the operating system.

use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{Result, WorkloadError};

/// A file or directory of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The directory's place among the entries; `None` at the top.
    pub parent: Option<usize>,
    /// The name.
    pub name: Vec<u8>,
    /// Bytes of a file; `None` for a directory.
    pub size: Option<u64>,
}

/// A tree of files whose content can be read again and again.
pub trait TreeSource: Send {
    /// All entries, each directory before what is in it, always in the same order.
    fn entries(&self) -> &[TreeEntry];

    /// Fills `into` with a file's bytes from `offset` on. Errors: the file has changed since the
    /// first reading.
    fn read(&mut self, entry: usize, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Hands over bytes that describe all names, directories, sizes and times of change, so that a
    /// change of one of them shows.
    fn identify(&self, sink: &mut dyn FnMut(&[u8]));

    /// What was left out (links, sockets, devices), for a note to the user.
    fn skipped(&self) -> u64 {
        0
    }
}

/// Largest number of entries of a tree; more is an error, so that memory does not run out.
const ENTRIES_MAX: usize = 4_000_000;
/// How deep directories may nest.
const DEPTH_MAX: usize = 256;

/// A file's identity at the time of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), modified_ns }
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        Self { device: 0, inode: 0, size: metadata.len(), modified_ns: 0 }
    }
}

/// A directory of the host. Symbolic links are never followed: they and special files are left out
/// and counted.
#[derive(Debug)]
pub struct HostTree {
    entries: Vec<TreeEntry>,
    /// Path and identity of each entry.
    places: Vec<(PathBuf, Identity)>,
    open: Option<(usize, File)>,
    skipped: u64,
}

fn failed(path: &Path, detail: &str, source: std::io::Error) -> WorkloadError {
    WorkloadError::Input {
        path: path.display().to_string(),
        detail: format!("{detail}: {source}"),
        source: Some(source),
    }
}

fn refused(path: &Path, detail: impl Into<String>) -> WorkloadError {
    WorkloadError::Input { path: path.display().to_string(), detail: detail.into(), source: None }
}

#[cfg(unix)]
fn name_bytes(name: &std::ffi::OsStr) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    name.as_bytes().to_vec()
}

#[cfg(not(unix))]
fn name_bytes(name: &std::ffi::OsStr) -> Vec<u8> {
    name.to_string_lossy().into_owned().into_bytes()
}

impl HostTree {
    /// Walks the directory in the order of names.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let top = path.as_ref();
        let metadata = fs::metadata(top).map_err(|source| failed(top, "cannot be read", source))?;
        if !metadata.is_dir() {
            return Err(refused(top, "is not a directory"));
        }
        let mut tree = Self { entries: Vec::new(), places: Vec::new(), open: None, skipped: 0 };
        tree.walk(top, None, 0)?;
        Ok(tree)
    }

    fn walk(&mut self, directory: &Path, parent: Option<usize>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(refused(directory, format!("is nested deeper than {DEPTH_MAX} directories")));
        }
        let unreadable = |source| failed(directory, "cannot be listed", source);
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            names.push(entry.map_err(unreadable)?.file_name());
        }
        names.sort();
        for name in names {
            let path = directory.join(&name);
            let metadata = fs::symlink_metadata(&path).map_err(|source| failed(&path, "cannot be read", source))?;
            if !metadata.is_dir() && !metadata.is_file() {
                self.skipped += 1;
                continue;
            }
            if self.entries.len() >= ENTRIES_MAX {
                return Err(refused(&path, format!("the directory has more than {ENTRIES_MAX} entries")));
            }
            let number = self.entries.len();
            let size = metadata.is_file().then_some(metadata.len());
            self.entries.push(TreeEntry { parent, name: name_bytes(&name), size });
            self.places.push((path.clone(), Identity::of(&metadata)));
            if metadata.is_dir() {
                self.walk(&path, Some(number), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Opens the file of an entry, and checks that it is the one that the walk found.
    fn file(&mut self, entry: usize) -> Result<&mut File> {
        let Some((path, identity)) = self.places.get(entry) else {
            return Err(WorkloadError::inconsistent(format!("the tree has no entry {entry}")));
        };
        if self.open.as_ref().is_none_or(|(number, _)| *number != entry) {
            let file = File::open(path).map_err(|source| failed(path, "cannot be opened", source))?;
            self.open = Some((entry, file));
        }
        match &mut self.open {
            Some((_, file)) => {
                let metadata = file.metadata().map_err(|source| failed(path, "cannot be read", source))?;
                if Identity::of(&metadata) != *identity {
                    return Err(refused(path, "changed while the run was going on"));
                }
                Ok(file)
            }
            None => Err(WorkloadError::inconsistent("a file that was opened is not open")),
        }
    }
}

impl TreeSource for HostTree {
    fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// The whole description of the tree: files that change keep their entry, but not their time.
    fn identify(&self, sink: &mut dyn FnMut(&[u8])) {
        for (entry, (_, identity)) in self.entries.iter().zip(&self.places) {
            let parent = entry.parent.map_or(u64::MAX, |parent| parent as u64);
            // A directory gets a size that no file can have; its time is left out, since its
            // entries show each change.
            let (size, modified_ns) = entry.size.map_or((u64::MAX, 0), |size| (size, identity.modified_ns));
            sink(&parent.to_le_bytes());
            sink(&(entry.name.len() as u64).to_le_bytes());
            sink(&entry.name);
            sink(&size.to_le_bytes());
            sink(&modified_ns.to_le_bytes());
        }
    }

    fn read(&mut self, entry: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let file = self.file(entry)?;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(into));
        match (read, self.places.get(entry)) {
            (Err(source), Some((path, _))) => Err(failed(path, "cannot be read", source)),
            _ => Ok(()),
        }
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn links_are_left_out_and_changed_files_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/b"), b"bytes").unwrap();
        fs::write(path.join("a"), b"").unwrap();
        std::os::unix::fs::symlink("/etc", path.join("link")).unwrap();
        let mut tree = HostTree::read(path).unwrap();
        let names: Vec<_> = tree.entries().iter().map(|e| (e.parent, e.name.clone(), e.size)).collect();
        assert_eq!(
            names,
            [(None, b"a".to_vec(), Some(0)), (None, b"sub".to_vec(), None), (Some(1), b"b".to_vec(), Some(5))]
        );
        assert_eq!(tree.skipped(), 1);
        let mut bytes = [0; 3];
        tree.read(2, 2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"tes");
        fs::write(path.join("sub/b"), b"longer than before").unwrap();
        assert!(tree.read(2, 0, &mut bytes).unwrap_err().to_string().contains("changed"));
        assert!(HostTree::read(path.join("a")).unwrap_err().is_input());
    }
}
