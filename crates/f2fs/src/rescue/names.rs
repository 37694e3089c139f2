//! Where rescued files stand in the tree: by what directories list, else by what inodes know of
//! themselves.

use std::collections::{BTreeMap, BTreeSet};

use nandkit_block::BlockDevice;
use nandkit_vfs::FileKind;

use super::doubt::Doubt;
use super::inode::{LOST_AND_FOUND, RescuedInode, missing_directory};
use super::scan::Scan;
use super::view::View;
use crate::ids::NodeId;
use crate::layout::dentry::Entry;

/// A name in a directory.
type Name = (u64, Vec<u8>);

/// The names of all inodes while they are gathered.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// What directories list, by inode.
    listed: BTreeMap<NodeId, Vec<Name>>,
    /// Directories of which all pages could be read.
    whole: BTreeSet<NodeId>,
    /// Names that are taken.
    taken: BTreeMap<Name, u64>,
    /// Made-up directories in which something stands.
    made: BTreeSet<u64>,
}

impl Names {
    /// Reads what a directory lists. Returns how many of its pages are lost.
    pub fn list<D: BlockDevice>(
        &mut self,
        scan: &Scan<D>,
        directory: NodeId,
        inodes: &BTreeMap<NodeId, RescuedInode>,
    ) -> u64 {
        let view = View::new(scan, directory);
        let Ok(inode) = view.inode() else { return 0 };
        // A name of ciphertext is none.
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

    /// Gives each inode its names, and says what speaks against them.
    pub fn give(&mut self, inodes: &mut BTreeMap<NodeId, RescuedInode>) {
        let all: Vec<NodeId> = inodes.keys().copied().filter(|nid| *nid != NodeId::ROOT).collect();
        let (listed, others): (Vec<NodeId>, Vec<NodeId>) = all.into_iter().partition(|nid| self.is_listed(*nid));
        for nid in listed {
            let mut names = self.listed.get(&nid).cloned().unwrap_or_default();
            let Some(inode) = inodes.get(&nid) else { continue };
            if inode.kind == FileKind::Directory {
                // A directory has one name: the one that it knows itself, where there are several.
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

    /// Puts an inode that no directory lists where it says that it was made.
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
            // Names have 255 bytes at most: the number takes the place of the end.
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

    /// Puts directories that lie within each other, and lead to no root, among the nameless ones.
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
                    // The way came back to here.
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

    /// What each directory holds, by number; made-up directories among them. Nothing stands below
    /// what is no directory.
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

/// Whether a directory may hold a name.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}
