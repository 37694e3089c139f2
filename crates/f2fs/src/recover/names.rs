//! Recovers the name of a file of the chain (recovery.c, `recover_dentry`).

use std::collections::BTreeSet;

use nandkit_block::BlockDevice;
use nandkit_vfs::{FileKind, Result};

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Defect, FindingKind};
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::inode::advise;
use crate::names::area::NewEntry;
use crate::names::rename::rename_unasked;
use crate::names::store::InodeStore;
use crate::names::{entries, links};
use crate::write::WritableVolume;

impl<D: BlockDevice> WritableVolume<D> {
    /// Enters the name recorded in an inode of the chain into its parent. A file of that name loses
    /// it first. A directory of that name that is not empty, or in which files of the chain are to
    /// be named (`named_in`), is renamed (Linux's recovery unlinks it with its content, and fails
    /// at those files). Errors: `Corrupt` (no such directory), `NotSupported` (an encrypted one),
    /// `NoSpace`, `Device`.
    pub(super) fn enter_name(&mut self, from: &Inode, named_in: &BTreeSet<NodeId>) -> Result<()> {
        let parent = NodeId(from.head.parent.get());
        let wrong = |detail: String| Err(Defect::new(FindingKind::State, detail).of(from.nid).into_error());
        let known = parent >= NodeId::ROOT && Blocks::geometry(self).nat_block(parent).is_some();
        if !known
            || self.entry(parent)?.is_free()
            || WritableVolume::inode_at(self, parent)?.kind != FileKind::Directory
        {
            return wrong(format!("an fsynced file is to be named in inode {}, which is not a directory", parent.0));
        }
        let directory = WritableVolume::inode_at(self, parent)?;
        let name = from.head.name().map(<[u8]>::to_vec).unwrap_or_default();
        entries::expect_plain(&directory)?;
        if from.head.has_advise(advise::ENCRYPTED_NAME) {
            return wrong("the name of an fsynced file is encrypted, but its directory is not".into());
        }
        entries::check_name(&name)?;
        match self.find_entry(&directory, &name)? {
            Some(found) if found.entry.ino.get() == from.nid.0 => return Ok(()),
            Some(found) => {
                let other = NodeId(found.entry.ino.get());
                match named_in.contains(&other) || self.is_full_directory(other)? {
                    true => self.move_aside(parent, &name, other)?,
                    false => links::unlink_unasked(self, parent, &name)?,
                }
            }
            None => {}
        }
        let hash = entries::hash_of_new(Blocks::geometry(self), &directory, &name)?;
        let room = entries::make_room(self, parent, hash, &name)?;
        entries::insert(self, parent, room, &NewEntry { hash, name: &name, ino: from.nid, kind: from.kind })
    }

    fn is_full_directory(&self, ino: NodeId) -> Result<bool> {
        let inode = WritableVolume::inode_at(self, ino)?;
        Ok(inode.kind == FileKind::Directory && !self.is_empty_directory(&inode)?)
    }

    /// Renames a directory to its number: it was renamed and a fsynced file took its old name, but
    /// its new name was lost with the power cut.
    fn move_aside(&mut self, parent: NodeId, name: &[u8], ino: NodeId) -> Result<()> {
        for other in 0..100_u32 {
            let free = if other == 0 { ino.0.to_string() } else { format!("{}.{other}", ino.0) };
            let directory = WritableVolume::inode_at(self, parent)?;
            if self.find_entry(&directory, free.as_bytes())?.is_none() {
                rename_unasked(self, parent, (name, free.as_bytes()))?;
                let detail = format!("an fsynced file has the name of this directory, which is now {free}");
                self.notes.push(Defect::new(FindingKind::State, detail).of(ino));
                return Ok(());
            }
        }
        let detail = "an fsynced file has the name of this directory, and all substitutes are taken";
        Err(Defect::new(FindingKind::State, detail).of(ino).into_error())
    }
}
