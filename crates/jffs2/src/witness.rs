//! Finding contradictions between inodes and names without a full check.

use std::collections::BTreeMap;

use nandkit_flash::Flash;
use nandkit_vfs::{FsError, Result};

use crate::Ino;
use crate::catalogue::NodeState;
use crate::damage::DamageKind;
use crate::inode::kind_text;
use crate::inode::{Body, Entry, Inode};
use crate::layout::format;
use crate::layout::{Header, INODE_SIZE, ROOT, node_type};
use crate::load::Piece;
use crate::medium::MOUNT;
use crate::scan::node;
use crate::volume::Jffs2;
use nandkit_vfs::FileKind;

impl<F: Flash> Jffs2<F> {
    /// Adds the contradictions between inodes and names to [`Jffs2::damage`], by the rules of
    /// [`Jffs2::check`]: impossible inodes, names in places where none are possible, and names with
    /// another type than their inode. A mount alone does not read the types of inodes.
    ///
    /// Errors: `Device`. Cost: a read of each inode node's fixed part; data are read only for links
    /// and doubtful inodes.
    pub fn witness_contradictions(&self) -> Result<()> {
        let mut formats: BTreeMap<Ino, Option<u32>> = BTreeMap::new();
        for (number, inode) in self.inodes.iter().filter(|(_, inode)| inode.links > 0) {
            formats.insert(*number, self.only_format(*number, inode)?);
        }
        // Faults of the root are found when it is loaded.
        self.body(ROOT)?;
        for (number, format) in &formats {
            let certain = format.filter(|format| FileKind::of_mode(*format).is_some() && *format != format::SYMLINK);
            if certain.is_none() {
                let body = self.body(*number)?;
                let fault = body.metadata.and_then(|at| self.own_fault(*number, at, body));
                self.damage.extend(fault.map(|fault| fault.damage));
            }
            let Some(entries) = self.inodes.get(number).and_then(|inode| inode.entries.as_deref()) else { continue };
            let agrees = |entry: &Entry| {
                certain == Some(format::DIRECTORY)
                    && formats.get(&entry.inode).copied().flatten() == Some(u32::from(entry.kind) << 12)
            };
            for (name, entry) in entries.iter().filter(|(_, entry)| entry.inode != Ino::NONE && !agrees(entry)) {
                let body = self.body(*number)?;
                if !body.dropped.contains_key(&entry.node) {
                    self.damage.extend(self.name_fault(*number, body, name, entry)?.map(|fault| fault.damage));
                }
            }
        }
        Ok(())
    }

    /// The type that all intact nodes of an inode agree on; `None` if there is none or they differ.
    /// Errors: `Device`.
    fn only_format(&self, number: Ino, inode: &Inode) -> Result<Option<u32>> {
        let order = self.medium.order();
        let mut only = None;
        for at in &inode.nodes {
            let Some(length) = self.catalogue.node(*at).filter(|node| !node.is_obsolete()).map(|node| node.length)
            else {
                continue;
            };
            let mut bytes = [0; INODE_SIZE as usize];
            let Some(bytes) = bytes.get_mut(..length.min(INODE_SIZE) as usize) else { continue };
            // Loading the inode will report whether the page is sound.
            let _ = self.medium.read(*at, bytes, MOUNT).map_err(|error| FsError::device("the flash", error))?;
            let header = Header::decode(order, bytes).filter(|header| header.check(order).is_ok());
            let Some(header) = header.filter(|header| header.node_type == node_type::INODE) else { continue };
            let node = node::inode(order, bytes, header.total_length).ok().filter(|node| node.inode == number);
            let Some(format) = node.map(|node| node.mode & format::MASK) else { continue };
            if *only.get_or_insert(format) != format {
                return Ok(None);
            }
        }
        Ok(only)
    }

    /// Ignores nodes that make the root anything other than a directory, because everything in it
    /// would be unreachable.
    pub(crate) fn drop_impossible_roots(&self, pieces: &mut Vec<Piece>, body: &mut Body) {
        pieces.retain(|piece| {
            let mode = piece.node.mode;
            let is_directory = mode & format::MASK == format::DIRECTORY;
            if !is_directory {
                let what = FileKind::of_mode(mode).map_or("of no possible type", kind_text);
                let detail =
                    format!("a node of the root says that it is {what} (mode {mode:#o}); expected a directory");
                self.note(piece.at, ROOT, DamageKind::Inode, detail);
                body.states.push((piece.at, NodeState::Obsolete));
            }
            is_directory
        });
    }
}
