//! Writing, recording and moving an inode's nodes.

use nandkit_cleaning::separation::{Datum, DatumKey, Stamp};
use nandkit_flash::Flash;
use nandkit_units::{Cause, Nanos};
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::allocate::{Grant, Need};
use super::order::{Order, Reference};
use super::{corrupt, exhausted, summary};
use crate::catalogue::{NodeState, Owner};
use crate::encode::{DirentFields, InodeFields, Piece, dirent_node, inode_node};
use crate::fragments::Effect;
use crate::inode::{Body, Entry, Inode};
use crate::layout::{DIRENT_SIZE, Dirent, INODE_SIZE, PAGE_SIZE, compression};
use crate::volume::Jffs2;
use crate::{Ino, NodeAddress};

/// The page number in a separation's key that represents the inode's attributes.
const ATTRIBUTES: u32 = u32::MAX;

/// The key of a file's page in a separation.
pub(crate) const fn key(inode: Ino, page: u32) -> DatumKey {
    DatumKey((inode.0 as u64) << 32 | page as u64)
}

impl<F: Flash> Jffs2<F> {
    /// The inode, for changes. Errors: `NotFound`.
    pub(crate) fn inode_mut(&mut self, number: Ino) -> Result<&mut Inode> {
        let found = self.inodes.get_mut(&number);
        found.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("inode {number} does not exist")))
    }

    /// Loads an inode if necessary, and records in the catalogue which of its nodes are valid.
    pub(crate) fn settle(&mut self, number: Ino) -> Result<()> {
        self.body(number)?;
        let Some(body) = self.inodes.get_mut(&number).and_then(|inode| inode.body.get_mut()) else { return Ok(()) };
        let states = std::mem::take(&mut body.states);
        let dropped = std::mem::take(&mut body.dropped);
        for (at, state) in states {
            match state {
                NodeState::Obsolete => self.obsolete(at),
                other => self.catalogue.set_state(at, other),
            }
        }
        for (at, cookie) in dropped {
            self.obsolete(at);
            if let Some(entries) = self.inodes.get_mut(&number).and_then(|inode| inode.entries.as_mut()) {
                entries.forget_node(cookie, at);
            }
        }
        Ok(())
    }

    /// An inode's body, for changes. Errors: those of loading it.
    pub(crate) fn body_mut(&mut self, number: Ino) -> Result<&mut Body> {
        self.settle(number)?;
        let body = self.inodes.get_mut(&number).and_then(|inode| inode.body.get_mut());
        body.map(|body| &mut **body).ok_or_else(|| corrupt(format!("inode {number} has no content")))
    }

    /// The current time in seconds since 1970.
    pub(crate) fn seconds(&self) -> u32 {
        u32::try_from(self.medium.clock().unix_ns() / 1_000_000_000).unwrap_or(u32::MAX)
    }

    /// The version for an inode's next node. Errors: `NotSupported` after 2^32 versions.
    pub(crate) fn next_version(&mut self, number: Ino) -> Result<u32> {
        let inode = self.inode_mut(number)?;
        let next = inode.highest_version.checked_add(1);
        let next = next.ok_or_else(|| {
            exhausted(format!(
                "inode {number} has had all 2^32 versions that the format counts: it can be changed no more"
            ))
        })?;
        inode.highest_version = next;
        Ok(next)
    }

    /// The current fields of an inode for a node, with the next version.
    pub(crate) fn fields(&mut self, number: Ino) -> Result<InodeFields> {
        let version = self.next_version(number)?;
        let body = self.body_mut(number)?;
        Ok(InodeFields {
            inode: number,
            version,
            mode: body.mode,
            uid: body.uid,
            gid: body.gid,
            file_size: body.size,
            accessed: body.accessed,
            modified: body.modified,
            changed: body.changed,
        })
    }

    /// The destination of a file's page written by the user, and the stamp for its node.
    pub(crate) fn separate(&mut self, number: Ino, offset: u32) -> Result<Datum> {
        let previous = self.datum_at(number, offset);
        let now = self.medium.now();
        Ok(self.writer()?.separator.on_write(key(number, offset / PAGE_SIZE), previous, now))
    }

    /// The destination of attributes and names written by the user, by their inode.
    pub(crate) fn separate_attributes(&mut self, number: Ino) -> Result<Datum> {
        let previous = self.inodes.get(&number).and_then(|inode| inode.nodes.last()).and_then(|at| self.datum_of(*at));
        let now = self.medium.now();
        Ok(self.writer()?.separator.on_write(key(number, ATTRIBUTES), previous, now))
    }

    /// The separation's datum of the version at an offset of a file.
    fn datum_at(&self, number: Ino, offset: u32) -> Option<Datum> {
        let body = self.inodes.get(&number)?.body.get()?;
        self.datum_of(body.fragments.within(offset, offset.saturating_add(1)).first()?.node)
    }

    /// The separation's datum of a node.
    pub(crate) fn datum_of(&self, at: NodeAddress) -> Option<Datum> {
        let node = self.catalogue.node(at)?;
        let region = self.catalogue.block(at.block(self.catalogue.erase_size))?.region;
        Some(Datum { region, stamp: Stamp(node.written.get()) })
    }

    /// Writes an inode's node. The inode's body does not refer to it yet.
    pub(crate) fn write_inode(
        &mut self,
        grant: Grant,
        fields: &InodeFields,
        piece: &Piece<'_>,
        cause: Cause,
        stamp: Stamp,
    ) -> Result<NodeAddress> {
        let mut bytes = Vec::with_capacity(INODE_SIZE as usize + piece.bytes.len() + 3);
        inode_node(self.medium.order(), fields, piece, &mut bytes);
        // A whole page, or the last one up to the file's end, may be copied as it is
        // (fs/jffs2/write.c).
        let to_the_end = piece.offset.is_multiple_of(PAGE_SIZE) && piece.offset + piece.size == fields.file_size;
        let state = if piece.size >= PAGE_SIZE || to_the_end { NodeState::Pristine } else { NodeState::Normal };
        let size = self.inodes.get(&fields.inode).and_then(|inode| inode.body.get()).map_or(0, |body| body.size);
        let longer = fields.file_size > size || piece.compression == compression::ZERO;
        let order = if longer { Order::Longer } else { Order::Data };
        let owner = Owner::Inode(fields.inode);
        let at = self.place(grant, &bytes, Reference { owner, state, written: Nanos(stamp.0), cause, order })?;
        self.inode_mut(fields.inode)?.nodes.push(at);
        Ok(at)
    }

    /// Makes a node the newest one for a range of a file: the replaced nodes become obsolete, nodes
    /// in the same page are to be joined later (fs/jffs2/nodelist.c,
    /// `jffs2_add_full_dnode_to_inode`), and a separate attribute node is no longer needed.
    pub(crate) fn hold(&mut self, number: Ino, at: NodeAddress, start: u32, end: u32) -> Result<()> {
        let body = self.body_mut(number)?;
        let mut effects = Vec::new();
        body.fragments.insert(at, start, end, &mut effects);
        let metadata = body.metadata.take();
        let mut normal = Vec::new();
        if !start.is_multiple_of(PAGE_SIZE) {
            let before = body.fragments.within(start - 1, start).first().map(|fragment| fragment.node);
            normal.extend(before.into_iter().chain([at]));
        }
        if !end.is_multiple_of(PAGE_SIZE) && body.fragments.all().last().is_some_and(|last| last.end > end) {
            let behind = body.fragments.within(end, end + 1).first().map(|fragment| fragment.node);
            normal.extend(behind.into_iter().chain([at]));
        }
        self.effects(&effects, Some(at));
        normal.into_iter().for_each(|node| self.catalogue.set_state(node, NodeState::Normal));
        if let Some(metadata) = metadata {
            self.obsolete(metadata);
        }
        Ok(())
    }

    /// Applies the effects of a change of a file's map to nodes. `new` is the node that caused it.
    pub(crate) fn effects(&mut self, effects: &[Effect], new: Option<NodeAddress>) {
        for effect in effects {
            match *effect {
                Effect::Gone(node) => self.obsolete(node),
                Effect::Cut(node) => {
                    for node in [Some(node), new].into_iter().flatten() {
                        self.catalogue.set_state(node, NodeState::Normal);
                    }
                }
            }
        }
    }

    /// Writes an inode's attributes as a separate node; `piece` is a link's target, a device
    /// number, or a range that becomes a hole.
    pub(crate) fn write_attributes(
        &mut self,
        grant: Grant,
        fields: &InodeFields,
        piece: &Piece<'_>,
        cause: Cause,
        stamp: Stamp,
    ) -> Result<NodeAddress> {
        let at = self.write_inode(grant, fields, piece, cause, stamp)?;
        let body = self.body_mut(fields.inode)?;
        if let Some(old) = body.metadata.replace(at) {
            self.obsolete(old);
        }
        Ok(at)
    }

    /// Writes and records a directory entry; the entry that it replaces becomes obsolete. The name
    /// must be valid.
    pub(crate) fn write_dirent(
        &mut self,
        grant: Grant,
        fields: &DirentFields,
        name: &[u8],
        cause: Cause,
        stamp: Stamp,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(DIRENT_SIZE as usize + name.len() + 3);
        dirent_node(self.medium.order(), fields, name, &mut bytes);
        let state = if fields.inode == Ino::NONE { NodeState::Normal } else { NodeState::Pristine };
        let owner = Owner::Inode(fields.parent);
        let order = Order::Name;
        let at = self.place(grant, &bytes, Reference { owner, state, written: Nanos(stamp.0), cause, order })?;
        let directory = self.inode_mut(fields.parent)?;
        directory.nodes.push(at);
        let entry = Entry { inode: fields.inode, kind: fields.kind, version: fields.version, node: at };
        let old = directory.entries.get_or_insert_default().put(name, entry);
        if let Some(old) = old {
            self.obsolete(old.node);
        }
        Ok(())
    }

    /// The requirements of a directory entry.
    pub(crate) const fn need_dirent(region: u8, name: &[u8]) -> Need {
        let length = name.len() as u32;
        Need { region, least: DIRENT_SIZE + length, entry: summary::DIRENT_ENTRY + length }
    }

    /// The requirements of an inode's node with this much data.
    pub(crate) const fn need_inode(region: u8, data: u32) -> Need {
        Need { region, least: INODE_SIZE + data, entry: summary::INODE_ENTRY }
    }

    /// Records that a node was copied: references now point to the copy, and the original is
    /// obsolete.
    pub(crate) fn moved(&mut self, from: NodeAddress, to: NodeAddress, bytes: &[u8]) {
        let owner = self.catalogue.node(from).map(|node| node.owner());
        match owner {
            Some(Owner::Inode(number)) => self.moved_of_inode(number, from, to, bytes),
            Some(owner @ (Owner::Xattr(_) | Owner::Xref(_))) => self.moved_of_xattr(owner, from, to),
            Some(Owner::None) | None => {}
        }
        self.obsolete(from);
    }

    /// References to the original are found by its address: its bytes may have decayed to anything.
    fn moved_of_inode(&mut self, number: Ino, from: NodeAddress, to: NodeAddress, bytes: &[u8]) {
        let range = self.range_of(number, from);
        let Some(inode) = self.inodes.get_mut(&number) else { return };
        inode.nodes.push(to);
        if let Some(body) = inode.body.get_mut() {
            if body.metadata == Some(from) {
                body.metadata = Some(to);
                return;
            }
            if let Some((start, end)) = range {
                body.fragments.moved(from, to, start, end);
                return;
            }
        }
        let Some(entries) = inode.entries.as_mut() else { return };
        let length = Dirent::decode(self.medium.order(), bytes).map_or(0, |node| usize::from(node.name_length));
        let name = bytes.get(DIRENT_SIZE as usize..).and_then(|name| name.get(..length));
        let told = name.filter(|name| entries.get(name).is_some_and(|entry| entry.node == from)).map(<[u8]>::to_vec);
        if let Some(name) = told.or_else(|| entries.by_node(from).map(|(name, _)| name.to_vec())) {
            entries.moved(&name, to);
        }
    }

    /// The range of file bytes in a node, as start and end.
    pub(crate) fn range_of(&self, inode: Ino, at: NodeAddress) -> Option<(u32, u32)> {
        let body = self.inodes.get(&inode)?.body.get()?;
        let mut of_node = body.fragments.all().iter().filter(|fragment| fragment.node == at);
        let first = of_node.next()?;
        Some((first.start, of_node.next_back().unwrap_or(first).end))
    }
}
