//! From an inode to its path.

use std::collections::BTreeMap;

use crate::inode::Inodes;
use crate::layout::ROOT;

/// Directories deeper than this have no path.
const DEPTH_MAX: usize = 4096;

/// One name of each inode.
pub(crate) struct Paths<'a> {
    names: BTreeMap<u32, (u32, &'a [u8])>,
}

impl<'a> Paths<'a> {
    /// From all directories. Cost: a pass over all names.
    pub(crate) fn of(inodes: &'a Inodes) -> Self {
        let mut names: BTreeMap<u32, (u32, &[u8])> = BTreeMap::new();
        for (parent, inode) in inodes {
            for (name, entry) in
                inode.entries.iter().flat_map(|entries| entries.iter()).filter(|(_, entry)| entry.inode != 0)
            {
                // Of a directory with two names the one by which it was reached first.
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

    /// The path from the root; `None` where no way leads up.
    pub(crate) fn path(&self, inode: u32) -> Option<Vec<u8>> {
        let mut parts = Vec::new();
        let mut at = inode;
        while at != ROOT {
            let (parent, name) = self.names.get(&at)?;
            parts.push(*name);
            if parts.len() > DEPTH_MAX {
                return None;
            }
            at = *parent;
        }
        if parts.is_empty() {
            return Some(b"/".to_vec());
        }
        Some(parts.iter().rev().flat_map(|part| [&b"/"[..], part].concat()).collect())
    }
}
