//! Moving a valid node: copying it, or rewriting its content joined with its neighbours in the
//! page.

use nandkit_cleaning::separation::{Datum, Stamp};
use nandkit_flash::Flash;
use nandkit_units::{Cause, Nanos};
use nandkit_vfs::{ErrorKind, Result};

use crate::catalogue::{NodeRef, NodeState, Owner, Queue, is_dirty};
use crate::encode::{DirentFields, InodeFields, Piece, inode_node};
use crate::fragments::{Fragment, Fragments};
use crate::layout::format;
use crate::layout::{
    self, ByteOrder, DIRENT_SIZE, Dirent, Header, INODE_SIZE, MIN_DATA, PAGE_SIZE, compression, covered, crc, node_type,
};
use crate::scan::node;
use crate::volume::Jffs2;
use crate::write::allocate::Need;
use crate::write::attributes::attached;
use crate::write::device;
use crate::write::node::key;
use crate::write::order::{Order, Reference};
use crate::{Ino, NodeAddress};

/// What precedes or follows a range of a file: a fragment, or a hole between fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Neighbour {
    start: u32,
    end: u32,
    node: Option<NodeAddress>,
}

impl Neighbour {
    const fn of(fragment: &Fragment) -> Self {
        Self { start: fragment.start, end: fragment.end, node: Some(fragment.node) }
    }
}

fn before(fragments: &Fragments, at: u32) -> Option<Neighbour> {
    let all = fragments.all();
    let last = all[..all.partition_point(|fragment| fragment.end <= at)].last();
    match last {
        Some(last) if last.end == at => Some(Neighbour::of(last)),
        other => {
            let start = other.map_or(0, |last| last.end);
            (start < at).then_some(Neighbour { start, end: at, node: None })
        }
    }
}

fn behind(fragments: &Fragments, at: u32) -> Option<Neighbour> {
    let all = fragments.all();
    let next = all.get(all.partition_point(|fragment| fragment.start < at))?;
    Some(if next.start == at { Neighbour::of(next) } else { Neighbour { start: at, end: next.start, node: None } })
}

impl<F: Flash> Jffs2<F> {
    /// Moves a node of an inode.
    pub(super) fn collect_of_inode(&mut self, inode: Ino, at: NodeAddress, node: &NodeRef) -> Result<()> {
        let Some(found) = self.inodes.get(&inode) else {
            self.obsolete(at);
            return Ok(());
        };
        let has_names = found.entries.is_some();
        match self.settle(inode) {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Device => return Err(error),
            Err(_) => return self.copy(at, node, None),
        }
        // Loading the inode may have shown that the node is obsolete.
        let Some(node) = self.catalogue.node(at).filter(|node| !node.is_obsolete()).copied() else { return Ok(()) };
        let body = self.inodes.get(&inode).and_then(|found| found.body.get());
        if body.is_some_and(|body| body.metadata == Some(at)) {
            return self.collect_attributes(inode, at, &node);
        }
        // A hostile image may have names in a file; its data are those of a file nevertheless.
        let is_file = body.is_some_and(|body| body.format() == format::REGULAR);
        if has_names && !(is_file && self.range_of(inode, at).is_some()) {
            return self.collect_of_directory(inode, at, &node);
        }
        let mut datum = None;
        if node.state == NodeState::Pristine {
            match self.copy_data(inode, at, &node)? {
                None => return Ok(()),
                separated => datum = separated,
            }
        }
        if self.has_no_version_left(inode) {
            return self.copy(at, &node, None);
        }
        self.rewrite(inode, at, &node, datum)
    }

    /// Moves the node that alone holds an inode's attributes. If it has decayed since it was read,
    /// rewrites the attributes from memory.
    fn collect_attributes(&mut self, inode: Ino, at: NodeAddress, node: &NodeRef) -> Result<()> {
        let datum = self.separate_moved(inode, u32::MAX, at)?;
        let need = Need { region: datum.region, least: node.length, entry: crate::write::INODE_ENTRY };
        let grant = self.reserve_collecting(need)?;
        let bytes = self.read_node(at, node)?;
        if self.is_sound_data(&bytes) || self.has_no_version_left(inode) {
            return self.place_copy(at, node, &bytes, grant);
        }
        let order = self.medium.order();
        let attached = attached(order, self.body_mut(inode)?);
        let length = attached.len() as u32;
        let grant = self.reserve_collecting(Self::need_inode(datum.region, length))?;
        let fields = self.fields(inode)?;
        let piece = Piece { offset: 0, size: length, compression: compression::NONE, bytes: &attached };
        self.write_attributes(grant, &fields, &piece, Cause::Cleaning, datum.stamp)?;
        self.writer()?.counters.rewritten += 1;
        Ok(())
    }

    fn read_node(&self, at: NodeAddress, node: &NodeRef) -> Result<Vec<u8>> {
        let mut bytes = vec![0; node.length as usize];
        let _ = self.medium.read(at, &mut bytes, Cause::Cleaning).map_err(device)?;
        Ok(bytes)
    }

    /// The destination of a moved node, and the stamp that it keeps.
    pub(super) fn separate_moved(&mut self, inode: Ino, page: u32, at: NodeAddress) -> Result<Datum> {
        let datum = self.datum_of(at).unwrap_or_default();
        let now = self.medium.now();
        Ok(self.writer()?.separator.on_clean(key(inode, page), datum, now))
    }

    fn place_copy(
        &mut self,
        at: NodeAddress,
        node: &NodeRef,
        bytes: &[u8],
        grant: crate::write::allocate::Grant,
    ) -> Result<()> {
        let (owner, state, written) = (node.owner(), node.state, node.written);
        let reference = Reference { owner, state, written, cause: Cause::Cleaning, order: Order::Copy };
        let to = self.place(grant, bytes, reference)?;
        self.moved(at, to, bytes);
        self.writer()?.counters.moved_as_they_were += 1;
        Ok(())
    }

    /// Copies a node as it is, damaged or not.
    pub(super) fn copy(&mut self, at: NodeAddress, node: &NodeRef, entry: Option<u32>) -> Result<()> {
        let inode = if let Owner::Inode(inode) = node.owner() { inode } else { Ino::NONE };
        let datum = self.separate_moved(inode, u32::MAX, at)?;
        let need = Need { region: datum.region, least: node.length, entry: entry.unwrap_or(node.length) };
        let grant = self.reserve_collecting(need)?;
        let bytes = self.read_node(at, node)?;
        self.place_copy(at, node, &bytes, grant)
    }

    /// Copies a completely valid node of file data. If it must be rewritten because it does not fit
    /// the rest of the open block or is damaged, returns where the separation wants it.
    fn copy_data(&mut self, inode: Ino, at: NodeAddress, node: &NodeRef) -> Result<Option<Datum>> {
        // Its position in the file is unknown before it is read, so the separation uses the first
        // fragment.
        let start = self.range_of(inode, at).map_or(0, |(start, _)| start);
        let datum = self.separate_moved(inode, start / PAGE_SIZE, at)?;
        // The least space for a piece, so that a piece fills the end of a block; and the node's
        // length for its summary entry: both as in fs/jffs2/gc.c.
        let least = node.length.min(INODE_SIZE + MIN_DATA);
        let grant = self.reserve_collecting(Need { region: datum.region, least, entry: node.length })?;
        if grant.room < node.length {
            return Ok(Some(datum));
        }
        let bytes = self.read_node(at, node)?;
        if !self.is_sound_data(&bytes) {
            return Ok(Some(datum));
        }
        self.place_copy(at, node, &bytes, grant)?;
        Ok(None)
    }

    fn is_sound_data(&self, bytes: &[u8]) -> bool {
        let order = self.medium.order();
        let Some(node) = layout::Inode::decode(order, bytes) else { return false };
        let data = bytes.get(INODE_SIZE as usize..).and_then(|data| data.get(..node.compressed_size as usize));
        Header::decode(order, bytes).is_some_and(|header| header.check(order).is_ok())
            && node.node_type == node_type::INODE
            && bytes.get(..covered::INODE).is_some_and(|covered| crc(covered) == node.node_crc)
            && data.is_some_and(|data| crc(data) == node.data_crc || node.data_size == 0)
    }

    /// The fixed part of a node that is a hole with valid checksums: a decayed node that looks like
    /// a hole holds data.
    fn sound_hole(&self, bytes: &[u8]) -> Option<layout::Inode> {
        let order = self.medium.order();
        let header = Header::decode(order, bytes).filter(|header| header.check(order).is_ok())?;
        let found = node::inode(order, bytes, header.total_length).ok()?;
        (header.node_type == node_type::INODE && found.compression == compression::ZERO).then_some(found)
    }

    /// Rewrites the valid parts of a node of file data. `datum` is the separation's decision for
    /// the first page, if already made; the separation decides once for each moved page.
    fn rewrite(&mut self, inode: Ino, at: NodeAddress, node: &NodeRef, mut datum: Option<Datum>) -> Result<()> {
        let Some((start, end)) = self.range_of(inode, at) else {
            // Nothing refers to it.
            self.obsolete(at);
            return Ok(());
        };
        let bytes = self.read_node(
            at,
            &NodeRef::new(node.offset, INODE_SIZE.min(node.length), node.owner(), node.state, node.written),
        )?;
        let hole = self.sound_hole(&bytes).filter(|_| start / PAGE_SIZE < (end - 1) / PAGE_SIZE);
        if let Some(hole) = hole {
            let datum = datum.map_or_else(|| self.separate_moved(inode, start / PAGE_SIZE, at), Ok)?;
            return self.rewrite_hole(inode, at, hole, (start, end), datum);
        }
        // Other systems may have larger pages, so that one node fills several pages here.
        let mut from = start;
        while from < end {
            let to = (from - from % PAGE_SIZE).saturating_add(PAGE_SIZE).min(end);
            let datum = datum.take().map_or_else(|| self.separate_moved(inode, from / PAGE_SIZE, at), Ok)?;
            match self.rewrite_page(inode, (from, to), datum) {
                Ok(()) => {}
                Err(error) if stays_as_it_is(error.kind) => return self.copy(at, node, None),
                Err(error) => return Err(error),
            }
            from = to;
        }
        // The ranges between its fragments are in newer nodes.
        if self.range_of(inode, at).is_none() {
            self.obsolete(at);
        }
        Ok(())
    }

    /// Rewrites a part of a page, joined with its neighbours in the page if that is useful.
    fn rewrite_page(&mut self, inode: Ino, range: (u32, u32), datum: Datum) -> Result<()> {
        let (start, end) = self.widened(inode, range);
        let mut bytes = vec![0; (end - start) as usize];
        self.content(inode, start, &mut bytes)?;
        let mut done = 0;
        while start + (done as u32) < range.1 {
            let grant = self.reserve_collecting(Self::need_inode(datum.region, MIN_DATA))?;
            let from = start + done as u32;
            done += self.write_piece(inode, grant, from, &bytes[done..], (Cause::Cleaning, datum.stamp))?;
            self.writer()?.counters.rewritten += 1;
        }
        Ok(())
    }

    /// Extends a range of a page by its neighbours in the page: small pieces always; those that
    /// reach the page's beginning or end only if they are in the victim or in a dirty block,
    /// because clean blocks would become dirty. Not at all if few blocks are free (fs/jffs2/gc.c).
    fn widened(&self, inode: Ino, (start, end): (u32, u32)) -> (u32, u32) {
        let ready = self.catalogue.ready();
        let merge = self.writer.as_deref().map_or(u32::MAX, |writer| writer.levels().merge);
        let Some(body) = self.inodes.get(&inode).and_then(|found| found.body.get()) else { return (start, end) };
        if ready <= merge {
            return (start, end);
        }
        let least = start - start % PAGE_SIZE;
        let most = least.saturating_add(PAGE_SIZE);
        let (mut from, mut to) = (start, end);
        while let Some(found) = before(&body.fragments, from).filter(|found| found.start >= least) {
            if found.start == least && !self.is_worth_joining(found.node) {
                break;
            }
            from = found.start;
        }
        while let Some(found) = behind(&body.fragments, to).filter(|found| found.end <= most) {
            if found.end == most && !self.is_worth_joining(found.node) {
                break;
            }
            to = found.end;
        }
        (from, to)
    }

    fn is_worth_joining(&self, node: Option<NodeAddress>) -> bool {
        let Some(node) = node else { return false };
        let block = self.catalogue.block(node.block(self.catalogue.erase_size));
        block.is_some_and(|block| block.queue == Queue::Collecting || is_dirty(block.dirty + block.wasted))
    }

    /// Rewrites a hole of several pages. One that was partly overwritten keeps its version and its
    /// whole range.
    fn rewrite_hole(
        &mut self,
        inode: Ino,
        at: NodeAddress,
        old: layout::Inode,
        (start, end): (u32, u32),
        datum: Datum,
    ) -> Result<()> {
        let grant = self.reserve_collecting(Self::need_inode(datum.region, 0))?;
        self.writer()?.counters.rewritten += 1;
        let body = self.body_mut(inode)?;
        let fragments = body.fragments.all().iter().filter(|fragment| fragment.node == at).count();
        if fragments == 1 {
            let fields = self.fields(inode)?;
            let hole = Piece::hole(start, end - start);
            let node = self.write_inode(grant, &fields, &hole, Cause::Cleaning, datum.stamp)?;
            return self.hold(inode, node, start, end);
        }
        let fields = InodeFields {
            inode,
            version: old.version,
            mode: body.mode,
            uid: body.uid,
            gid: body.gid,
            file_size: body.size,
            accessed: body.accessed,
            modified: body.modified,
            changed: body.changed,
        };
        let mut bytes = Vec::new();
        inode_node(self.medium.order(), &fields, &Piece::hole(old.offset, old.span()), &mut bytes);
        let Stamp(stamp) = datum.stamp;
        let (owner, state) = (Owner::Inode(inode), NodeState::Normal);
        let (written, cause) = (Nanos(stamp), Cause::Cleaning);
        let to = self.place(grant, &bytes, Reference { owner, state, written, cause, order: Order::Copy })?;
        self.moved(at, to, &bytes);
        Ok(())
    }

    /// Moves a directory entry, or drops a deletion that no longer hides anything. The entry gets a
    /// new version: if the erase of its old block were interrupted, the remaining copy could be
    /// taken for it. It is written from memory, as in Linux, because content that has decayed on
    /// flash since it was read must not get a valid checksum.
    fn collect_of_directory(&mut self, directory: Ino, at: NodeAddress, node: &NodeRef) -> Result<()> {
        let bytes = self.read_node(at, node)?;
        let name = sound_name(self.medium.order(), &bytes);
        let entries = self.inodes.get(&directory).and_then(|inode| inode.entries.as_deref());
        let found = entries.and_then(|entries| match name {
            Some(name) => entries.get(name).filter(|found| found.node == at).map(|found| (name, found)),
            None => entries.by_node(at),
        });
        let Some((name, inode, kind)) = found.map(|(name, found)| (name.to_vec(), found.inode, found.kind)) else {
            // Nothing refers to it, not even the directory that it names.
            self.obsolete(at);
            return Ok(());
        };
        if inode == Ino::NONE && !self.hides_something(directory, &name)? {
            if let Some(entries) = self.inodes.get_mut(&directory).and_then(|inode| inode.entries.as_mut()) {
                entries.forget(&name);
            }
            self.obsolete(at);
            self.writer()?.counters.deletions_dropped += 1;
            return Ok(());
        }
        if self.has_no_version_left(directory) {
            return self.copy(at, node, None);
        }
        let datum = self.separate_moved(directory, u32::MAX, at)?;
        let grant = self.reserve_collecting(Self::need_dirent(datum.region, &name))?;
        // A mount takes a directory's times from its newest entry; 0 keeps them, which is correct
        // if they were set explicitly.
        let body = self.body_mut(directory)?;
        let made = if body.modified == body.changed { body.modified } else { 0 };
        let version = self.next_version(directory)?;
        let fields = DirentFields { parent: directory, version, inode, made, kind };
        self.write_dirent(grant, &fields, &name, Cause::Cleaning, datum.stamp)?;
        self.writer()?.counters.rewritten += 1;
        Ok(())
    }

    /// Whether the inode has used its last version number, in a hostile image or after 2^32
    /// changes, so that none of its nodes can be rewritten. They are then copied as they are.
    fn has_no_version_left(&self, inode: Ino) -> bool {
        self.inodes.get(&inode).is_some_and(|inode| inode.highest_version == u32::MAX)
    }

    /// Whether an older entry with the name is still on the flash and would reappear without this
    /// deletion (fs/jffs2/gc.c, `jffs2_garbage_collect_deletion_dirent`). Linux ignores older
    /// entries in the victim itself; but an interrupted erase may remove the deletion and leave the
    /// older entry. A deletion whose older entry is in the victim is therefore moved once, and
    /// dropped when it is collected again.
    fn hides_something(&self, directory: Ino, name: &[u8]) -> Result<bool> {
        let length = (DIRENT_SIZE + name.len() as u32).next_multiple_of(4);
        let Some(inode) = self.inodes.get(&directory) else { return Ok(false) };
        for other in &inode.nodes {
            // Here a node's length may include padding.
            let Some(node) = self.catalogue.node(*other).filter(|node| node.is_obsolete() && node.length >= length)
            else {
                continue;
            };
            let mut bytes = vec![0; length.min(node.length) as usize];
            let _ = self.medium.read(*other, &mut bytes, Cause::Cleaning).map_err(device)?;
            let Some(entry) = Dirent::decode(self.medium.order(), &bytes) else { continue };
            let behind = bytes.get(DIRENT_SIZE as usize..).and_then(|behind| behind.get(..name.len()));
            let same = usize::from(entry.name_length) == name.len() && behind == Some(name);
            if entry.node_type == node_type::DIRENT && entry.inode != Ino::NONE && same {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a node that cannot be rewritten for this reason is copied: it is damaged, its inode is
/// no file after all, or has no version left.
const fn stays_as_it_is(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::InvalidArgument | ErrorKind::IsADirectory | ErrorKind::NotSupported)
}

/// The name in a directory entry with valid checksums.
fn sound_name(order: ByteOrder, bytes: &[u8]) -> Option<&[u8]> {
    let entry = Dirent::decode(order, bytes).filter(|entry| entry.node_type == node_type::DIRENT)?;
    let header = Header::decode(order, bytes)?;
    let name = bytes.get(DIRENT_SIZE as usize..)?.get(..usize::from(entry.name_length))?;
    let sound = header.check(order).is_ok()
        && crc(bytes.get(..covered::DIRENT)?) == entry.node_crc
        && crc(name) == entry.name_crc;
    sound.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_neighbours_too() {
        let mut fragments = Fragments::default();
        let node = NodeAddress(4);
        fragments.insert(node, 100, 200, &mut Vec::new());
        fragments.insert(NodeAddress(8), 300, 400, &mut Vec::new());
        let hole = |start, end| Some(Neighbour { start, end, node: None });
        assert_eq!((before(&fragments, 100), before(&fragments, 0)), (hole(0, 100), None));
        assert_eq!(before(&fragments, 200), Some(Neighbour { start: 100, end: 200, node: Some(node) }));
        assert_eq!((before(&fragments, 300), behind(&fragments, 200)), (hole(200, 300), hole(200, 300)));
        assert_eq!(
            (behind(&fragments, 100).map(|found| found.node), behind(&fragments, 400)),
            (Some(Some(node)), None)
        );
    }
}
