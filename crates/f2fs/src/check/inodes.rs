//! The state kept per inode during a check, and paths of inodes.

use std::collections::BTreeMap;

use nandkit_units::Cause;
use nandkit_vfs::path::{DEPTH_MAX, PATH_BYTES_EACH, PathBudget};

use super::batch;
use crate::blocks::Blocks;
use crate::directory::no_key;
use crate::ids::{BlockAddress, NodeId};
use crate::layout::dentry::Slot;
use crate::layout::{DentryArea, inode_shape};

/// Inodes per chunk of the table.
const PIECE: u32 = 64;

/// The state of an inode that was named or read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InodeState {
    /// The directory of its first name; 0 if none.
    pub parent: u32,
    /// The block that holds that name: a directory block or the directory's inode.
    pub name_block: u32,
    pub name_slot: u16,
    pub name_length: u8,
    /// The type in the entry of its first name.
    pub entry_type: u8,
    /// The inode's own type, encoded as in an entry; 0 until it was read.
    pub inode_type: u8,
    /// The link count in the inode.
    pub links: u32,
    /// The number of names found.
    pub names: u32,
    /// For a directory: the number of subdirectories.
    pub directories: u32,
    /// Bits of [`state`].
    pub flags: u8,
}

/// Bits of [`InodeState::flags`].
pub(super) mod state {
    /// Deleted but still open when the checkpoint was written.
    pub const ORPHAN: u8 = 1;
    /// A quota file named by the superblock.
    pub const QUOTA: u8 = 2;
    /// Nothing refers to it.
    pub const LOST: u8 = 4;
    /// The name is in the inode of its directory.
    pub const NAME_INLINE: u8 = 8;
    /// For a directory: its names are encrypted.
    pub const ENCRYPTED: u8 = 16;
    /// The inode was damaged, so its counts mean nothing.
    pub const DAMAGED: u8 = 32;
}

impl InodeState {
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// States by nid. Memory: 40 bytes per nid of each chunk that is used.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    pieces: BTreeMap<u32, Box<[InodeState; PIECE as usize]>>,
}

impl Inodes {
    pub fn get(&self, nid: NodeId) -> InodeState {
        let piece = self.pieces.get(&(nid.0 / PIECE));
        piece.and_then(|piece| piece.get((nid.0 % PIECE) as usize)).copied().unwrap_or_default()
    }

    pub fn change(&mut self, nid: NodeId) -> &mut InodeState {
        let piece =
            self.pieces.entry(nid.0 / PIECE).or_insert_with(|| Box::new([InodeState::default(); PIECE as usize]));
        &mut piece[(nid.0 % PIECE) as usize]
    }

    /// All inodes that were read, ascending.
    pub fn read(&self) -> impl Iterator<Item = (NodeId, &InodeState)> {
        let all =
            self.pieces.iter().flat_map(|(number, piece)| (number.wrapping_mul(PIECE)..).map(NodeId).zip(piece.iter()));
        all.filter(|(_, state)| state.inode_type != 0)
    }
}

/// Builds paths, component by component from the inode up.
pub(super) struct Paths<'a> {
    blocks: &'a dyn Blocks,
    inodes: &'a Inodes,
    budget: PathBudget,
    /// The last inode looked up, since many findings concern the same one.
    last: Option<(NodeId, Option<Vec<u8>>)>,
}

impl<'a> Paths<'a> {
    pub fn new(blocks: &'a dyn Blocks, inodes: &'a Inodes) -> Self {
        Self { blocks, inodes, budget: PathBudget::default(), last: None }
    }

    /// The path of an inode, or the end of a long one; `None` if no chain of names leads to the
    /// root. Cost: one block per component.
    pub fn path(&mut self, nid: NodeId) -> Option<Vec<u8>> {
        if let Some((last, path)) = &self.last
            && *last == nid
        {
            return path.clone().filter(|path| self.budget.take(path.len() as u64));
        }
        let path = self.look_up(nid);
        self.last = Some((nid, path.clone()));
        path
    }

    fn look_up(&mut self, nid: NodeId) -> Option<Vec<u8>> {
        let (mut parts, mut bytes) = (Vec::new(), 0_u64);
        let mut here = nid;
        while here != NodeId::ROOT {
            let state = self.inodes.get(here);
            if state.parent == 0 || parts.len() >= DEPTH_MAX {
                return None;
            }
            // Longer than what is shown.
            if bytes > self.budget.longest().min(PATH_BYTES_EACH * 16) {
                parts.push(b"...".to_vec());
                break;
            }
            let name = self.name(&state)?;
            bytes += name.len() as u64 + 1;
            parts.push(name);
            here = NodeId(state.parent);
        }
        self.budget.take(bytes);
        let path: Vec<u8> = parts.iter().rev().flat_map(|part| [b"/", &part[..]].concat()).collect();
        Some(if path.is_empty() { b"/".to_vec() } else { path })
    }

    fn name(&self, of: &InodeState) -> Option<Vec<u8>> {
        let block = batch::one(self.blocks, Cause::Metadata, BlockAddress(of.name_block)).ok()?;
        let area = match of.has(state::NAME_INLINE) {
            true => {
                block.get(inode_shape(self.blocks.geometry(), self.blocks.geometry().features, &block).ok()?.inline)?
            }
            false => &block,
        };
        let Some(Slot::Entry(entry)) = DentryArea::new(area).slot(of.name_slot.into()) else { return None };
        let encrypted = self.inodes.get(NodeId(of.parent)).has(state::ENCRYPTED);
        Some(if encrypted { no_key::shown_name(entry.dentry.hash.get(), entry.name) } else { entry.name.to_vec() })
    }
}
