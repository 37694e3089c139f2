//! Places rescued files in the tree, by directory entries or else by what inodes record.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::BlockDevice;
use nandkit_vfs::FileKind;

use super::doubt::Doubt;
use super::inode::{LOST_AND_FOUND, RescuedInode, missing_directory};
use super::scan::Scan;
use super::view::View;
use crate::ids::NodeId;
use crate::layout::dentry::Entry;

/// A directory's number and a name in it.
type Name = (u64, Vec<u8>);

/// The names of all inodes while they are collected.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Directory entries by inode.
    listed: BTreeMap<NodeId, Vec<Name>>,
    /// Directories whose pages could all be read.
    whole: BTreeSet<NodeId>,
    /// Names in use.
    taken: BTreeMap<Name, u64>,
    /// Invented directories that contain something.
    made: BTreeSet<u64>,
}

impl Names {
    /// Reads a directory's entries. Returns how many of its pages are lost.
    pub fn list<D: BlockDevice>(
        &mut self,
        scan: &Scan<D>,
        directory: NodeId,
        inodes: &BTreeMap<NodeId, RescuedInode>,
    ) -> u64 {
        let view = View::new(scan, directory);
        let Ok(inode) = view.inode() else { return 0 };
        // Encrypted names cannot be used.
        let is_encrypted = inode.is_encrypted();
        let mut take = |entry: &Entry<'_>| {
            if entry.is_dots() || is_encrypted || !is_name(entry.name) || !inodes.contains_key(&entry.ino()) {
                return;
            }
            let name = (u64::from(directory.0), entry.name.to_vec());
            self.listed.entry(entry.ino()).or_default().push(name);
        };
        let lost = view.each_entry(&inode, &mut take);
        if lost == 0 {
            self.whole.insert(directory);
        }
        lost
    }

    /// Whether a directory lists an inode.
    pub fn is_listed(&self, nid: NodeId) -> bool {
        self.listed.contains_key(&nid)
    }

    /// Gives each inode its names and notes the doubts about them.
    pub fn give(&mut self, inodes: &mut BTreeMap<NodeId, RescuedInode>) {
        let all: Vec<NodeId> = inodes.keys().copied().filter(|nid| *nid != NodeId::ROOT).collect();
        let (listed, others): (Vec<NodeId>, Vec<NodeId>) = all.into_iter().partition(|nid| self.is_listed(*nid));
        for nid in listed {
            let mut names = self.listed.get(&nid).cloned().unwrap_or_default();
            let Some(inode) = inodes.get(&nid) else { continue };
            if inode.kind == FileKind::Directory {
                // A directory has one name: if several are listed, the one recorded in its inode.
                let own = (u64::from(inode.parent.0), inode.name.clone());
                names.sort_by_key(|name| *name != own);
                names.truncate(1);
            }
            for name in names {
                self.taken.entry(name).or_insert(u64::from(nid.0));
            }
        }
        let mut doubts = Vec::new();
        for nid in others {
            let Some(inode) = inodes.get(&nid) else { continue };
            doubts.push((nid, self.give_own_name(nid, inode, inodes)));
        }
        self.cut_circles(inodes, &mut doubts);
        for (nid, doubt) in doubts {
            if let Some(inode) = inodes.get_mut(&nid) {
                inode.doubt(doubt);
            }
        }
    }

    /// Places an unlisted inode where its own record says.
    fn give_own_name(&mut self, nid: NodeId, inode: &RescuedInode, inodes: &BTreeMap<NodeId, RescuedInode>) -> Doubt {
        let number = u64::from(nid.0);
        if !is_name(&inode.name) || inode.has_hidden_name {
            self.put_nameless(number);
            return Doubt::Unnamed;
        }
        let is_directory = |parent: &RescuedInode| parent.kind == FileKind::Directory;
        let there = inode.parent != nid && inodes.get(&inode.parent).is_some_and(is_directory);
        let (parent, doubt) = match there {
            true if self.whole.contains(&inode.parent) => (u64::from(inode.parent.0), Doubt::Unlisted),
            true => (u64::from(inode.parent.0), Doubt::OwnName),
            false => (missing_directory(inode.parent), Doubt::OwnName),
        };
        if !there {
            self.made.insert(parent);
        }
        let mut name = inode.name.clone();
        if self.taken.contains_key(&(parent, name.clone())) {
            // Names have at most 255 bytes: the number replaces the end.
            let more = format!(" (inode {number})").into_bytes();
            name.truncate(crate::layout::NAME_MAX - more.len());
            name.extend(more);
        }
        self.taken.entry((parent, name)).or_insert(number);
        doubt
    }

    fn put_nameless(&mut self, number: u64) {
        self.taken.insert((LOST_AND_FOUND, format!("inode {number}").into_bytes()), number);
    }

    /// Moves directories that form a cycle without a root to the nameless ones.
    fn cut_circles(&mut self, inodes: &BTreeMap<NodeId, RescuedInode>, doubts: &mut Vec<(NodeId, Doubt)>) {
        let root = u64::from(NodeId::ROOT.0);
        let mut above: BTreeMap<u64, Name> = BTreeMap::new();
        for ((parent, name), child) in &self.taken {
            let is_directory =
                |nid: u32| inodes.get(&NodeId(nid)).is_some_and(|found| found.kind == FileKind::Directory);
            if u32::try_from(*child).is_ok_and(is_directory) {
                above.insert(*child, (*parent, name.clone()));
            }
        }
        let mut safe: BTreeSet<u64> = BTreeSet::from([root]);
        let directories: Vec<u64> = above.keys().copied().collect();
        for directory in directories {
            let (mut at, mut way) = (directory, BTreeSet::new());
            while !safe.contains(&at) {
                if !way.insert(at) {
                    // The path returned to this directory.
                    if let Some(name) = above.remove(&at) {
                        self.taken.remove(&name);
                        self.put_nameless(at);
                        doubts.extend(u32::try_from(at).map(|nid| (NodeId(nid), Doubt::Unnamed)));
                    }
                    break;
                }
                match above.get(&at) {
                    Some((parent, _)) => at = *parent,
                    None => break,
                }
            }
            safe.extend(way);
        }
    }

    /// The content of each directory by number, including invented ones. Nothing is below a
    /// non-directory.
    pub fn into_directories(self, found_name: &[u8]) -> BTreeMap<u64, BTreeMap<Vec<u8>, u64>> {
        let root = u64::from(NodeId::ROOT.0);
        let mut directories: BTreeMap<u64, BTreeMap<Vec<u8>, u64>> = BTreeMap::from([(root, BTreeMap::new())]);
        for ((parent, name), child) in self.taken {
            directories.entry(parent).or_default().insert(name, child);
        }
        for made in self.made {
            let name = format!("directory {}", made & u64::from(u32::MAX)).into_bytes();
            directories.entry(LOST_AND_FOUND).or_default().insert(name, made);
        }
        if directories.contains_key(&LOST_AND_FOUND) {
            directories.entry(root).or_default().insert(found_name.to_vec(), LOST_AND_FOUND);
        }
        directories
    }
}

/// Whether a directory may contain this name.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}
