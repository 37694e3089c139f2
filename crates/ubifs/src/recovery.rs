//! Recovery of a volume that was not unmounted, in memory: files without a name that were open, and
//! sizes of files whose data reached the flash before their inodes (facts: Linux
//! `fs/ubifs/recovery.c`, `ubifs_recover_size`, and `orphan.c`, `kill_orphans`).

use std::collections::BTreeMap;

use nandkit_vfs::Result;

use crate::layout::{Dentry, INODE_XATTR, Inode, Key, LOG_LEB, ORPHANS_LAST, Orphans, Superblock, node_type};
use crate::lebs::Lebs;
use crate::node::{self, Place};
use crate::tree::Tree;
use crate::walk::nodes_of;

/// What the journal shows of the size of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// The size in the newest inode of the journal.
    inode_size: Option<u64>,
    /// The end of the data in the journal.
    data_end: u64,
}

/// What the journal shows of the sizes of files. Inodes and data go through different heads of the
/// journal, so that a power cut may leave data whose inode still has the size before.
#[derive(Debug, Default)]
pub(crate) struct Sizes(BTreeMap<u32, Extent>);

impl Sizes {
    /// Counts an inode.
    pub fn inode(&mut self, inode: u32, size: u64) {
        self.0.entry(inode).or_default().inode_size = Some(size);
    }

    /// Counts the end of a file.
    pub fn deletion(&mut self, inode: u32) {
        self.0.remove(&inode);
    }

    /// Counts data of a file that end at `end`.
    pub fn data(&mut self, inode: u32, end: u64) {
        let extent = self.0.entry(inode).or_default();
        extent.data_end = extent.data_end.max(end);
    }

    /// Counts a truncation.
    pub fn truncation(&mut self, inode: u32, new_size: u64) {
        if let Some(extent) = self.0.get_mut(&inode) {
            extent.data_end = new_size;
        }
    }

    /// The sizes of the files that have data behind the size in their inode. Data without an inode
    /// are removed from the index.
    pub fn recover(&mut self, lebs: &dyn Lebs, tree: &mut Tree) -> BTreeMap<u32, u64> {
        let mut sizes = BTreeMap::new();
        for (inode, extent) in std::mem::take(&mut self.0) {
            let Some(place) = tree.first(Key::inode(inode)) else {
                remove_inode(lebs, tree, inode);
                continue;
            };
            let size = extent.inode_size.or_else(|| Some(inode_at(lebs, place)?.size.get()));
            if size.is_some_and(|size| size < extent.data_end) {
                sizes.insert(inode, extent.data_end);
            }
        }
        sizes
    }
}

/// Removes the inodes without links that the orphan area lists: files that were open at the end.
/// The inodes that were removed since the last commit are in the journal. Errors: `Device`. Cost: a
/// read per LEB of the orphan area.
pub(crate) fn remove_orphans(lebs: &dyn Lebs, superblock: &Superblock, tree: &mut Tree) -> Result<()> {
    let first = LOG_LEB.saturating_add(superblock.log_lebs.get()).saturating_add(superblock.lpt_lebs.get());
    let end = first.saturating_add(superblock.orphan_lebs.get()).min(lebs.leb_count());
    let mut last_of_commit = None;
    for leb in first..end {
        for (_, node) in nodes_of(lebs, leb, 0)?.list {
            let orphans = node.body::<Orphans>().filter(|_| node.node_type == node_type::ORPHANS);
            let Some((orphans, inodes)) = orphans else { continue };
            let commit = orphans.commit.get() & !ORPHANS_LAST;
            // What an earlier commit left in a LEB that was to be erased.
            if last_of_commit.is_some_and(|last| commit < last) {
                return Ok(());
            }
            last_of_commit = (orphans.commit.get() & ORPHANS_LAST != 0).then_some(commit);
            for bytes in inodes.as_chunks().0 {
                let Ok(inode) = u32::try_from(u64::from_le_bytes(*bytes)) else { continue };
                // A file made without a name may have got one since.
                let place = tree.first(Key::inode(inode));
                if place.and_then(|place| inode_at(lebs, place)).is_some_and(|inode| inode.links.get() == 0) {
                    remove_inode(lebs, tree, inode);
                }
            }
        }
    }
    Ok(())
}

/// Removes all that an inode has from the index, and the inodes of its extended attributes.
pub(crate) fn remove_inode(lebs: &dyn Lebs, tree: &mut Tree, inode: u32) {
    let all_of = |inode| Key::new(inode, 0)..=Key::new(inode, u32::MAX);
    let entries: Vec<(Key, Place)> = tree.range(Key::name(inode, 0, true)..=Key::name(inode, u32::MAX, true)).collect();
    for (key, place) in entries {
        let value = entry_at(lebs, key, place).and_then(|(entry, _)| u32::try_from(entry.inode.get()).ok());
        if let Some(value) = value.filter(|value| holds_attribute(lebs, tree, *value)) {
            tree.remove(all_of(value));
        }
    }
    tree.remove(all_of(inode));
}

/// Whether an inode is the value of an attribute: damage must not remove a file.
fn holds_attribute(lebs: &dyn Lebs, tree: &Tree, inode: u32) -> bool {
    let place = tree.first(Key::inode(inode));
    place.and_then(|place| inode_at(lebs, place)).is_some_and(|inode| inode.flags.get() & INODE_XATTR != 0)
}

fn inode_at(lebs: &dyn Lebs, place: Place) -> Option<Inode> {
    Some(node::read(lebs, place, node_type::INODE).ok()?.body::<Inode>()?.0)
}

/// The entry with this key at a place, and its name; `None` if something else is there.
pub(crate) fn entry_at(lebs: &dyn Lebs, key: Key, place: Place) -> Option<(Dentry, Vec<u8>)> {
    let read = |node_type| node::read(lebs, place, node_type).ok();
    let node = read(node_type::DENTRY).or_else(|| read(node_type::XENTRY))?;
    let (entry, rest) = node.body::<Dentry>()?;
    let name = rest.get(..entry.name_size.get().into())?.to_vec();
    (entry.key.key() == key).then_some((entry, name))
}
