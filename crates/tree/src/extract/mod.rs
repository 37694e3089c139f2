//! Extracting a tree to a host directory.
//!
//! Whatever the tree contains, nothing outside the target is read, written or made: every call uses
//! an open directory and a single name in it, directories are opened without following symbolic
//! links, and new files are made only where nothing exists. First all directories are made, then
//! files by several threads, then hard links. Attributes of directories are set last, innermost
//! first, so that later changes do not modify their times.

mod attributes;
mod content;
mod names;
mod specials;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nandkit_vfs::source::{Children, SourceTree, path};
use nandkit_vfs::{FileKind, FileSystem};
use rayon::prelude::*;
use rustix::fs::{Mode, OFlags};

use crate::{MountLimits, MountedTree, Result, TreeError};
pub use content::write_sparse;
use names::Target;

/// Options for extracting a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Merges into a non-empty directory: directories with the same name are shared, anything else
    /// with the same name is replaced. Otherwise the target must be empty or missing.
    pub merge: bool,
    /// Sets owners; `None` means only if the user is root. Without owners, set-user-id and
    /// set-group-id are not set on files whose owner would differ.
    pub owners: Option<bool>,
    /// Sets extended attributes.
    pub xattrs: bool,
    /// Refuses symbolic links that lead out of the target: those with an absolute target, or with
    /// more `..` than parent directories. The extraction never follows links, but other programs
    /// do.
    pub inward_links_only: bool,
    /// Limits for a mounted file system.
    pub limits: MountLimits,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self { merge: false, owners: None, xattrs: true, inward_links_only: false, limits: MountLimits::default() }
    }
}

/// A remark about a path of the tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// Path of the entry.
    pub path: Vec<u8>,
    /// The remark, with its reason.
    pub reason: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", crate::show(&self.path), self.reason)
    }
}

/// The result of an extraction. Notes are sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractReport {
    /// Regular files made, including damaged ones.
    pub files: u64,
    /// Directories made or shared, including the target.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Additional names of inodes made.
    pub hard_links: u64,
    /// Devices, fifos and sockets made.
    pub specials: u64,
    /// Bytes of file content, including holes.
    pub bytes: u64,
    /// Whether owners were set.
    pub owners: bool,
    /// Names or attributes that the host or the user's permissions did not allow.
    pub skipped: Vec<Note>,
    /// Nodes refused because they could do harm, or no directory can hold them.
    pub refused: Vec<Note>,
    /// Nodes that could not be read completely, with the first offset and its cause.
    pub damaged: Vec<Note>,
}

/// The progress of an extraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names processed.
    pub names: u64,
    /// Names in total.
    pub names_total: u64,
    /// Bytes of files processed.
    pub bytes: u64,
    /// Bytes of files in total.
    pub bytes_total: u64,
}

/// A callback for progress, called occasionally and by several threads.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// Extracts a whole mounted file system to the directory `target`, which is made if missing.
///
/// Errors: `Target` if the target cannot be used; `Node` if the root cannot be read; `Host` if the
/// host cannot take more (no space, a device error). All other problems are in the report, and the
/// rest is extracted.
pub fn extract(
    fs: &dyn FileSystem,
    target: &Path,
    options: &ExtractOptions,
    progress: OnProgress<'_>,
) -> Result<ExtractReport> {
    let tree = MountedTree::read(fs, fs.root(), &options.limits).map_err(|error| TreeError::node(&[], error))?;
    let mut report = extract_tree(&tree, target, options, progress)?;
    report.refused.extend_from_slice(tree.refused());
    report.damaged.extend_from_slice(tree.damaged());
    report.refused.sort();
    report.damaged.sort();
    Ok(report)
}

/// Extracts a tree to the directory `target`, like [`extract`].
pub fn extract_tree(
    tree: &dyn SourceTree,
    target: &Path,
    options: &ExtractOptions,
    progress: OnProgress<'_>,
) -> Result<ExtractReport> {
    nandkit_vfs::source::check(tree.nodes()).map_err(|error| TreeError::node(&[], error))?;
    let root = open_target(target, options.merge)?;
    let nodes = tree.nodes();
    let first_names = nodes.iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
    let work = Work {
        tree,
        options,
        owners: options.owners.unwrap_or_else(|| rustix::process::geteuid().is_root()),
        target: Target { root, shown: target.display().to_string(), merge: options.merge },
        report: Mutex::new(ExtractReport::default()),
        progress,
        names_done: AtomicU64::new(0),
        bytes_done: AtomicU64::new(0),
        // Saturates because holes count, and a hostile image can claim any number of them.
        bytes_total: first_names.fold(0, |sum, node| sum.saturating_add(node.size)),
    };
    let children = Children::of(nodes);
    let made = work.make_directories()?;
    let there = |node: usize| made.get(node).copied().unwrap_or(false);
    for (index, node) in nodes.iter().enumerate() {
        if node.kind != FileKind::Directory && node.hard_link_of.is_none() && !there(node.parent) {
            work.note(List::Skipped, index, ABOVE_MISSING);
        }
    }
    let directories = (0..nodes.len()).filter(|index| there(*index));
    // Several threads share the files of a large directory.
    let is_file = |child: &usize| {
        nodes.get(*child).is_some_and(|node| node.kind != FileKind::Directory && node.hard_link_of.is_none())
    };
    let batches: Vec<(usize, Vec<usize>)> = directories
        .flat_map(|directory| {
            let files: Vec<usize> = children.get(directory).iter().copied().filter(is_file).collect();
            files.chunks(64).map(|files| (directory, files.to_vec())).collect::<Vec<_>>()
        })
        .collect();
    let files: Vec<Vec<usize>> = batches
        .into_par_iter()
        .map_init(Vec::new, |buffer, (directory, files)| work.make_files(directory, &files, buffer))
        .collect::<Result<_>>()?;
    let mut made = made;
    for index in files.into_iter().flatten() {
        if let Some(made) = made.get_mut(index) {
            *made = true;
        }
    }
    work.make_hard_links(&made)?;
    work.finish_directories(&made)?;
    let mut report = work.report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.owners = work.owners;
    report.skipped.sort();
    report.refused.sort();
    report.damaged.sort();
    Ok(report)
}

/// Opens the target, and makes it if missing.
fn open_target(target: &Path, merge: bool) -> Result<OwnedFd> {
    let shown = || target.display().to_string();
    match std::fs::create_dir(target) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(TreeError::host(shown(), "making the target directory", error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(target, flags, Mode::empty())
        .map_err(|error| TreeError::host(shown(), "opening the target directory", error))?;
    if merge {
        return Ok(root);
    }
    let listing =
        rustix::fs::Dir::read_from(&root).map_err(|error| TreeError::host(shown(), "listing the target", error))?;
    for entry in listing {
        let entry = entry.map_err(|error| TreeError::host(shown(), "listing the target", error))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            let what =
                "expected an empty directory, or none; merging into one that holds something has to be asked for";
            return Err(TreeError::Target { path: shown(), what: what.to_owned() });
        }
    }
    Ok(root)
}

const ABOVE_MISSING: &str = "the directory above it could not be made";

/// An extraction in progress.
struct Work<'a> {
    tree: &'a dyn SourceTree,
    options: &'a ExtractOptions,
    owners: bool,
    target: Target,
    report: Mutex<ExtractReport>,
    progress: OnProgress<'a>,
    names_done: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: u64,
}

/// The lists of the report.
#[derive(Clone, Copy, Debug)]
enum List {
    Skipped,
    Refused,
    Damaged,
}

impl Work<'_> {
    fn path(&self, node: usize) -> Vec<u8> {
        path(self.tree.nodes(), node)
    }

    fn report(&self, change: impl FnOnce(&mut ExtractReport)) {
        change(&mut self.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn note(&self, list: List, node: usize, reason: impl Into<String>) {
        let note = Note { path: self.path(node), reason: reason.into() };
        self.report(|report| {
            let notes = match list {
                List::Skipped => &mut report.skipped,
                List::Refused => &mut report.refused,
                List::Damaged => &mut report.damaged,
            };
            notes.push(note);
        });
    }

    /// Advances the progress.
    fn advance(&self, names: u64, bytes: u64) {
        let names = self.names_done.fetch_add(names, Ordering::Relaxed) + names;
        let bytes = self.bytes_done.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        let names_total = self.tree.nodes().len() as u64;
        (self.progress)(Progress { names, names_total, bytes, bytes_total: self.bytes_total });
    }

    /// Makes or shares all directories, outermost first; returns which of them exist.
    fn make_directories(&self) -> Result<Vec<bool>> {
        let nodes = self.tree.nodes();
        let mut made = vec![false; nodes.len()];
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.kind == FileKind::Directory) {
            let parent = made.get(node.parent).copied().unwrap_or(false);
            let there = index == 0 || parent && self.make_directory(index)?;
            if let Some(made) = made.get_mut(index) {
                *made = there;
            }
            if there {
                self.report(|report| report.directories += 1);
            } else if !parent {
                self.note(List::Skipped, index, ABOVE_MISSING);
            }
        }
        Ok(made)
    }

    fn make_directory(&self, index: usize) -> Result<bool> {
        let Some(node) = self.tree.nodes().get(index) else { return Ok(false) };
        let parent = self.target.open_directory(&self.path(node.parent))?;
        match self.target.make_directory(parent.as_fd(), &node.name) {
            Ok(()) => Ok(true),
            Err(error) => self.fail(index, error).map(|()| false),
        }
    }

    /// Makes all nodes other than directories and hard links; returns which of them exist.
    fn make_files(&self, directory: usize, files: &[usize], buffer: &mut Vec<u8>) -> Result<Vec<usize>> {
        let opened = self.target.open_directory(&self.path(directory))?;
        let mut made = Vec::with_capacity(files.len());
        for index in files {
            let Some(node) = self.tree.nodes().get(*index) else { continue };
            let result = match node.kind {
                FileKind::Regular => self.make_file(opened.as_fd(), *index, node, buffer),
                FileKind::Symlink => self.make_symlink(opened.as_fd(), *index, node),
                _ => self.make_special(opened.as_fd(), *index, node),
            };
            match result {
                Ok(true) => made.push(*index),
                Ok(false) => {}
                Err(error) => self.fail(*index, error)?,
            }
            self.advance(1, if node.kind == FileKind::Regular { node.size } else { 0 });
        }
        Ok(made)
    }

    /// Makes the additional names of existing inodes.
    fn make_hard_links(&self, made: &[bool]) -> Result<()> {
        let nodes = self.tree.nodes();
        for (index, node) in nodes.iter().enumerate() {
            let Some(first) = node.hard_link_of else { continue };
            self.advance(1, 0);
            let there = |node: usize| made.get(node).copied().unwrap_or(false);
            if !there(first) || !there(node.parent) {
                let reason =
                    if there(first) { ABOVE_MISSING } else { "the inode that it is a name of could not be made" };
                self.note(List::Skipped, index, reason);
                continue;
            }
            let Some(other) = nodes.get(first) else { continue };
            let from = self.target.open_directory(&self.path(other.parent))?;
            let to = self.target.open_directory(&self.path(node.parent))?;
            match self.target.link((from.as_fd(), &other.name), (to.as_fd(), &node.name)) {
                Ok(()) => self.report(|report| report.hard_links += 1),
                Err(error) => self.fail(index, error)?,
            }
        }
        Ok(())
    }

    /// Sets the attributes of directories, innermost first.
    fn finish_directories(&self, made: &[bool]) -> Result<()> {
        for (index, node) in self.tree.nodes().iter().enumerate().rev() {
            if node.kind == FileKind::Directory && made.get(index).copied().unwrap_or(false) {
                let opened = self.target.open_directory(&self.path(index))?;
                self.set_attributes_of(opened.as_fd(), index, node)?;
                self.advance(1, 0);
            }
        }
        Ok(())
    }
}
