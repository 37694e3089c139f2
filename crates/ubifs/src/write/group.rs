//! Groups of nodes, which take effect together, on their way through a head of the journal to the
//! index in memory.

use nandkit_vfs::{ErrorKind, FsError, Result};

use super::buffers::{BASE_HEAD, DATA_HEAD, HEADS};
use super::collect::Collected;
use crate::encode::{aligned, begin, number, pad};
use crate::layout::{Key, group};
use crate::mount::Ubifs;
use crate::node::Place;
use crate::recovery::entry_at;

/// What a node does to the index.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// It is the only one with its key.
    Leaf(Key),
    /// It is the entry of this name.
    Name(Key, Vec<u8>),
    /// It takes this name away.
    NoName(Key, Vec<u8>),
    /// Nothing is found by it: it tells the replay what happens to others.
    Mark,
}

/// Nodes that take effect together.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    nodes: Vec<(usize, usize, Effect)>,
}

impl Group {
    /// Adds a node.
    pub fn add(&mut self, node_type: u8, parts: &[&[u8]], effect: Effect) {
        let start = begin(node_type, 0, parts, &mut self.bytes);
        let length = self.bytes.len() - start;
        pad(&mut self.bytes, start + aligned(length));
        self.nodes.push((start, length, effect));
    }

    /// Bytes on flash.
    pub fn length(&self) -> u32 {
        self.bytes.len() as u32
    }
}

impl Ubifs {
    /// Writes a group through a head, and makes the index know it.
    ///
    /// Errors: `NoSpace` (nothing was written), and those of the device.
    pub(super) fn put(&mut self, head: usize, mut nodes: Group) -> Result<()> {
        self.reserve(head, nodes.length(), true)?;
        self.put_reserved(head, &mut nodes)
    }

    /// Writes a group for which there is room in the head's LEB.
    pub(super) fn put_reserved(&mut self, head: usize, written: &mut Group) -> Result<()> {
        let last = written.nodes.len().saturating_sub(1);
        let unit = self.writer()?.unit;
        for (index, (start, length, _)) in written.nodes.iter().enumerate() {
            let mark = match (head, index) {
                (DATA_HEAD, _) => group::NONE,
                (_, index) if index < last => group::GOES_ON,
                _ => group::LAST,
            };
            let sequence = self.writer()?.next_sequence();
            if let Some(node) = written.bytes.get_mut(*start..start + length) {
                number(node, sequence, mark);
            }
        }
        let (leb, at) = (self.lebs.head(head).leb, self.lebs.head(head).end());
        let leb = leb.ok_or_else(|| FsError::new(ErrorKind::NoSpace, "the head has no LEB"))?;
        let appended = self.lebs.append(head, unit, &written.bytes);
        self.or_broken(appended)?;
        let writer = self.writer()?;
        writer.is_changed = true;
        writer.space.written(leb, written.length(), writer.clock.now());
        for (start, length, effect) in std::mem::take(&mut written.nodes) {
            let place = Place { leb, offset: at + start as u32, length: length as u32 };
            let done = self.take_effect(effect, place);
            self.or_broken(done)?;
        }
        self.count_obsolete_index()
    }

    fn take_effect(&mut self, effect: Effect, place: Place) -> Result<()> {
        let dropped = match effect {
            Effect::Leaf(key) => self.tree.set(key, place),
            Effect::Mark => Some(place),
            Effect::Name(key, name) => match self.find_name(key, &name) {
                (nth, true) => self.tree.set_nth(key, nth, place),
                (nth, false) => {
                    self.tree.insert_nth(key, nth, place);
                    None
                }
            },
            Effect::NoName(key, name) => {
                self.drop_node(place)?;
                match self.find_name(key, &name) {
                    (nth, true) => self.tree.remove_nth(key, nth),
                    _ => None,
                }
            }
        };
        dropped.map_or(Ok(()), |place| self.drop_node(place))
    }

    /// Which leaf of a key has this name, or would have it: names stand in the order of their
    /// bytes, by which Linux finds them (`fs/ubifs/tnc.c`, `resolve_collision`).
    fn find_name(&self, key: Key, name: &[u8]) -> (usize, bool) {
        let places = self.tree.get(key);
        for (nth, place) in places.iter().enumerate() {
            let other = entry_at(&self.lebs, key, *place).map(|(_, other)| other).unwrap_or_default();
            if other.as_slice() >= name {
                return (nth, other == name);
            }
        }
        (places.len(), false)
    }

    /// Counts a node as out of use.
    pub(super) fn drop_node(&mut self, place: Place) -> Result<()> {
        let writer = self.writer()?;
        writer.space.dirtied(place.leb, aligned(place.length as usize) as u32);
        writer.is_full = false;
        Ok(())
    }

    /// Removes all that has these keys from the index.
    pub(super) fn drop_keys(&mut self, first: Key, last: Key) -> Result<()> {
        for (_, place) in self.tree.remove(first..=last) {
            self.drop_node(place)?;
        }
        self.count_obsolete_index()
    }

    /// Counts the index nodes that went out of use.
    pub(super) fn count_obsolete_index(&mut self) -> Result<()> {
        let obsolete = self.tree.take_obsolete();
        let writer = self.writer()?;
        for place in obsolete {
            writer.space.dirtied(place.leb, aligned(place.length as usize) as u32);
            writer.old_index.push(place);
        }
        Ok(())
    }

    /// Makes room for so many bytes in the LEB of a head; a commit may come before, if
    /// `may_commit`.
    pub(super) fn reserve(&mut self, head: usize, bytes: u32, may_commit: bool) -> Result<()> {
        let leb_size = self.writer()?.log.leb_size;
        if may_commit && self.writer()?.wants_commit {
            self.commit()?;
        }
        let mut has_committed = false;
        // Each pass collects a LEB, or ends.
        for _ in 0..=4 * self.writer()?.areas.leb_count {
            if self.lebs.head(head).leb.is_some() && self.lebs.head(head).end() + bytes <= leb_size {
                return Ok(());
            }
            let spare = self.references_spared();
            let log = &self.writer()?.log;
            if (may_commit && log.is_full(spare)) || log.has_no_room() {
                if !may_commit {
                    return Err(FsError::new(ErrorKind::NoSpace, "the log is full"));
                }
                self.commit()?;
                continue;
            }
            let found = match self.find_leb(head, bytes)? {
                Some(leb) => Some(leb),
                None => match self.collect(may_commit)? {
                    Collected::Freed(leb) => Some(leb),
                    Collected::Moved => None,
                    Collected::Index => {
                        self.commit()?;
                        None
                    }
                    // What was written since the last commit can be collected after the next one.
                    Collected::Nothing if may_commit && !has_committed => {
                        has_committed = true;
                        self.commit()?;
                        None
                    }
                    // A change that frees space takes what is kept for the index, which has
                    // gaps.
                    _ => match self.writer()?.space.find_empty() {
                        Some(leb) => Some(leb),
                        None => return Err(FsError::new(ErrorKind::NoSpace, "no LEB can be made free")),
                    },
                },
            };
            if let Some(leb) = found {
                self.open_bud(head, leb)?;
            }
        }
        Err(FsError::new(ErrorKind::NoSpace, "collecting frees no LEB"))
    }

    /// References that the inodes held back need in the log.
    fn references_spared(&self) -> u32 {
        let bytes = self.pending.len() as u32 * 168;
        bytes / self.superblock.leb_size.get().max(1) + 2
    }

    /// A LEB with room for a head. Inodes fill LEBs that are not full first; data take empty ones
    /// first, if more are left than the index may need (Linux `ubifs_find_free_space`).
    fn find_leb(&mut self, head: usize, bytes: u32) -> Result<Option<u32>> {
        let reserved = self.reserved_for_index();
        let space = &self.writer()?.space;
        let empty = if space.empty_left() > reserved { space.find_empty() } else { None };
        Ok(match head {
            BASE_HEAD => space.find_room(bytes).or(empty),
            _ => empty.or_else(|| space.find_room(bytes)),
        })
    }

    /// Ends the bud of a head, and goes on in another LEB.
    pub(super) fn open_bud(&mut self, head: usize, leb: u32) -> Result<()> {
        self.flush_head(head)?;
        let Self { lebs, writer: Some(writer), .. } = self else { return Ok(()) };
        let leb_size = writer.log.leb_size;
        let offset = leb_size - writer.space.get(leb).map_or(0, |leb| leb.free);
        if offset == 0 {
            lebs.writer()?.unmap(leb)?;
        }
        let added = writer.add_bud(lebs, head, leb, offset);
        self.or_broken(added)
    }

    /// Fills the last unit of a head with padding, and writes it.
    pub(super) fn flush_head(&mut self, head: usize) -> Result<()> {
        let Self { lebs, writer: Some(writer), .. } = self else { return Ok(()) };
        let flushed = lebs.flush(head, writer.unit);
        if let (Ok(padding), Some(leb)) = (&flushed, lebs.head(head).leb) {
            writer.space.written(leb, *padding, writer.clock.now());
            writer.space.dirtied(leb, *padding);
        }
        self.or_broken(flushed).map(drop)
    }

    /// Flushes all heads.
    pub(super) fn flush_heads(&mut self) -> Result<()> {
        (0..HEADS).try_for_each(|head| self.flush_head(head))
    }
}
