//! The name of a file of the chain (recovery.c, `recover_dentry`).

use nandkit_block::BlockDevice;
use nandkit_vfs::{FileKind, Result};

use crate::blocks::{Blocks, Nodes};
use crate::findings::{Finding, FindingKind};
use crate::ids::NodeId;
use crate::inode::Inode;
use crate::layout::inode::advise;
use crate::names::area::NewEntry;
use crate::names::store::InodeStore;
use crate::names::{entries, links};
use crate::write::Volume;

impl<D: BlockDevice> Volume<D> {
    /// Enters the name that an inode of the chain says into its parent. Another file of that name loses it first. Errors: `Corrupt` (no such directory), `NotSupported` (an encrypted one), `NoSpace`, `Device`.
    pub(super) fn enter_name(&mut self, from: &Inode) -> Result<()> {
        let parent = NodeId(from.head.parent.get());
        let wrong = |detail: String| Err(Finding::new(FindingKind::State, detail).of(from.nid).into_error());
        let known = parent >= NodeId::ROOT && Blocks::geometry(self).nat_block(parent).is_some();
        if !known || self.entry(parent)?.is_free() || Volume::inode_at(self, parent)?.kind != FileKind::Directory {
            return wrong(format!("a fsynced file is to be named in inode {}, which is no directory", parent.0));
        }
        let directory = Volume::inode_at(self, parent)?;
        let name = from.head.name().map(<[u8]>::to_vec).unwrap_or_default();
        entries::expect_plain(&directory)?;
        if from.head.has_advise(advise::ENCRYPTED_NAME) {
            return wrong("the name of a fsynced file is encrypted, and its directory is not".into());
        }
        entries::check_name(&name)?;
        match self.find_entry(&directory, &name)? {
            Some(found) if found.entry.ino.get() == from.nid.0 => return Ok(()),
            Some(_) => links::unlink(self, parent, &name)?,
            None => {}
        }
        let hash = entries::hash_of_new(Blocks::geometry(self), &directory, &name)?;
        let room = entries::make_room(self, parent, hash, &name)?;
        entries::insert(self, parent, room, &NewEntry { hash, name: &name, ino: from.nid, kind: from.kind })
    }
}
