//! Finding the path of an inode.

use std::collections::BTreeMap;

use nandkit_vfs::path::{PATH_BYTES_EACH, PathBudget};

use crate::Ino;
use crate::inode::Inodes;
use crate::layout::ROOT;

/// Directories deeper than this have no path.
const DEPTH_MAX: usize = nandkit_vfs::path::DEPTH_MAX;

/// One name for each inode.
pub(crate) struct Paths<'a> {
    names: BTreeMap<Ino, (Ino, &'a [u8])>,
}

impl<'a> Paths<'a> {
    /// Collects the names of all directories. Cost: a pass over all names.
    pub(crate) fn of(inodes: &'a Inodes) -> Self {
        let mut names: BTreeMap<Ino, (Ino, &[u8])> = BTreeMap::new();
        for (parent, inode) in inodes {
            for (name, entry) in
                inode.entries.iter().flat_map(|entries| entries.iter()).filter(|(_, entry)| entry.inode != Ino::NONE)
            {
                // A directory with two names gets the one by which it was reached first.
                let is_first =
                    inodes.get(&entry.inode).is_some_and(|child| child.entries.is_some() && child.parent == *parent);
                let known = names.entry(entry.inode).or_insert((*parent, name));
                if is_first {
                    *known = (*parent, name);
                }
            }
        }
        Self { names }
    }

    /// The path from the root; `None` if no chain of names leads up to it. Cost: its components.
    pub(crate) fn path(&self, inode: Ino) -> Option<Vec<u8>> {
        self.up(inode, u64::MAX).map(|parts| joined(&parts))
    }

    /// Like [`Paths::path`], for one of many: small images can have very many very long paths. If
    /// the budget is exhausted, returns the last components after `/...`. Cost: the components that
    /// fit.
    pub(crate) fn path_within(&self, inode: Ino, budget: &mut PathBudget) -> Option<Vec<u8>> {
        let Some(mut parts) = self.up(inode, budget.longest()) else {
            // Limits the work of failed walks too.
            budget.take(2 * DEPTH_MAX as u64 + PATH_BYTES_EACH);
            return None;
        };
        let length = length(&parts);
        if budget.take(length) {
            return Some(joined(&parts));
        }
        let mut rest = length;
        while rest > PATH_BYTES_EACH
            && let Some(part) = parts.pop()
        {
            rest -= part.len() as u64 + 1;
        }
        parts.push(b"...");
        Some(joined(&parts))
    }

    /// The names from an inode up to the root, or until they exceed `bytes_max`.
    fn up(&self, inode: Ino, bytes_max: u64) -> Option<Vec<&'a [u8]>> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let (mut at, mut bytes) = (inode, 0);
        while at != ROOT && bytes <= bytes_max {
            let (parent, name) = self.names.get(&at)?;
            parts.push(*name);
            bytes += name.len() as u64 + 1;
            if parts.len() > DEPTH_MAX {
                return None;
            }
            at = *parent;
        }
        Some(parts)
    }
}

/// Length of a path of these components, each with a leading `/`, in bytes.
fn length(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| part.len() as u64 + 1).sum()
}

/// Joins components, given from last to first, to a path.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    if parts.is_empty() {
        return b"/".to_vec();
    }
    let mut path = Vec::with_capacity(length(parts) as usize);
    for part in parts.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    path
}
