//! Changes by path to a mounted file system, in the manner of shell commands: put, remove, move,
//! link, modes, owners, extended attributes.
//!
//! This module knows nothing about the kind of file system. Each change is recorded as an [`Edit`],
//! so that it can be reported afterwards, or in advance when made on a copy.

mod mode;
mod put;

use std::collections::BTreeSet;

pub use mode::ModeChange;
pub use put::{HostFile, host_file};

use nandkit_vfs::path::{Follow, Next, Step, make_directories, remove_tree, resolve, resolve_parent, walk};
use nandkit_vfs::{
    AttributeChange, Attributes, Changes, ErrorKind, FileKind, FsError, InodeNumber, NewNode, RenameFlags,
};

use crate::{Note, Result, TreeError};

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The kind of change, as a verb: `create`, `replace`, `write`, `remove`, `move`, `link`,
    /// `mode`, `owner`, `attribute`.
    pub action: &'static str,
    /// The changed path, without a leading `/`.
    pub path: Vec<u8>,
    /// The new value, or the source; may be empty.
    pub detail: String,
}

/// A new owner, a new group, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerChange {
    /// The owner's number.
    pub uid: Option<u32>,
    /// The group's number.
    pub gid: Option<u32>,
}

/// Makes changes to a file system. Paths are bytes with components separated by `/`, starting at
/// the root; symbolic links on the way are followed. After an error, earlier changes stay.
pub struct Editor<'a> {
    fs: &'a mut dyn Changes,
    edits: Vec<Edit>,
    skipped: Vec<Note>,
    /// Total bytes of files to be stored, as far as their lengths are known in advance.
    wanted: u64,
    /// Bytes of files that were stored or attempted.
    bytes: u64,
}

impl std::fmt::Debug for Editor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Editor").field("edits", &self.edits).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<'a> Editor<'a> {
    /// An editor without changes.
    pub fn new(fs: &'a mut dyn Changes) -> Self {
        Self { fs, edits: Vec::new(), skipped: Vec::new(), wanted: 0, bytes: 0 }
    }

    /// The file system.
    pub fn fs(&self) -> &dyn Changes {
        self.fs
    }

    /// The changes made, in order.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Changes that were skipped because the format cannot store them.
    pub fn skipped(&self) -> &[Note] {
        &self.skipped
    }

    /// Bytes of file content to be stored, before any compression.
    pub fn bytes(&self) -> u64 {
        self.wanted.max(self.bytes)
    }

    fn edit(&mut self, action: &'static str, path: &[u8], detail: impl Into<String>) {
        self.edits.push(Edit { action, path: clean(path), detail: detail.into() });
    }

    fn resolve(&self, path: &[u8], follow: Follow) -> Result<InodeNumber> {
        resolve(self.fs, path, follow).map_err(at(path))
    }

    fn stat(&self, path: &[u8], inode: InodeNumber) -> Result<Attributes> {
        self.fs.stat(inode).map_err(at(path))
    }

    /// Whether a path leads to a directory, following symbolic links.
    pub fn is_directory(&self, path: &[u8]) -> bool {
        let found = resolve(self.fs, path, Follow::Last).and_then(|inode| self.fs.stat(inode));
        found.is_ok_and(|found| found.kind == FileKind::Directory)
    }

    /// The target path for `name` at `path`: inside it if it is a directory.
    fn destination(&self, path: &[u8], name: &[u8]) -> Vec<u8> {
        if self.is_directory(path) { join(path, name) } else { path.to_vec() }
    }

    /// Makes a directory. With `parents`, also makes missing parents, and an existing directory is
    /// no error. Errors: those of `create`.
    pub fn make_directory(&mut self, path: &[u8], mode: u16, parents: bool) -> Result<()> {
        if parents && self.is_directory(path) {
            return Ok(());
        }
        let trimmed = clean(path);
        let above = trimmed.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        if parents && above > 0 {
            make_directories(self.fs, trimmed.get(..above).unwrap_or_default(), &NewNode::DIRECTORY)
                .map_err(at(path))?;
        }
        let (directory, name) = resolve_parent(self.fs, path).map_err(at(path))?;
        self.fs.create(directory, name, &NewNode { mode, ..NewNode::DIRECTORY }).map_err(at(path))?;
        self.edit("create", path, "directory");
        Ok(())
    }

    /// Removes a name; with `recursive` also a directory and everything below it. With `force`, a
    /// missing name is no error. Errors: `IsADirectory`, `NotFound`.
    pub fn remove(&mut self, path: &[u8], recursive: bool, force: bool) -> Result<()> {
        let found = resolve_parent(self.fs, path).and_then(|(directory, name)| {
            let inode = self.fs.lookup(directory, name)?;
            Ok((directory, name, self.fs.stat(inode)?))
        });
        let (directory, name, attributes) = match found {
            Err(error) if force && error.kind == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(at(path))?,
        };
        // rm(1) resolves a link name with a trailing slash to its target, and refuses both.
        if attributes.kind != FileKind::Directory && path.ends_with(b"/") {
            let detail =
                "cannot remove: Not a directory, which a slash at the end asks for; expected the name without it";
            return Err(TreeError::node(&clean(path), FsError::new(ErrorKind::NotADirectory, detail)));
        }
        if attributes.kind == FileKind::Directory && !recursive {
            let error = FsError::new(
                ErrorKind::IsADirectory,
                "this is a directory; expected -r to take it away with all below it",
            );
            return Err(TreeError::node(&clean(path), error));
        }
        remove_tree(self.fs, directory, name).map_err(at(path))?;
        self.edit(
            "remove",
            path,
            if attributes.kind == FileKind::Directory { "directory, with all below it" } else { "" },
        );
        Ok(())
    }

    /// Moves something to another path, or into `to` if that is a directory. An existing target is
    /// replaced as in rename(2), or refused with `keep`. Errors: those of `rename`.
    pub fn rename(&mut self, from: &[u8], to: &[u8], keep: bool) -> Result<()> {
        let (from_directory, from_name) = resolve_parent(self.fs, from).map_err(at(from))?;
        let target = self.destination(to, from_name);
        let (to_directory, to_name) = resolve_parent(self.fs, &target).map_err(at(&target))?;
        let flags = if keep { RenameFlags::NoReplace } else { RenameFlags::Replace };
        let existed = self.fs.lookup(to_directory, to_name).is_ok();
        self.fs.rename((from_directory, from_name), (to_directory, to_name), flags).map_err(at(from))?;
        let what = if existed { ", which is replaced" } else { "" };
        self.edit("move", from, format!("to {}{what}", crate::show(&clean(&target))));
        Ok(())
    }

    /// Gives an inode one more name. Errors: `NotSupported`, `Exists`, `IsADirectory`.
    pub fn link(&mut self, existing: &[u8], path: &[u8], replace: bool) -> Result<()> {
        let (_, name) = resolve_parent(self.fs, existing).map_err(at(existing))?;
        let path = self.destination(path, name);
        let inode = self.resolve(existing, Follow::Never)?;
        let (directory, name) = self.make_way(&path, replace, Some(inode))?;
        let links = self.fs.links().ok_or_else(|| {
            TreeError::node(
                &clean(&path),
                FsError::new(ErrorKind::NotSupported, "this file system holds no hard links"),
            )
        })?;
        links.link(inode, directory, &name).map_err(at(&path))?;
        self.edit("link", &path, format!("another name of {}", crate::show(&clean(existing))));
        Ok(())
    }

    /// Makes a symbolic link. Errors: those of `create`.
    pub fn symlink(&mut self, target: &[u8], path: &[u8], replace: bool) -> Result<()> {
        let name = target.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()).unwrap_or(target);
        let path = self.destination(path, name);
        let (directory, name) = self.make_way(&path, replace, None)?;
        let node = NewNode { kind: FileKind::Symlink, mode: 0o777, target, ..NewNode::FILE };
        self.fs.create(directory, &name, &node).map_err(at(&path))?;
        self.edit("create", &path, format!("link to {}", crate::error::escaped(target)));
        Ok(())
    }

    /// The directory and name for a path to be made; with `replace` removes an existing entry,
    /// unless it is a directory or `same`.
    fn make_way(&mut self, path: &[u8], replace: bool, same: Option<InodeNumber>) -> Result<(InodeNumber, Vec<u8>)> {
        let (directory, name) = resolve_parent(self.fs, path).map_err(at(path))?;
        let name = name.to_vec();
        if let (true, Ok(old)) = (replace, self.fs.lookup(directory, &name))
            && same != Some(old)
            && self.stat(path, old)?.kind != FileKind::Directory
        {
            self.fs.remove(directory, &name).map_err(at(path))?;
        }
        Ok((directory, name))
    }

    /// The inodes affected by a change at a path, each once: the inode of the path, and with
    /// `recursive` everything below; symbolic links are not followed.
    fn concerned(&self, path: &[u8], recursive: bool) -> Result<Vec<(Vec<u8>, Attributes)>> {
        let start = self.resolve(path, Follow::Last)?;
        let mut found = vec![(clean(path), self.stat(path, start)?)];
        if recursive && found.iter().all(|(_, top)| top.kind == FileKind::Directory) {
            let mut seen = BTreeSet::new();
            let walked = walk(self.fs, start, &mut |step| match step {
                Step::Entry { path: below, attributes } => {
                    if seen.insert(attributes.inode) {
                        found.push((join(path, below), *attributes));
                    }
                    Ok(Next::Enter)
                }
                Step::Leave { .. } => Ok(Next::Enter),
                Step::Problem { path, error } => {
                    Err(FsError::new(error.kind, format!("{}: {}", crate::show(path), error.detail)))
                }
            });
            walked.map_err(at(path))?;
        }
        Ok(found)
    }

    /// Changes permission bits; those of symbolic links stay, as in Linux.
    pub fn change_mode(&mut self, path: &[u8], change: &ModeChange, recursive: bool) -> Result<()> {
        for (path, before) in self.concerned(path, recursive)? {
            let mode = change.apply(before.mode, before.kind);
            if mode == before.mode || before.kind == FileKind::Symlink {
                continue;
            }
            let change = AttributeChange { mode: Some(mode), ..AttributeChange::default() };
            let now = self.fs.set_attributes(before.inode, &change).map_err(at(&path))?.mode;
            if now != mode {
                // Linux returns the same for chmod(2) on such a format.
                let detail = format!("this format does not hold the mode {mode:04o}; it would be {now:04o}");
                return Err(TreeError::node(&path, FsError::new(ErrorKind::NotSupported, detail)));
            }
            self.edit("mode", &path, format!("{mode:04o}"));
        }
        Ok(())
    }

    /// Changes owners; the mode stays. Errors: `NotSupported` for a number that the format cannot
    /// store.
    pub fn change_owner(&mut self, path: &[u8], change: OwnerChange, recursive: bool) -> Result<()> {
        for (path, before) in self.concerned(path, recursive)? {
            let (uid, gid) = (change.uid.unwrap_or(before.uid), change.gid.unwrap_or(before.gid));
            if (uid, gid) == (before.uid, before.gid) {
                continue;
            }
            self.check_owner(&path, uid, gid)?;
            if !self.fs.volume().map_err(at(&path))?.features.owners {
                let error = FsError::new(ErrorKind::NotSupported, "this format holds no owners");
                return Err(TreeError::node(&path, error));
            }
            let change = AttributeChange { uid: Some(uid), gid: Some(gid), ..AttributeChange::default() };
            self.fs.set_attributes(before.inode, &change).map_err(at(&path))?;
            self.edit("owner", &path, format!("{uid}:{gid}"));
        }
        Ok(())
    }

    fn check_owner(&self, path: &[u8], uid: u32, gid: u32) -> Result<()> {
        let features = self.fs.volume().map_err(at(path))?.features;
        let wrong = |detail: String| Err(TreeError::node(&clean(path), FsError::new(ErrorKind::NotSupported, detail)));
        match [uid, gid].into_iter().find(|number| *number > features.owner_max) {
            Some(number) if features.owners => {
                wrong(format!("the owner or group is {number}; this format holds numbers up to {}", features.owner_max))
            }
            _ => Ok(()),
        }
    }

    /// Sets an extended attribute, or removes it with `None`. Errors: those of
    /// [`nandkit_vfs::XattrChanges`].
    pub fn change_xattr(&mut self, path: &[u8], name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let inode = self.resolve(path, Follow::Last)?;
        let missing = || FsError::new(ErrorKind::NotSupported, "this file system holds no extended attributes");
        let changes = self.fs.xattr_changes().ok_or_else(|| TreeError::node(&clean(path), missing()))?;
        let told = crate::error::escaped(name);
        match value {
            Some(value) => {
                changes.set_xattr(inode, name, value).map_err(at(path))?;
                self.edit("attribute", path, format!("{told}, {} bytes", value.len()));
            }
            None => {
                changes.remove_xattr(inode, name).map_err(at(path))?;
                self.edit("attribute", path, format!("{told} is removed"));
            }
        }
        Ok(())
    }
}

/// Adds a path to an error.
fn at(path: &[u8]) -> impl FnOnce(FsError) -> TreeError + use<> {
    let path = clean(path);
    move |error| TreeError::node(&path, error)
}

/// A path's components joined by single `/`; empty for the root.
fn clean(path: &[u8]) -> Vec<u8> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    names.join(&b'/')
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = clean(path);
    if !joined.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}
