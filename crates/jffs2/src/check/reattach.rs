//! Reattaching intact inodes without a name, in `lost+found` (like e2fsck(8)).

use std::collections::{BTreeMap, BTreeSet};

use nandkit_flash::Flash;
use nandkit_vfs::Result;

use super::plan::{Attached, Made, RepairPlan, Whole};
use crate::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use crate::inode::Entries;
use crate::inode::Stray;
use crate::layout::ROOT;
use crate::layout::format;
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};
use nandkit_vfs::FileKind;

/// The directory's name.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// A name that does not exist otherwise, for recording that something was deleted.
const DELETED: &[u8] = b".nandkit-deleted";

/// The directory for reattached inodes.
struct LostAndFound<'a> {
    inode: Ino,
    name: Vec<u8>,
    /// The version of its newest entry.
    version: u32,
    /// Its current entries.
    entries: Option<&'a Entries>,
    /// Whether it must be made.
    is_new: bool,
}

impl<F: Flash> Jffs2<F> {
    /// Plans names for the inodes that have lost theirs, if anything intact is left of them: `#N`
    /// for inode N, `dir-N` for a directory whose own node is lost too and is made again. Errors:
    /// `Device`.
    pub(super) fn reattach(&self, whole: &Whole, plan: &mut RepairPlan) -> Result<()> {
        let own: BTreeSet<Ino> = whole.inodes.iter().map(|(_, _, inode)| *inode).collect();
        let held: BTreeSet<Ino> =
            whole.names.iter().filter(|(name, _)| name.inode != Ino::NONE).map(|(name, _)| name.parent).collect();
        let is_left = |stray: &&Stray| match stray.mode {
            Some(mode) => own.contains(&stray.inode) && FileKind::of_mode(mode).is_some(),
            None => held.contains(&stray.inode),
        };
        let mut left: Vec<Stray> = self.strays.iter().filter(is_left).copied().collect();
        // Inodes that had a name until now, but an impossible one.
        let named: BTreeSet<Ino> = whole.names.iter().map(|(name, _)| name.inode).collect();
        let mut nodes = whole.inodes.iter().rev().map(|(at, _, inode)| (*inode, *at)).collect::<BTreeMap<_, _>>();
        for (number, _) in self.inodes.iter().filter(|(number, inode)| inode.links > 0 && **number != ROOT) {
            let mode = self.body(*number)?.mode;
            if let Some(at) =
                nodes.remove(number).filter(|_| !named.contains(number) && FileKind::of_mode(mode).is_some())
            {
                left.push(Stray { inode: *number, at, mode: Some(mode) });
            }
        }
        self.keep_word(whole, plan);
        let Some(first) = left.first() else { return Ok(()) };
        let order = self.medium.order();
        let made = self.body(ROOT)?.modified;
        let directory = |inode: Ino, version: u32, mode: u32| {
            let times = InodeFields { accessed: made, modified: made, changed: made, ..InodeFields::default() };
            let mut bytes = Vec::new();
            let fields = InodeFields { inode, version, mode: format::DIRECTORY | mode, ..times };
            inode_node(order, &fields, &Piece::NOTHING, &mut bytes);
            bytes
        };
        let entry = |parent: Ino, version: u32, inode: Ino, mode: u32, name: &[u8]| {
            let mut bytes = Vec::new();
            let fields = DirentFields { parent, version, inode, made, kind: (mode >> 12 & 0xF) as u8 };
            dirent_node(order, &fields, name, &mut bytes);
            bytes
        };
        let highest = |inode: Ino| self.inodes.get(&inode).map_or(0, |inode| inode.highest_version);
        let mut target = self.lost_and_found()?;
        let mut add = |at: NodeAddress, bytes: Vec<u8>| plan.made.push(Made { at, bytes });
        if target.is_new {
            add(first.at, directory(target.inode, 1, 0o700));
            // One more than the version of the record of deletions.
            let version = highest(ROOT).saturating_add(2);
            add(first.at, entry(ROOT, version, target.inode, format::DIRECTORY, &target.name));
        }
        for stray in left {
            let (prefix, mode) = stray.mode.map_or(("dir-", format::DIRECTORY), |mode| ("#", mode));
            if stray.mode.is_none() {
                add(stray.at, directory(stray.inode, highest(stray.inode).saturating_add(1), 0o755));
            }
            let name = free_name(format!("{prefix}{}", stray.inode).as_bytes(), |name| {
                target.entries.is_none_or(|entries| entries.get(name).is_none())
            });
            target.version = target.version.saturating_add(1);
            add(stray.at, entry(target.inode, target.version, stray.inode, mode, &name));
            let path = [&b"/"[..], &target.name, b"/", &name].concat();
            plan.attached.push(Attached { at: stray.at, inode: stray.inode, path });
        }
        Ok(())
    }

    /// Nodes marked in place are not kept. If only these prove that something was deleted, adds an
    /// entry that records it; otherwise remains of deleted files would count as lost.
    fn keep_word(&self, whole: &Whole, plan: &mut RepairPlan) {
        let dead = |inode: &Ino| self.inodes.get(inode).is_some_and(|inode| inode.links == 0);
        let left = whole.inodes.iter().find(|(_, _, inode)| dead(inode)).map(|(at, _, _)| *at);
        let told = whole.names.iter().any(|(name, _)| name.inode == Ino::NONE);
        if let Some(at) = left.filter(|_| self.may_lack_deleted && !told) {
            let version = self.inodes.get(&ROOT).map_or(0, |root| root.highest_version).saturating_add(1);
            let fields = DirentFields { parent: ROOT, version, inode: Ino::NONE, made: 0, kind: 0 };
            let mut bytes = Vec::new();
            dirent_node(self.medium.order(), &fields, DELETED, &mut bytes);
            plan.made.push(Made { at, bytes });
        }
    }

    /// The directory with that name in the root, or a new one; under another name if this one is
    /// taken by something else. Errors: `Device`.
    fn lost_and_found(&self) -> Result<LostAndFound<'_>> {
        let entries = self.inodes.get(&ROOT).and_then(|root| root.entries.as_deref());
        if let Some(inode) = entries.and_then(|entries| entries.inode(LOST_AND_FOUND))
            && let Some(found) = self.inodes.get(&inode)
            && self.body(inode)?.format() == format::DIRECTORY
        {
            let (name, version) = (LOST_AND_FOUND.to_vec(), found.highest_version);
            return Ok(LostAndFound { inode, name, version, entries: found.entries.as_deref(), is_new: false });
        }
        let name = free_name(LOST_AND_FOUND, |name| entries.is_none_or(|entries| entries.get(name).is_none()));
        let unused = || (ROOT.0 + 1..).map(Ino).find(|number| !self.inodes.contains_key(number));
        let inode = self.highest_inode.next().or_else(unused).unwrap_or(Ino(u32::MAX));
        Ok(LostAndFound { inode, name, version: 0, entries: None, is_new: true })
    }
}

/// The name, with a number appended if necessary to make it unique.
fn free_name(name: &[u8], is_free: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let numbered = |number: u32| [name, format!(".{number}").as_bytes()].concat();
    let mut names = std::iter::once(name.to_vec()).chain((1..).map(numbered));
    names.find(|name| is_free(name)).unwrap_or_else(|| name.to_vec())
}
