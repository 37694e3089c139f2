//! Collecting nodes by owner.

use nandkit_units::{BlockIndex, Nanos};

use crate::catalogue::{Block, NodeRef, NodeState, Owner};
use crate::inode::{Inode, Inodes};
use crate::layout::ROOT;
use crate::medium::Shape;
use crate::scan::node::{FoundName, What};
use crate::scan::{BlockScan, Condition};
use crate::xattr::{Attribute, Reference, XattrTable};
use crate::{Ino, NodeAddress};

/// The results so far.
#[derive(Default)]
pub(super) struct Collected {
    /// The blocks with nodes and sums, not on lists yet.
    pub(super) blocks: Vec<Block>,
    /// The condition of each block.
    pub(super) conditions: Vec<Condition>,
    pub(super) inodes: Inodes,
    pub(super) xattrs: XattrTable,
    /// Whether any relevant node was found, current or not.
    pub(super) is_jffs2: bool,
    /// The sum of all versions, from which Linux derives where its lists begin.
    pub(super) versions: u32,
    /// The highest inode number in any node, including names of inodes without nodes and
    /// references: a number that a name still refers to must not be reused.
    pub(super) highest_inode: Ino,
    /// Whether any name was ever deleted: shown by an entry, or by a mark in place.
    pub(super) deletions: bool,
    /// Whether anything else shows a volume in use: a name that was given to another inode, or
    /// moved nodes.
    pub(super) in_use: bool,
    nodes: Vec<(Ino, NodeAddress, u32)>,
    pub(super) names: Vec<(NodeAddress, FoundName)>,
    /// Nodes that do not count but may reappear: owner, version (for a reference the attribute),
    /// and address.
    ghosts: Vec<(Owner, u32, NodeAddress)>,
    attributes: Vec<(u32, u32, NodeAddress)>,
    references: Vec<((Ino, u32), u32, NodeAddress)>,
}

impl Collected {
    /// Whether inodes without a name may have been deleted: names were deleted, or the collector
    /// ran, which also erases the evidence.
    pub(super) fn may_lack_what_was_deleted(&self) -> bool {
        self.deletions || self.in_use
    }

    /// Adds a block. Blocks must come in order.
    pub(super) fn add(&mut self, shape: &Shape, number: u32, scan: BlockScan, now: Nanos) {
        let mut block = Block::empty(shape.erase_size);
        self.deletions |= scan.is_marked;
        (block.first_written, block.last_written) = (now, now);
        // One more, for the rest of a block after its last node (`waste_free`): a growing list
        // doubles its capacity.
        block.nodes.reserve_exact(scan.found.len() + 1);
        for found in scan.found {
            let at = shape.address(BlockIndex(number), found.offset);
            let (owner, state) = self.note(at, found.what);
            block.nodes.push(NodeRef::new(found.offset, found.length, owner, state, now));
            block.free -= found.length.min(block.free);
            match state {
                NodeState::Unchecked => block.unchecked += found.length,
                NodeState::Pristine | NodeState::Normal => block.used += found.length,
                NodeState::Obsolete => block.dirty += found.length,
            }
        }
        self.blocks.push(block);
        self.conditions.push(scan.condition);
    }

    fn note(&mut self, at: NodeAddress, what: What) -> (Owner, NodeState) {
        self.is_jffs2 |= what != What::Obsolete;
        match what {
            What::Obsolete => (Owner::None, NodeState::Obsolete),
            What::Ghost(sound) => (self.note_ghost(at, *sound), NodeState::Obsolete),
            What::Cleanmarker | What::Summary => (Owner::None, NodeState::Normal),
            What::Unknown => (Owner::None, NodeState::Pristine),
            What::Inode { inode, version } => {
                self.highest_inode = self.highest_inode.max(inode);
                self.versions = self.versions.wrapping_add(version);
                self.nodes.push((inode, at, version));
                (Owner::Inode(inode), NodeState::Unchecked)
            }
            What::Dirent(name) => {
                let owner = Owner::Inode(name.parent);
                self.deletions |= name.inode == Ino::NONE;
                self.highest_inode = self.highest_inode.max(name.parent).max(name.inode);
                self.versions = self.versions.wrapping_add(name.version);
                self.nodes.push((name.parent, at, name.version));
                self.names.push((at, *name));
                (owner, NodeState::Unchecked)
            }
            What::Xattr { id, version } => {
                self.attributes.push((id, version, at));
                (Owner::Xattr(id), NodeState::Unchecked)
            }
            What::Xref { inode, id, sequence } => {
                self.highest_inode = self.highest_inode.max(inode);
                self.references.push(((inode, id), sequence, at));
                (Owner::Xref(inode), NodeState::Pristine)
            }
        }
    }

    /// Records a ghost. Only its numbers count: they must not be reused, and it is remembered as a
    /// node that may reappear.
    fn note_ghost(&mut self, at: NodeAddress, what: What) -> Owner {
        match what {
            What::Inode { inode, version } => {
                self.highest_inode = self.highest_inode.max(inode);
                self.ghosts.push((Owner::Inode(inode), version, at));
                Owner::Inode(inode)
            }
            What::Dirent(name) => {
                self.highest_inode = self.highest_inode.max(name.parent).max(name.inode);
                self.ghosts.push((Owner::Inode(name.parent), name.version, at));
                Owner::Inode(name.parent)
            }
            What::Xattr { id, .. } => {
                self.xattrs.highest_id = self.xattrs.highest_id.max(id);
                self.ghosts.push((Owner::Xattr(id), 0, at));
                Owner::Xattr(id)
            }
            What::Xref { inode, id, sequence } => {
                self.highest_inode = self.highest_inode.max(inode);
                self.xattrs.highest_id = self.xattrs.highest_id.max(id);
                self.xattrs.highest_sequence = self.xattrs.highest_sequence.max(sequence & !1);
                self.ghosts.push((Owner::Xref(inode), id, at));
                Owner::Xref(inode)
            }
            What::Obsolete | What::Cleanmarker | What::Summary | What::Unknown | What::Ghost(_) => Owner::None,
        }
    }

    /// Assigns ghosts to their owners, if those exist.
    pub(super) fn finish_ghosts(&mut self) {
        for (owner, number, at) in std::mem::take(&mut self.ghosts) {
            let nodes = match owner {
                Owner::Inode(inode) => self.inodes.get_mut(&inode).map(|inode| {
                    inode.highest_version = inode.highest_version.max(number);
                    &mut inode.nodes
                }),
                Owner::Xattr(id) => self.xattrs.attributes.get_mut(&id).map(|attribute| &mut attribute.nodes),
                Owner::Xref(inode) => {
                    self.xattrs.references.get_mut(&(inode, number)).map(|reference| &mut reference.nodes)
                }
                Owner::None => None,
            };
            if let Some(nodes) = nodes {
                nodes.push(at);
            }
        }
    }

    /// Whether a node is neither superseded nor a ghost.
    pub(super) fn counts(&self, at: NodeAddress, erase_size: u32) -> bool {
        let block = self.blocks.get(at.block(erase_size).index());
        let node = block.and_then(|block| block.nodes.get(block.place_of(at.offset(erase_size))?));
        node.is_some_and(|node| !node.is_obsolete())
    }

    /// Sets a node's state, and counts its bytes accordingly.
    pub(super) fn set_state(&mut self, at: NodeAddress, erase_size: u32, state: NodeState) {
        let Some(block) = self.blocks.get_mut(at.block(erase_size).index()) else { return };
        let Some(place) = block.place_of(at.offset(erase_size)) else { return };
        let Some(node) = block.nodes.get_mut(place) else { return };
        let (before, length) = (std::mem::replace(&mut node.state, state), node.length);
        for (state, adds) in [(before, false), (state, true)] {
            let sum = match state {
                NodeState::Unchecked => &mut block.unchecked,
                NodeState::Pristine | NodeState::Normal => &mut block.used,
                NodeState::Obsolete => &mut block.dirty,
            };
            *sum = if adds { *sum + length } else { *sum - length.min(*sum) };
        }
    }

    pub(super) fn finish_inodes(&mut self) {
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.sort_unstable();
        let mut inodes: Vec<(Ino, Inode)> = Vec::new();
        for own in nodes.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, _, _)) = own.first() else { continue };
            // Images are made in version order; moved nodes break it.
            self.in_use |= !own.is_sorted_by_key(|(_, _, version)| *version);
            let mut addresses = Vec::with_capacity(own.len());
            addresses.extend(own.iter().map(|(_, at, _)| *at));
            let highest_version = own.iter().map(|(_, _, version)| *version).max().unwrap_or(0);
            inodes.push((*number, Inode { nodes: addresses, highest_version, ..Inode::default() }));
        }
        self.inodes = inodes.into_iter().collect();
        self.inodes.entry(ROOT).or_default();
    }

    pub(super) fn finish_attributes(&mut self, erase_size: u32) {
        let mut found = std::mem::take(&mut self.attributes);
        found.sort_unstable();
        for own in found.chunk_by(|a, b| a.0 == b.0) {
            let Some((id, version, node)) = own.last().copied() else { continue };
            for (_, _, old) in own.iter().filter(|(_, _, at)| *at != node) {
                self.set_state(*old, erase_size, NodeState::Normal);
            }
            let nodes = own.iter().map(|(_, _, at)| *at).collect();
            let content = std::sync::OnceLock::new();
            self.xattrs.attributes.insert(id, Attribute { nodes, node, version, users: 0, content });
            self.xattrs.highest_id = self.xattrs.highest_id.max(id);
        }
    }

    /// Of all references of an inode to an attribute, only the one with the highest sequence number
    /// counts.
    pub(super) fn finish_references(&mut self, erase_size: u32) {
        let mut found = std::mem::take(&mut self.references);
        found.sort_unstable();
        for own in found.chunk_by(|a, b| a.0 == b.0) {
            let Some(((inode, id), sequence, node)) = own.last().copied() else { continue };
            for (_, _, old) in own.iter().filter(|(_, _, at)| *at != node) {
                self.set_state(*old, erase_size, NodeState::Normal);
            }
            let nodes = own.iter().map(|(_, _, at)| *at).collect();
            self.xattrs.highest_sequence = self.xattrs.highest_sequence.max(sequence & !1);
            self.xattrs.references.insert((inode, id), Reference { nodes, node, sequence });
        }
    }
}
